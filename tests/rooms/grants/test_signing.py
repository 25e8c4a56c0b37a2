"""Signed grants: which public keys are read, and what a forged, altered or revoked signature cannot do."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from interlock.rooms.grants.model import GRANTS, Grant, GrantState, NotAPublicKey, Pin, Signature
from interlock.rooms.grants.signatures import fingerprint_of, read_public_key
from tests.rooms.grants.conftest import Granting, Pen, register


async def forge(granting: Granting, grant: str, **changes: Any) -> None:
    """Change a stored grant behind Interlock's back."""
    stored = await granting.stored(grant)
    forged = msgspec.structs.replace(stored, **changes)
    row = GRANTS.row(forged)
    columns = ("tenant", "id", "version", "body", *GRANTS.columns)
    sets = ", ".join(f"{column} = ?" for column in columns)
    store: Any = granting.api.service.store
    store._mirror.execute(f"UPDATE grants SET {sets} WHERE id = ?", (*row, grant))
    store._bodies[GRANTS.key("default", grant)] = GRANTS.encode(forged)


async def test_a_signed_grant_is_issued_and_claimed(granting: Granting, pen: Pen) -> None:
    seen = await granting.issue(**pen.sign(granting.api, pins={"env": "test"}, uses=2))

    assert (seen.status, seen.document["signed_by"]) == (201, pen.fingerprint)
    assert (await granting.claim({"env": "test"}))["claimed"]


async def test_one_signature_is_good_for_one_grant(granting: Granting, pen: Pen) -> None:
    signed = pen.sign(granting.api)
    first = await granting.issue(**signed)
    again = await granting.issue(**signed)
    assert (await granting.claim())["claimed"]
    late = await granting.issue(**signed)

    assert [again.document["id"], late.document["id"]] == [first.document["id"]] * 2
    assert late.document["used"] == 1
    assert not (await granting.claim())["claimed"]


@pytest.mark.parametrize(
    "said",
    [
        {"uses": 99},
        {"pins": {}},
        {"standing": True},
        {"expires_at": "2030-01-01T10:00:00Z"},
        {"task": "destroy"},
    ],
)
async def test_what_was_not_signed_is_not_issued(granting: Granting, pen: Pen, said: dict[str, Any]) -> None:
    signed = pen.sign(granting.api, pins={"env": "test"})

    seen = await granting.issue(**{**signed, **said})

    assert (seen.status, seen.word) == (403, "bad_signature")


async def test_a_key_signs_for_its_own_person_only(granting: Granting, pen: Pen) -> None:
    eve = await granting.api.person("eve")
    for approver in ("ada", "eve"):
        seen = await granting.issue(key=eve, **pen.sign(granting.api, approver=approver))
        assert seen.word == "bad_signature"


async def test_an_unregistered_key_signs_nothing(granting: Granting) -> None:
    assert (await granting.issue(**Pen().sign(granting.api))).word == "bad_signature"


ALTERED: list[dict[str, Any]] = [
    {"pins": ()},
    {"pins": (Pin(path="env"),)},
    {"uses": 100},
    {"task": "destroy"},
    {"approver": "eve"},
    {"standing": True},
    {"nonce": "gnt_other"},
    {"signature": Signature(signer="SHA256:nobody", value="AAAA")},
    {"signature": None},
    {"signature": None, "pins": ()},
]


@pytest.mark.parametrize("altered", ALTERED)
async def test_an_altered_grant_cannot_be_claimed(
    granting: Granting, pen: Pen, altered: dict[str, Any]
) -> None:
    grant = await granting.grant(**pen.sign(granting.api, pins={"env": "test"}))
    await forge(granting, grant, **altered)

    answer = await granting.claim({"env": "test"}, grant_id=grant, task=altered.get("task", "deploy"))

    assert not answer["claimed"]
    assert await granting.state(grant) == "open"
    assert await granting.refusals(grant) == [answer["reason"]]


async def test_an_unsigned_grant_whose_pin_was_emptied_fits_nothing_and_keeps_nobody_from_another(
    granting: Granting,
) -> None:
    altered = await granting.grant(pins={"env": "test"})
    other = await granting.grant()
    await forge(granting, altered, pins=(Pin(path="env"),))

    refused = await granting.claim({"env": "test"}, grant_id=altered)

    assert refused["reason"] == f"{altered}: pin env: it was altered, and says nothing any more"
    assert (await granting.claim({"env": "test"}))["grant_id"] == other
    assert (await granting.read(altered))["pins"] == {"env": {}}


async def test_a_later_expiry_cannot_be_written_into_a_signed_grant(granting: Granting, pen: Pen) -> None:
    grant = await granting.grant(**pen.sign(granting.api))
    later = (await granting.stored(grant)).expires_at.replace(year=2031)
    await forge(granting, grant, expires_at=later)
    granting.api.clock.advance(7200)

    assert "signature" in (await granting.claim(grant_id=grant))["reason"]


