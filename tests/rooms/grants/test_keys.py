"""Public keys as people have them, and the name that OpenSSH gives them."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from interlock.rooms.grants.model import NotAPublicKey
from interlock.rooms.grants.signatures import fingerprint_of, read_public_key

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
