"""Makes signing keys, and stores their private halves.

With a secret (`INTERLOCK_SECRET`) a private key is stored encrypted, so reading the database reveals nothing. Without
one it is stored as it is, and anybody who can read the database can sign permits.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.rooms.permits.model import SigningKey
from interlock.rooms.permits.rules import NewKey
from interlock.rooms.permits.tokens import b64decode, b64encode

_PURPOSE = b"interlock permit key v1"


def make_key(secret: str) -> NewKey:
    """A fresh key pair; its id is a digest of the public half."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    kid = _kid(public)
    raw = private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    kept = seal(raw, secret, purpose=_PURPOSE, about=kid) if secret else raw
    return NewKey(kid=kid, public=b64encode(public), private=b64encode(kept), sealed=bool(secret))


def private_key(key: SigningKey, secret: str) -> Ed25519PrivateKey:
    """A stored key, ready to sign."""
    kept = b64decode(key.private)
    return Ed25519PrivateKey.from_private_bytes(_unseal(kept, key.kid, secret) if key.sealed else kept)


def _kid(public: bytes) -> str:
    digest = Hash(SHA256())
    digest.update(public)
    return b64encode(digest.finalize()[:12])


def _unseal(kept: bytes, kid: str, secret: str) -> bytes:
    if not secret:
        raise CannotUnseal(f"signing key {kid} is sealed; start with the INTERLOCK_SECRET it was sealed with")
    try:
        return unseal(kept, secret, purpose=_PURPOSE, about=kid)
    except CannotUnseal as error:
        raise CannotUnseal(
            f"signing key {kid} was sealed with another INTERLOCK_SECRET; start with that one, or "
            "rotate the signing keys with the new one and revoke those of before"
        ) from error