async def test_a_copied_grant_cannot_be_claimed_under_another_id(granting: Granting, pen: Pen) -> None:
    grant = await granting.grant(**pen.sign(granting.api))
    decoy = await granting.grant()
    original = await granting.stored(grant)
    await forge(
        granting, decoy, nonce=original.nonce, signature=original.signature, expires_at=original.expires_at
    )

    assert "another grant" in (await granting.claim(grant_id=decoy))["reason"]


async def test_a_revoked_key_ends_what_is_left_of_its_grants(granting: Granting, pen: Pen) -> None:
    grant = await granting.grant(**pen.sign(granting.api, uses=2))
    assert (await granting.claim())["claimed"]
    path = f"signers/{pen.fingerprint.replace('/', '%2F').replace('+', '%2B')}/revoke"

    seen = await granting.api.call("POST", path, granting.api.admin)

    assert seen.document["revoked_at"] is not None
    assert "revoked" in (await granting.claim(grant_id=grant))["reason"]
    assert await granting.state(grant) == "open"
    again = await register(granting, pen)
    assert (again.status, again.word) == (409, "conflict")


async def test_where_signatures_are_required_an_unsigned_grant_is_never_claimable(
    granting: Granting, pen: Pen
) -> None:
    before = await granting.grant("prod.deploy")
    other = await granting.grant("test.deploy")
    admin = granting.api.admin
    await granting.api.call("PUT", "grants/terms", admin, {"signed_tasks": ["prod.*"]})

    refused = await granting.claim(task="prod.deploy", grant_id=before)

    assert refused["reason"] == f"{before}: signature: this task needs a signed grant"
    assert (await granting.issue("prod.deploy")).word == "bad_signature"
    assert (await granting.claim(task="test.deploy"))["grant_id"] == other
    await granting.grant(**pen.sign(granting.api, task="prod.deploy"), task="prod.deploy")
    assert (await granting.claim(task="prod.deploy"))["claimed"]


async def test_a_claim_may_insist_on_a_signature(granting: Granting, pen: Pen) -> None:
    await granting.grant()
    assert "signed" in (await granting.claim(signed=True))["reason"]
    signed = await granting.grant(**pen.sign(granting.api))
    assert (await granting.claim(signed=True))["grant_id"] == signed


async def test_only_an_admin_registers_keys_and_only_for_people(granting: Granting) -> None:
    pen = Pen()
    body = {"public_key": pen.public_key, "person": "ada"}
    assert (await granting.api.call("POST", "signers", granting.ada, body)).word == "forbidden"
    assert (await register(granting, pen, "bot")).status == 404
    assert (await register(granting, pen, "nobody")).status == 404


async def test_a_key_belongs_to_one_person(granting: Granting, pen: Pen) -> None:
    await granting.api.person("eve")
    assert (await register(granting, pen, "ada")).status == 201
    assert (await register(granting, pen, "eve")).status == 409


def test_a_stored_grant_reads_back_the_same() -> None:
    from datetime import UTC, datetime

    moment = datetime(2030, 1, 1, tzinfo=UTC)
    grant = Grant(tenant="t", id="g", task="x", approver="a", issued_at=moment, expires_at=moment, uses=2)
    assert GRANTS.decode(GRANTS.encode(grant)) == grant
    assert grant.state is GrantState.OPEN


KEY = Ed25519PrivateKey.generate().public_key()
RAW = base64.b64encode(KEY.public_bytes_raw()).decode()
SSH = KEY.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
PEM = KEY.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
DER = base64.b64encode(KEY.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
RSA = (
    generate_private_key(65537, 2048)
    .public_key()
    .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    .decode()
)


@pytest.mark.parametrize("text", [RAW, SSH, f"{SSH} ada@example\n", SSH.split()[1], PEM, DER])
def test_every_spelling_of_one_key_is_the_same_key(text: str) -> None:
    assert read_public_key(text) == RAW


@pytest.mark.parametrize(
    "text", ["", "ssh-ed25519", "ssh-ed25519 !!!", RSA, SSH[:40], RAW[:20], "ssh-dss AAAA", PEM[:80]]
)
def test_what_is_no_ed25519_key_is_refused(text: str) -> None:
    with pytest.raises(NotAPublicKey):
        read_public_key(text)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen to compare with")
def test_the_fingerprint_is_the_one_that_ssh_keygen_prints(tmp_path: Path) -> None:
    path = tmp_path / "key.pub"
    path.write_text(SSH)
    printed = subprocess.run(["ssh-keygen", "-lf", str(path)], capture_output=True, text=True, check=True)
    assert printed.stdout.split()[1] == fingerprint_of(RAW)
