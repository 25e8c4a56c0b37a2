"""Permits prove a hold offline, and nothing else passes for one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from interlock import PermitInvalid, verify_permit
from interlock.rooms.permits.model import DEPLOYMENT, KEY_RINGS, RING_ID
from tests.harness.in_process_api import open_api
from tests.rooms.jobs.job_client import JobClient

BEGIN = 1_893_456_000  # 2030-01-01, when the virtual clock starts


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parts(token: str) -> list[Any]:
    return [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def spelled(value: object) -> str:
    return b64(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def why(token: str, keys: Any, **expected: Any) -> str:
    with pytest.raises(PermitInvalid) as caught:
        verify_permit(token, keys, **{"now": BEGIN + 1, **expected})
    return caught.value.code


async def issued(client: JobClient, **fields: Any) -> tuple[dict[str, Any], Any]:
    await client.submit()
    return await client.take(**fields), await client.api.get("keys")


async def test_a_permit_says_which_job_in_which_form_under_which_fence_until_when(client: JobClient) -> None:
    job, keys = await issued(client, lease_seconds=40)
    permit = verify_permit(job["permit"], keys, now=BEGIN + 1)
    assert (permit.tenant, permit.job_id, permit.job_hash) == ("default", job["id"], job["job_hash"])
    assert (permit.fence, permit.aud, permit.iat, permit.exp) == (1, "free.a", BEGIN, BEGIN + 40)
    assert parts(job["permit"])[0] == {
        "alg": "EdDSA",
        "kid": keys["keys"][0]["kid"],
        "typ": "interlock-permit+jwt",
    }


async def test_the_keys_are_public_and_hold_nothing_private(client: JobClient) -> None:
    seen = await client.api.call("GET", "keys", "")
    ring = await client.api.service.store.get(KEY_RINGS, DEPLOYMENT, RING_ID)
    assert ring is not None
    assert seen.status == 200
    assert set(seen.document["keys"][0]) == {
        "kid", "x", "kty", "crv", "alg", "use", "signs_from", "published_until",
    }  # fmt: skip
    assert ring.keys[0].private not in seen.body.decode()


async def test_a_permit_ends_with_its_lease_and_a_renewal_brings_a_new_one(client: JobClient) -> None:
    job, keys = await issued(client, lease_seconds=40)
    assert why(job["permit"], keys, now=BEGIN + 45) == "expired"
    client.api.clock.advance(20)
    renewed = (await client.call("renew", job["id"], job["fence"])).document["permit"]
    assert verify_permit(renewed, keys, now=BEGIN + 45).exp == BEGIN + 60


async def test_a_permit_from_the_future_is_refused(client: JobClient) -> None:
    job, keys = await issued(client)
    assert why(job["permit"], keys, now=BEGIN - 6) == "not_yet_valid"


async def test_what_is_expected_must_match_exactly(client: JobClient) -> None:
    job, keys = await issued(client)
    right = {"tenant": "default", "topic": "free.a", "job_id": job["id"], "job_hash": job["job_hash"]}
    assert verify_permit(job["permit"], keys, now=BEGIN, fence_at_least=1, **right).fence == 1
    for name in right:
        assert why(job["permit"], keys, **{**right, name: "other"}) == "mismatch"
    assert why(job["permit"], keys, fence_at_least=2) == "fence_stale"


async def test_a_permit_that_was_changed_in_any_claim_is_refused(client: JobClient) -> None:
    job, keys = await issued(client)
    head, _, signature = job["permit"].split(".")
    _, claims = parts(job["permit"])
    for name, value in {"fence": 9, "exp": BEGIN + 9999, "job_id": "job_x", "tenant": "other"}.items():
        changed = ".".join((head, spelled({**claims, name: value}), signature))
        assert why(changed, keys) == "bad_signature"


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "typ": "interlock-permit+jwt"},
        {"alg": "HS256", "typ": "interlock-permit+jwt"},
        {"alg": "EdDSA", "typ": "JWT"},
        {"alg": "EdDSA", "typ": "interlock-permit+jwt", "crit": ["exp"]},
        {"alg": "EdDSA", "typ": "interlock-permit+jwt", "jwk": {"kty": "OKP"}},
    ],
)
async def test_no_other_algorithm_type_or_header_field_is_accepted(
    client: JobClient, header: dict[str, Any]
) -> None:
    job, keys = await issued(client)
    _, claims, signature = job["permit"].split(".")
    kid = keys["keys"][0]["kid"]
    forged = ".".join((spelled({**header, "kid": kid}), claims, signature))
    assert why(forged, keys) == "malformed"
    assert why(".".join((spelled({**header, "kid": kid}), claims, "")), keys) == "malformed"


async def test_a_permit_signed_with_the_public_key_as_a_secret_is_refused(client: JobClient) -> None:
    import hashlib
    import hmac

    job, keys = await issued(client)
    _, claims, _ = job["permit"].split(".")
    head = spelled({"alg": "HS256", "kid": keys["keys"][0]["kid"], "typ": "interlock-permit+jwt"})
    public = base64.urlsafe_b64decode(keys["keys"][0]["x"] + "=")
    mac = hmac.new(public, f"{head}.{claims}".encode(), hashlib.sha256).digest()
    assert why(f"{head}.{claims}.{b64(mac)}", keys) == "malformed"


async def test_a_key_of_somebody_else_signs_nothing(client: JobClient) -> None:
    job, keys = await issued(client)
    mine = Ed25519PrivateKey.generate()
    head, claims, _ = job["permit"].split(".")
    forged = f"{head}.{claims}.{b64(mine.sign(f'{head}.{claims}'.encode()))}"
    assert why(forged, keys) == "bad_signature"
    unknown = spelled({"alg": "EdDSA", "kid": "mine", "typ": "interlock-permit+jwt"})
    forged = f"{unknown}.{claims}.{b64(mine.sign(f'{unknown}.{claims}'.encode()))}"
    assert why(forged, keys) == "unknown_key"
    public = mine.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    rsa = {"keys": [{"kid": "mine", "kty": "RSA", "crv": "Ed25519", "x": b64(public)}]}
    assert why(forged, rsa) == "unknown_key"


async def test_a_permit_has_one_spelling(client: JobClient) -> None:
    job, keys = await issued(client)
    token = job["permit"]
    head, claims, signature = token.split(".")
    spaced = b64(json.dumps(parts(token)[1]).encode())
    for other in (
        f"{head}.{claims}.{signature}=",
        f" {token}",
        f"{token}\n",
        f"{head}.{spaced}.{signature}",
        token.replace("-", "+").replace("_", "/") + "+",
        f"{token}.",
        "",
        "a.b.c",
        "." * 2,
    ):
        assert why(other, keys) in ("malformed", "bad_signature")


def test_not_even_its_own_key_can_sign_another_spelling() -> None:
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    public = b64(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    keys = [{"kid": "k", "kty": "OKP", "crv": "Ed25519", "x": public}]
    head = spelled({"alg": "EdDSA", "kid": "k", "typ": "interlock-permit+jwt"})
    good = b'{"aud":"a","exp":1893456009,"fence":1,"iat":1893456000,"job_hash":"h","job_id":"j","tenant":"t"}'

    def signed(claims: bytes) -> str:
        text = f"{head}.{b64(claims)}"
        return f"{text}.{b64(key.sign(text.encode()))}"

    assert verify_permit(signed(good), keys, now=BEGIN).tenant == "t"
    for other in (
        good.replace(b":", b": "),
        good.replace(b'"fence":1', b'"fence":9,"fence":1'),
        good.replace(b'"t"', rb'"\u0074"'),
        good.replace(b"}", b',"zone":1}'),
        good.replace(b'"fence":1', b'"fence":1.0'),
        good.replace(b',"tenant":"t"', b""),
    ):
        assert why(signed(other), keys) == "malformed"


@given(st.data())
def test_no_single_character_can_be_changed(data: st.DataObject) -> None:
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    public = b64(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    keys = [{"kid": "k", "kty": "OKP", "crv": "Ed25519", "x": public}]
    claims = {
        "aud": "a",
        "exp": BEGIN + 9,
        "fence": 1,
        "iat": BEGIN,
        "job_hash": "h",
        "job_id": "j",
        "tenant": "t",
    }
    signed = f"{spelled({'alg': 'EdDSA', 'kid': 'k', 'typ': 'interlock-permit+jwt'})}.{spelled(claims)}"
    token = f"{signed}.{b64(key.sign(signed.encode()))}"
    assert verify_permit(token, keys, now=BEGIN).fence == 1
    at = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from("ABab01-_.=+/ ").filter(lambda c: c != token[at]))
    with pytest.raises(PermitInvalid):
        verify_permit(token[:at] + character + token[at + 1 :], keys, now=BEGIN)


async def test_rotation_publishes_ahead_and_keeps_what_may_still_be_needed(client: JobClient) -> None:
    first, _ = await issued(client, lease_seconds=3600)
    rotated = await client.api.call("POST", "keys/rotate", client.api.admin, {"lead_seconds": 60})
    assert len(rotated.document["keys"]) == 2
    old, new = (key["kid"] for key in rotated.document["keys"])

    second, keys = await issued(client, lease_seconds=3600)

    assert [parts(job["permit"])[0]["kid"] for job in (first, second)] == [old, old]
    assert verify_permit(first["permit"], keys, now=BEGIN + 3000).fence == 1
    ring = await client.api.service.store.get(KEY_RINGS, DEPLOYMENT, RING_ID)
    assert ring is not None
    client.api.clock.advance(61)
    signing = ring.signing(client.api.clock.now)
    assert signing is not None
    assert signing.kid == new
    assert {key.kid for key in ring.published(client.api.clock.now)} == {old, new}
    client.api.clock.advance(3 * 3600)
    assert {key.kid for key in ring.published(client.api.clock.now)} == {new}


async def test_a_rotation_repeated_under_its_idempotency_key_is_one_rotation(client: JobClient) -> None:
    await issued(client)
    first, again = [
        await client.api.call("POST", "keys/rotate", client.api.admin, {}, idempotency_key="monday")
        for _ in range(2)
    ]
    assert again.document == first.document
    assert again.headers["idempotency-replayed"] == "true"
    assert len((await client.api.get("keys"))["keys"]) == len(first.document["keys"]) == 2


async def test_a_revoked_key_is_gone_at_once(client: JobClient) -> None:
    job, _ = await issued(client)
    await client.api.call("POST", "keys/rotate", client.api.admin, {"revoke": True})
    keys = await client.api.get("keys")
    # The virtual clock is ahead of this machine's, by which answers leave a withdrawn key out.
    ring = await client.api.service.store.get(KEY_RINGS, DEPLOYMENT, RING_ID)
    assert ring is not None
    assert len(ring.keys) == 1
    assert why(job["permit"], keys) == "unknown_key"


async def test_only_an_admin_rotates(client: JobClient) -> None:
    assert (await client.api.call("POST", "keys/rotate", client.worker, {})).word == "forbidden"
    assert (await client.api.call("POST", "keys/rotate", client.ada, {})).word == "forbidden"


async def test_with_a_secret_the_stored_key_is_sealed_and_another_secret_hands_out_nothing() -> None:
    async with open_api(secret="one") as api:
        client = await JobClient(api).open()
        job, keys = await issued(client)
        assert verify_permit(job["permit"], keys, now=BEGIN).fence == 1
        ring = await api.service.store.get(KEY_RINGS, DEPLOYMENT, RING_ID)
        assert ring is not None
        assert ring.keys[0].sealed
        assert len(base64.urlsafe_b64decode(ring.keys[0].private + "==")) == 12 + 32 + 16

        from interlock.service.permits import PermitSigner

        api.service.permits = PermitSigner(api.service.kernel, api.service.store, "two")
        waiting = await client.submit()
        seen = await client.claim_seen()
        assert seen.status == 503
        assert "INTERLOCK_SECRET" in seen.document["detail"]
        assert (await api.job(waiting))["state"] == "PENDING"


async def test_a_repeated_claim_gets_the_same_permit_byte_for_byte(client: JobClient) -> None:
    await client.submit()
    first = await client.claim_seen(key="k")
    again = await client.claim_seen(key="k")
    assert first.body == again.body
