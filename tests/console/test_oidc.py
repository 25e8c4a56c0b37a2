"""This server as a client of a provider: what it believes of what a provider publishes, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from interlock.console.id_token import NotProven
from interlock.console.oidc import Begun, ProviderAway, ProviderClient
from interlock.service.providers import Provider
from tests.harness.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, new_key

BEGUN = Begun(
    provider="sso",
    state="s",
    nonce="n",
    verifier="v" * 64,
    redirect_uri="http://127.0.0.1:1/console/sign-in/sso/callback",
    back="/console/inbox",
    session_id="ses_1",
    until=0,
)


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider().start()
    yield provider
    provider.close()


def client_of(provider: IdentityProvider, **changes: Any) -> ProviderClient:
    given: dict[str, Any] = {
        "issuer": provider.issuer,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
    }
    return ProviderClient(Provider(id="sso", title="Acme", **(given | changes)))


async def claims_of(client: ProviderClient) -> Any:
    """Go to the provider as a browser does, and ask it who came back."""
    async with httpx2.AsyncClient() as browser:
        back = (await browser.get(await client.address(BEGUN))).headers["location"]
    code = parse_qs(urlsplit(back).query)["code"][0]
    return await client.claims(BEGUN, code, datetime.now(UTC))


@pytest.mark.parametrize("alg", ["RS256", "ES256", "EdDSA"])
async def test_each_kind_of_signature_is_checked(provider: IdentityProvider, alg: str) -> None:
    provider.alg, provider.key = alg, new_key(alg)
    client = client_of(provider)
    assert (await claims_of(client))["sub"] == "s-ada"
    provider.published = (provider.key,)
    provider.key = new_key(alg, provider.key.kid)
    with pytest.raises(NotProven, match="signature"):
        await claims_of(client)


async def test_a_new_key_of_the_provider_is_found_at_once(provider: IdentityProvider) -> None:
    client = client_of(provider)
    await claims_of(client)
    provider.key = new_key()
    await claims_of(client)
    assert provider.key_reads == 2


async def test_tokens_with_unknown_keys_do_not_make_us_read_the_keys_each_time(
    provider: IdentityProvider,
) -> None:
    client = client_of(provider)
    provider.published = (provider.key,)
    provider.key = new_key()
    for _ in range(4):
        with pytest.raises(NotProven, match="does not publish"):
            await claims_of(client)
    assert provider.key_reads == 2


async def test_a_key_that_is_not_understood_does_not_hide_the_others(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd:
        def as_dict(self, *, private: bool) -> Any:
            return {"kty": "RSA", "n": "?", "kid": provider.key.kid}

    provider.published = (Odd(), provider.key)  # pyright: ignore[reportAttributeAccessIssue]
    assert (await claims_of(client_of(provider)))["sub"] == "s-ada"


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": "http://login.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_provider_that_points_elsewhere_is_not_followed(
    provider: IdentityProvider, changes: dict[str, Any]
) -> None:
    provider.metadata = changes
    with pytest.raises(ProviderAway):
        await client_of(provider).address(BEGUN)


async def test_a_redirect_of_the_provider_is_not_followed(provider: IdentityProvider) -> None:
    provider.moves = True
    with pytest.raises(ProviderAway, match="302"):
        await client_of(provider).address(BEGUN)


async def test_a_provider_that_is_not_there_is_away(provider: IdentityProvider) -> None:
    client = client_of(provider, issuer="http://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(ProviderAway):
            await client.address(BEGUN)


async def test_an_endless_answer_is_cut_off(provider: IdentityProvider) -> None:
    provider.metadata = {"padding": "x" * 1_100_000}
    with pytest.raises(ProviderAway, match="too long"):
        await client_of(provider).address(BEGUN)


@pytest.mark.parametrize("methods", [["client_secret_basic"], ["client_secret_post"], ["private_key_jwt"]])
async def test_the_secret_is_sent_as_the_provider_wants_it(
    provider: IdentityProvider, methods: list[str]
) -> None:
    provider.metadata = {"token_endpoint_auth_methods_supported": methods}
    assert (await claims_of(client_of(provider)))["sub"] == "s-ada"


async def test_a_wrong_secret_proves_nothing(provider: IdentityProvider) -> None:
    with pytest.raises(NotProven, match="401 invalid_client"):
        await claims_of(client_of(provider, client_secret="wrong"))


async def test_a_provider_that_always_names_itself_must_name_itself(provider: IdentityProvider) -> None:
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    client = client_of(provider)
    await client.check_issuer(provider.issuer)
    with pytest.raises(NotProven):
        await client.check_issuer("")


async def test_what_the_token_does_not_say_is_asked_about_the_same_account(
    provider: IdentityProvider,
) -> None:
    provider.account = {"sub": "s-ada"}
    provider.user_info = {"sub": "s-ada", "preferred_username": "ada", "groups": ["ops"], "iss": "other"}
    client = client_of(provider)
    found = await claims_of(client)
    assert (found["preferred_username"], found["groups"]) == ("ada", ["ops"])
    assert found["iss"] == provider.issuer, "what was signed counts more"
    provider.user_info = {"sub": "s-eve", "preferred_username": "ada", "groups": ["ops"]}
    with pytest.raises(NotProven, match="another account"):
        await claims_of(client)
