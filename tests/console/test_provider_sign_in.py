"""Signing in with an identity provider, good and bad, as a browser does it: one server, one provider, plain HTTP."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from interlock.console.provider_sign_in import PURPOSE
from interlock.kernel.codec.sealing import seal, unseal
from tests.harness.console_site import Company, ConsoleSite
from tests.harness.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, new_key

HTML = {"accept": "text/html"}
SECRET = "of this deployment"
_addresses = itertools.count(1)


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider().start()
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def site(
    company: Company, provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleSite]:
    folder = tmp_path_factory.mktemp("oidc")
    env = settings_of(provider) | {"INTERLOCK_TRUSTED_PROXIES": "127.0.0.1/32", "INTERLOCK_SECRET": SECRET}
    site = ConsoleSite(
        company, folder, env=env | {"INTERLOCK_OIDC_PROVIDERS": str(several(folder, provider))}
    )
    yield site.start()
    site.close()


def settings_of(provider: IdentityProvider, **more: str) -> dict[str, str]:
    return {
        "INTERLOCK_OIDC_ISSUER": provider.issuer,
        "INTERLOCK_OIDC_CLIENT_ID": CLIENT_ID,
        "INTERLOCK_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "INTERLOCK_OIDC_NAME": "Acme",
        "INTERLOCK_OIDC_ROLES": "finance-leads=review+admin,ops=operate",
        **more,
    }


def several(folder: Path, provider: IdentityProvider) -> Path:
    """The same provider again under two more names: one that makes nobody, and one that may take over."""
    (folder / "secret").write_text(CLIENT_SECRET + "\n")
    same = f'issuer = "{provider.issuer}"\nclient_id = "{CLIENT_ID}"\nclient_secret_file = "secret"\n'
    file = folder / "oidc.toml"
    file.write_text(
        f'[guests]\nname = "Guests"\n{same}create = false\n[adopting]\n{same}create = false\nadopt = true\n'
    )
    return file


class Browser(httpx2.Client):
    """Somebody's browser, from an address of its own: failures of one do not slow down another."""

    def __init__(self, site: ConsoleSite) -> None:
        headers = HTML | {"x-forwarded-for": f"10.0.0.{next(_addresses)}"}
        super().__init__(base_url=site.url, headers=headers)

    def to_callback(self, provider: str = "sso", back: str = "") -> str:
        """Begin, let the provider agree, and return the address to which it sends us back."""
        begun = self.get(f"/console/sign-in/{provider}", params={"next": back} if back else {})
        assert begun.status_code == 303, begun.text
        with httpx2.Client() as outside:
            return outside.get(begun.headers["location"]).headers["location"]

    def sign_in(self, provider: str = "sso", back: str = "") -> httpx2.Response:
        return self.get(self.to_callback(provider, back))

    @property
    def is_signed_in(self) -> bool:
        return self.get("/console/inbox").status_code != 303


@pytest.fixture
def browser(site: ConsoleSite, provider: IdentityProvider) -> Iterator[Browser]:
    provider.behave_well()
    with Browser(site) as browser:
        yield browser


def person(site: ConsoleSite, name: str) -> Any:
    answer = httpx2.get(f"{site.url}/api/v1/principals", headers={"authorization": f"Bearer {site.ann}"})
    assert answer.status_code == 200, answer.text
    return next((each for each in answer.json()["items"] if each["name"] == name), None)


def reasons(site: ConsoleSite) -> list[str]:
    """Why sign-ins were refused, the newest first."""
    answer = httpx2.get(
        f"{site.url}/api/v1/audit?action=session.refused&limit=5",
        headers={"authorization": f"Bearer {site.ann}"},
    )
    assert answer.status_code == 200, answer.text
    return [each["details"]["reason"] for each in answer.json()["items"]]


