"""Makes the keys that sign permits, stores their private halves, and signs.

With a secret (`INTERLOCK_SECRET`) a private key is stored encrypted, so reading the database reveals nothing. Without
one it is stored as it is, and a reader of the database can sign permits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import Fault
from interlock.kernel.storage import Store
from interlock.rooms.identity.model import Caller
from interlock.rooms.jobs.model import Job
from interlock.rooms.permits.model import (
    DEPLOYMENT,
    KEY_RINGS,
    RING_ID,
    EnsureKey,
    KeyRing,
    NewSigningKey,
    RotateKeys,
    SigningKey,
)
from interlock.rooms.permits.verification import Permit, b64decode, b64encode, signing_input

_RECENT_SECONDS = 1.0


class SigningUnavailable(Fault):
    """Permits cannot be signed, so no work is handed out."""


class PermitSigner:
    """Signs for this process with the deployment's current key."""

    def __init__(
        self, kernel: Kernel, store: Store, secret: str, *, recent_seconds: float = _RECENT_SECONDS
    ) -> None:
        self._recent_seconds = recent_seconds
        self._kernel = kernel
        self._store = store
        self._secret = secret
        self._ring: KeyRing | None = None
        self._looked_at = 0.0
        self._unsealed: dict[str, Ed25519PrivateKey] = {}

    def forget(self) -> None:
        """Read the ring again: the keys may have been rotated."""
        self._looked_at = 0.0

    async def ring(self) -> KeyRing:
        """The keys as they are now, or were a moment ago; the first is made when it is first needed."""
        if self._ring is None or time.monotonic() - self._looked_at > self._recent_seconds:
            kept = await self._store.get(KEY_RINGS, DEPLOYMENT, RING_ID)
            if kept is None:
                kept = await self._kernel.run(EnsureKey(offered=make_key(self._secret)))
            self._ring, self._looked_at = kept, time.monotonic()
        return self._ring

    def rotation(self, *, by: Caller, lead_seconds: int, revoke: bool) -> RotateKeys:
        """The command that publishes a new key, made here; call `forget` when it has been decided."""
        made = make_key(self._secret)
        return RotateKeys(offered=made, lead_seconds=lead_seconds, revoke=revoke, tenant=by.tenant, by=by)

    async def ready(self) -> CurrentSigner:
        """A signer for the next permits. Fails before work is handed out, not after."""
        ring = await self.ring()
        return CurrentSigner(ring, {key.kid: self._private(key) for key in ring.keys})

    def _private(self, key: SigningKey) -> Ed25519PrivateKey:
        if key.kid not in self._unsealed:
            try:
                self._unsealed[key.kid] = private_key(key, self._secret)
            except CannotUnseal as error:
                raise SigningUnavailable(str(error), retry_after_seconds=30.0) from error
        return self._unsealed[key.kid]


class CurrentSigner:
    """Signs with the key whose time it is by the store's clock, whatever this machine's clock says.

    Ed25519 needs no randomness, so the same permit is always the same bytes.
    """

    def __init__(self, ring: KeyRing, private: Mapping[str, Ed25519PrivateKey]) -> None:
        self._ring = ring
        self._private = private

    def permit(self, job: Job) -> str:
        """The token for a job that is held, as of its last change."""
        lease = job.lease
        if lease is None:
            raise ValueError(f"{job.id} is not held, so there is nothing to permit")
        key = self._ring.signing(job.updated_at) or self._ring.keys[0]
        said = Permit(
            aud=job.action.topic,
            exp=int(lease.expires_at.timestamp()),
            fence=job.fence,
            iat=int(job.updated_at.timestamp()),
            job_hash=job.job_hash,
            job_id=job.id,
            tenant=job.tenant,
        )
        signed = signing_input(said, key.kid)
        return f"{signed.decode()}.{b64encode(self._private[key.kid].sign(signed))}"


_PURPOSE = b"interlock permit key v1"


def make_key(secret: str) -> NewSigningKey:
    """A fresh key pair; its id is a digest of the public half."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    kid = _kid(public)
    raw = private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    kept = seal(raw, secret, purpose=_PURPOSE, about=kid) if secret else raw
    return NewSigningKey(kid=kid, public=b64encode(public), private=b64encode(kept), sealed=bool(secret))


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
