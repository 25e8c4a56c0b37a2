"""Public keys of signers: how they are written, and the fingerprint that names them."""

from __future__ import annotations

import base64
import binascii
import hashlib

from interlock.grants.refusals import NotAPublicKey

_ALGORITHM = b"ssh-ed25519"
_KEY_BYTES = 32
# What an Ed25519 SubjectPublicKeyInfo (RFC 8410) begins with; the 32 bytes of the key follow.
_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")


def read_public_key(text: str) -> str:
    """The 32 bytes of a key in base64, from an OpenSSH line, a PEM block or base64. Raises `NotAPublicKey`."""
    words = text.split()
    if text.lstrip().startswith("-----BEGIN PUBLIC KEY-----"):
        return _from_spki(_decoded("".join(line for line in text.split("\n") if "-----" not in line)))
    if len(words) > 1 and words[0] != "ssh-ed25519":
        raise NotAPublicKey(f"it begins with {words[0][:40]!r}")
    if not words:
        raise NotAPublicKey("it is empty")
    raw = _decoded(words[1] if len(words) > 1 else words[0])
    if len(raw) == _KEY_BYTES:
        return base64.b64encode(raw).decode()
    return _from_spki(raw) if raw.startswith(_SPKI_PREFIX) else _from_ssh(raw)


def fingerprint_of(public_key: str) -> str:
    """The name of a key, the same as `ssh-keygen -lf` prints."""
    digest = hashlib.sha256(_ssh_blob(base64.b64decode(public_key))).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _ssh_blob(raw: bytes) -> bytes:
    return _field(_ALGORITHM) + _field(raw)


def _field(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _from_ssh(blob: bytes) -> str:
    head = _field(_ALGORITHM) + _KEY_BYTES.to_bytes(4, "big")
    if not blob.startswith(head) or len(blob) != len(head) + _KEY_BYTES:
        raise NotAPublicKey("it is a key of another kind, or cut short")
    return base64.b64encode(blob[len(head) :]).decode()


def _from_spki(der: bytes) -> str:
    if not der.startswith(_SPKI_PREFIX) or len(der) != len(_SPKI_PREFIX) + _KEY_BYTES:
        raise NotAPublicKey("it is a key of another kind, or cut short")
    return base64.b64encode(der[len(_SPKI_PREFIX) :]).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise NotAPublicKey("it is not base64") from None
