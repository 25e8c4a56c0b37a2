"""How identity providers are configured, and who one of their accounts is here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.api.settings import report
from interlock.rooms.identity.model import Role
from interlock.service.providers import NotVouched, Provider, providers_from, vouched
from interlock.service.settings import BadSetting, settings_from

ONE = {"oidc_issuer": "https://login.example", "oidc_client_id": "interlock"}


def settings(**given: object) -> Any:
    return settings_from({}, config="", store="memory:", **given)


def acme(**given: Any) -> Provider:
    return Provider(id="sso", title="Acme", issuer="https://login.example", client_id="interlock", **given)


def test_without_settings_there_is_no_provider() -> None:
    assert providers_from(settings()) == ()


def test_one_provider_needs_its_issuer_and_our_name_there() -> None:
    (one,) = providers_from(settings(**ONE, oidc_roles="leads=review+admin, ops=operate,*=submit"))
    assert (one.id, one.title, one.create, one.adopt) == ("sso", "single sign-on", True, False)
    assert one.roles == {
        "leads": (Role.REVIEW, Role.ADMIN),
        "ops": (Role.OPERATE,),
        "*": (Role.SUBMIT,),
    }


BAD: dict[str, tuple[dict[str, object], str]] = {
    "half": ({"oidc_client_id": ""}, "set together"),
    "http": ({"oidc_issuer": "http://login.example"}, "https"),
    "role": ({"oidc_roles": "leads=boss"}, "'boss' is not a role"),
    "pair": ({"oidc_roles": "leads"}, "oidc_roles must be like"),
    "group": ({"oidc_groups": "leads=with space"}, "cannot be a group"),
    "scopes": ({"oidc_scopes": "profile"}, "openid"),
    "file": ({"oidc_providers": "/nowhere.toml"}, "cannot be read"),
    "workers": ({"workers": 2, "store": "postgresql://db/x"}, "secret must be set"),
}


@pytest.mark.parametrize(("changes", "why"), BAD.values(), ids=BAD)
def test_a_provider_that_cannot_be_used_is_refused_at_the_start(changes: dict[str, object], why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        settings_from({}, config="", **({"store": "memory:"} | ONE | changes))


def test_several_providers_stand_in_a_file_with_their_secrets_beside_it(tmp_path: Path) -> None:
    (tmp_path / "google.secret").write_text("hush\n")
    (tmp_path / "oidc.toml").write_text("""
[google]
issuer = "https://accounts.google.com"
client_id = "a"
client_secret_file = "google.secret"
[corp]
name = "Corp login"
issuer = "https://login.example"
client_id = "b"
roles = {"cn=leads,ou=x" = ["review", "admin"]}
""")
    google, corp = providers_from(settings(oidc_providers=str(tmp_path / "oidc.toml")))
    assert (google.id, google.title, google.client_secret) == ("google", "Google", "hush")
    assert (corp.title, corp.roles) == ("Corp login", {"cn=leads,ou=x": (Role.REVIEW, Role.ADMIN)})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[sso]\nissuer = 'https://a.example'\nclient_id = 'a'", "another name"),
        ("[Big]\nissuer = 'https://a.example'\nclient_id = 'a'", "small letters"),
        ("[a]\nissuer = 'https://a.example'\nclient_id = 'a'\nrole = 1", "role"),
        ("[a]\nissuer = 'http://a.example'\nclient_id = 'a'", "a.issuer must be an https address"),
        ("[a", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "oidc.toml").write_text(text)
    with pytest.raises(BadSetting, match=why):
        settings(**ONE, oidc_providers=str(tmp_path / "oidc.toml"))


def test_the_client_secret_is_never_shown() -> None:
    shown = {each.name: each for each in report(settings(**ONE, oidc_client_secret="hush"))}
    assert (shown["oidc_client_secret"].value, shown["oidc_client_secret"].is_secret) == (None, True)
    assert shown["oidc_issuer"].value == "https://login.example"


def test_a_group_keeps_its_name_unless_groups_are_mapped() -> None:
    claims = {"sub": "1", "preferred_username": "ada", "groups": ["finance", "no name", "ops", 7]}
    assert vouched(acme(), claims).groups == ("finance", "ops")
    assert vouched(acme(groups={"no name": "ours"}), claims).groups == ("ours",)


def test_roles_come_from_known_groups_and_from_everybody_only() -> None:
    provider = acme(roles={"leads": (Role.REVIEW,), "*": (Role.SUBMIT,)})
    told: dict[str, Any] = {"sub": "1", "preferred_username": "ada"}
    assert vouched(provider, told | {"groups": ["leads", "admin"]}).roles == (Role.SUBMIT, Role.REVIEW)
    assert vouched(provider, told | {"groups": "leads"}).roles == (Role.SUBMIT, Role.REVIEW)
    assert vouched(acme(roles={"leads": (Role.REVIEW,)}), told | {"groups": {"leads": 1}}).roles == ()


@pytest.mark.parametrize("subject", [None, "", 7, "x" * 256, "a\nb", "\ud800"])
def test_an_account_without_a_usable_subject_is_nobody(subject: object) -> None:
    with pytest.raises(NotVouched):
        vouched(acme(), {"sub": subject, "preferred_username": "ada"})