def test_somebody_new_signs_in_and_comes_to_the_page_they_asked_for(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.account |= {"sub": "s-new", "preferred_username": "new", "groups": ["finance-leads", "finance"]}
    done = browser.sign_in(back="/console/jobs?state=PENDING")
    assert (done.status_code, done.headers["location"]) == (303, "/console/jobs?state=PENDING")
    assert browser.is_signed_in
    made = person(site, "new")
    assert (made["kind"], set(made["roles"]), made["groups"]) == (
        "person",
        {"review", "admin"},
        ["finance-leads", "finance"],
    )


def test_the_provider_is_asked_with_state_nonce_and_a_challenge(
    provider: IdentityProvider, browser: Browser
) -> None:
    browser.to_callback()
    first, asked = dict(provider.asked), provider.asked
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"].endswith("/console/sign-in/sso/callback")
    browser.to_callback()
    assert not {provider.asked[name] for name in ("state", "nonce", "code_challenge")} & set(first.values())


def test_what_was_begun_is_kept_where_no_script_and_no_other_site_reads_it(browser: Browser) -> None:
    kept = browser.get("/console/sign-in/sso").headers["set-cookie"]
    assert kept.startswith("interlock-begun=")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(kept.split("; "))


BAD_TOKENS: dict[str, tuple[dict[str, Any], str]] = {
    "nonce": ({"nonce": "another"}, "nonce"),
    "no nonce": ({"nonce": None}, "nonce"),
    "issuer": ({"iss": "http://127.0.0.1:1"}, "issuer"),
    "audience": ({"aud": "another"}, "aud"),
    "audiences without azp": ({"aud": [CLIENT_ID, "another"]}, "azp"),
    "azp": ({"azp": "another"}, "azp"),
    "expired": ({"exp": time.time() - 3600}, "expired"),
    "no expiry": ({"exp": None}, "exp"),
    "never": ({"exp": float("nan")}, "expired"),
    "old": ({"iat": time.time() - 86_400}, "just now"),
    "tomorrow": ({"iat": time.time() + 86_400}, "just now"),
}


@pytest.mark.parametrize(("changes", "why"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_a_token_that_is_not_for_this_sign_in_opens_no_session(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser, changes: dict[str, Any], why: str
) -> None:
    provider.token = changes
    done = browser.sign_in()
    assert done.status_code == 401
    assert "does not prove who you are" in done.text
    assert not browser.is_signed_in
    assert why in reasons(site)[0]


@pytest.mark.parametrize("alg", ["none", "HS256"])
def test_a_token_that_the_provider_did_not_sign_with_its_key_opens_no_session(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser, alg: str
) -> None:
    provider.alg = alg
    assert browser.sign_in().status_code == 401
    assert not browser.is_signed_in


def test_a_token_with_a_forged_signature_opens_no_session(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = provider.key
    provider.published = (genuine,)
    monkeypatch.setattr(provider, "key", new_key(kid=genuine.kid))
    assert browser.sign_in().status_code == 401
    assert "signature" in reasons(site)[0]
    assert not browser.is_signed_in


def test_an_answer_that_names_another_issuer_is_refused_before_its_code_is_used(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.returned = {"iss": "http://127.0.0.1:1"}
    assert browser.sign_in().status_code == 401
    assert "iss" in reasons(site)[0]
    provider.returned = {"iss": provider.issuer}
    assert browser.sign_in().status_code == 303


@pytest.mark.parametrize("takes_codes_twice", [False, True], ids=["good provider", "careless provider"])
def test_an_answer_counts_once_even_with_everything_the_browser_had(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser, takes_codes_twice: bool
) -> None:
    provider.takes_codes_twice = takes_codes_twice
    back = browser.to_callback()
    had = dict(browser.cookies)
    assert browser.get(back).status_code == 303
    assert browser.get(back).status_code == 400, "the browser forgets what it began"
    with Browser(site) as thief:
        thief.cookies.update(had)
        assert thief.get(back).status_code in (401, 403)
        assert not thief.is_signed_in


def test_an_answer_counts_only_in_the_browser_that_asked(site: ConsoleSite, browser: Browser) -> None:
    back = browser.to_callback()
    with Browser(site) as other:
        refused = other.get(back)
        assert refused.status_code == 400
        assert "Begin again" in refused.text
        other.to_callback()
        assert other.get(back).status_code == 400, "it began something else"
        assert not other.is_signed_in


def test_an_answer_that_comes_too_late_is_refused(browser: Browser) -> None:
    back = browser.to_callback()
    sealed = browser.cookies["interlock-begun"]
    about: Any = {"purpose": PURPOSE, "about": "sso"}
    raw = unseal(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)), SECRET, **about)
    begun = json.loads(raw)
    assert 0 < begun["until"] - time.time() <= 15 * 60
    late = json.dumps(begun | {"until": time.time() - 1}).encode()
    browser.cookies.clear()
    kept = base64.urlsafe_b64encode(seal(late, SECRET, **about)).rstrip(b"=").decode()
    browser.cookies.set("interlock-begun", kept, domain="127.0.0.1")
    refused = browser.get(back)
    assert refused.status_code == 400
    assert "took too long" in refused.text


def test_an_answer_to_one_provider_is_none_of_another(browser: Browser) -> None:
    back = browser.to_callback("sso").replace("/sso/", "/adopting/")
    assert browser.get(back).status_code == 400


def test_a_code_of_another_sign_in_is_refused_by_its_verifier(browser: Browser, site: ConsoleSite) -> None:
    with Browser(site) as other:
        stolen = parse_qs(urlsplit(other.to_callback()).query)["code"][0]
    back = urlsplit(browser.to_callback())
    state = parse_qs(back.query)["state"][0]
    assert browser.get(f"{back.path}?code={stolen}&state={state}").status_code == 401


def test_a_no_of_the_provider_is_said_and_signs_nobody_in(
    provider: IdentityProvider, browser: Browser
) -> None:
    provider.returned = {"code": "", "error": "access_denied", "error_description": "<b>no</b>"}
    refused = browser.sign_in()
    assert refused.status_code == 403
    assert "Acme did not sign you in" in refused.text
    assert "<b>no" not in refused.text


def test_an_unknown_group_gives_no_role(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.account |= {"sub": "s-eve", "preferred_username": "eve", "groups": ["strangers", "admin", "*"]}
    assert browser.sign_in().status_code == 303
    assert person(site, "eve")["roles"] == []


def test_a_role_that_goes_at_the_provider_is_gone_at_the_next_sign_in_and_ends_the_session_before(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.account |= {"sub": "s-lea", "preferred_username": "lea", "groups": ["finance-leads", "ops"]}
    browser.sign_in()
    provider.account["groups"] = ["ops"]
    with Browser(site) as later:
        assert later.sign_in().status_code == 303
        assert person(site, "lea")["roles"] == ["operate"]
        assert later.is_signed_in
    assert not browser.is_signed_in


def test_an_account_is_not_a_person_who_was_here_before(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.account |= {"sub": "s-mallory", "preferred_username": "ann"}
    refused = browser.sign_in()
    assert refused.status_code == 403
    assert "oidc_adopt" in refused.text
    assert not browser.is_signed_in


def test_where_nobody_is_made_only_those_who_are_here_sign_in(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.account |= {"sub": "s-zoe", "preferred_username": "zoe", "groups": ["finance-leads"]}
    refused = browser.sign_in("guests")
    assert refused.status_code == 403
    assert "ask an administrator to add zoe" in refused.text
    assert person(site, "zoe") is None
    provider.account |= {"sub": "s-bob", "preferred_username": "bob"}
    assert browser.sign_in("adopting").status_code == 303
    assert person(site, "bob")["roles"] == ["review"], "what was given here stays"


def test_a_name_comes_from_what_the_provider_has_checked(
    site: ConsoleSite, provider: IdentityProvider, browser: Browser
) -> None:
    provider.account = {"sub": "s-7", "email": "ann", "email_verified": False}
    assert browser.sign_in().status_code == 303
    assert person(site, "s-7") is not None
    provider.account = {"sub": "auth|8", "email": "kim@acme.example", "email_verified": True}
    with Browser(site) as other:
        assert other.sign_in().status_code == 303
    assert person(site, "kim@acme.example") is not None
    provider.account = {"sub": "auth|9", "preferred_username": "local:root"}
    with Browser(site) as third:
        assert "no user name or verified email" in third.sign_in().text


def test_signing_in_again_ends_the_session_before(browser: Browser) -> None:
    browser.sign_in()
    first = browser.cookies["interlock"]
    browser.cookies.delete("interlock")
    back = browser.to_callback()
    browser.cookies.set("interlock", first, domain="127.0.0.1")
    assert browser.get(back).status_code == 303
    renewed = browser.cookies.jar
    assert first not in {cookie.value for cookie in renewed}
    browser.cookies.clear()
    browser.cookies.set("interlock", first, domain="127.0.0.1")
    assert not browser.is_signed_in


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "/console/\\evil", "/api/v1/jobs"])
def test_nobody_is_sent_to_another_site_afterwards(browser: Browser, to: str) -> None:
    assert browser.sign_in(back=to).headers["location"] == "/console/inbox"


def test_too_many_answers_that_prove_nothing_are_slowed_down(browser: Browser) -> None:
    statuses = [browser.get("/console/sign-in/sso/callback?code=a&state=b").status_code for _ in range(11)]
    assert statuses == [400] * 10 + [429]


def test_there_is_no_page_of_a_provider_that_is_not_configured(browser: Browser) -> None:
    assert browser.get("/console/sign-in/nobody").status_code == 404
    assert browser.get("/console/sign-in/nobody/callback").status_code == 404


def test_the_secret_is_not_shown_among_the_settings(site: ConsoleSite) -> None:
    shown = httpx2.get(f"{site.url}/api/v1/settings", headers={"authorization": f"Bearer {site.ann}"})
    assert shown.status_code == 200
    assert CLIENT_SECRET not in shown.text
    assert "finance-leads=review+admin" in shown.text
