"""Encrypts bytes for storage in a database, so that they cannot be read without the deployment's secret."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES = 12


class CannotUnseal(Exception):
    """The secret is missing, or is not the one that was sealed with."""


def seal(raw: bytes, secret: str, *, purpose: bytes, about: str) -> bytes:
    """Seal `raw` so that only the same secret opens it, for the same purpose and about the same thing."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(_derived(secret, purpose)).encrypt(nonce, raw, about.encode())


def unseal(sealed: bytes, secret: str, *, purpose: bytes, about: str) -> bytes:
    """What was sealed, or `CannotUnseal`."""
    try:
        cipher = ChaCha20Poly1305(_derived(secret, purpose))
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode())
    except InvalidTag as error:
        raise CannotUnseal("this was sealed with another secret") from error


def _derived(secret: str, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret.encode())
