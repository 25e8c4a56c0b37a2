"""Making signing keys, and keeping their private halves.

With a secret (`INTERLOCK_SECRET`) a private key is stored sealed: whoever reads the database learns nothing
from it. Without one it is stored as it is, and whoever can read the database can sign permits.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from interlock.permits.model import SigningKey
from interlock.permits.rules import NewKey
from interlock.permits.tokens import b64decode, b64encode

_CONTEXT = b"interlock permit key v1"
_NONCE_BYTES = 12


class CannotUnseal(Exception):
    """The secret is missing, or is not the one that the key was sealed with."""


def make_key(secret: str) -> NewKey:
    """A fresh key pair; its id is a digest of the public half."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    kid = _kid(public)
    raw = private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    kept = _seal(raw, kid, secret) if secret else raw
    return NewKey(kid=kid, public=b64encode(public), private=b64encode(kept), sealed=bool(secret))


def private_key(key: SigningKey, secret: str) -> Ed25519PrivateKey:
    """A stored key, ready to sign."""
    kept = b64decode(key.private)
    return Ed25519PrivateKey.from_private_bytes(_unseal(kept, key.kid, secret) if key.sealed else kept)


def _kid(public: bytes) -> str:
    digest = Hash(SHA256())
    digest.update(public)
    return b64encode(digest.finalize()[:12])


def _seal(raw: bytes, kid: str, secret: str) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(_derived(secret)).encrypt(nonce, raw, kid.encode())


def _unseal(kept: bytes, kid: str, secret: str) -> bytes:
    if not secret:
        raise CannotUnseal(f"signing key {kid} is sealed; start with the INTERLOCK_SECRET it was sealed with")
    try:
        return ChaCha20Poly1305(_derived(secret)).decrypt(
            kept[:_NONCE_BYTES], kept[_NONCE_BYTES:], kid.encode()
        )
    except InvalidTag as error:
        raise CannotUnseal(
            f"signing key {kid} was sealed with another INTERLOCK_SECRET; start with that one, or run "
            "`interlock keys rotate --revoke` with the new one"
        ) from error


def _derived(secret: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_CONTEXT).derive(secret.encode())
