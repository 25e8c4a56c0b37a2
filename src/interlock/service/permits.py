"""Signs permits, with a key ring that is cached for a moment."""

from __future__ import annotations

import time
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.kernel.codec.sealing import CannotUnseal
from interlock.kernel.kernel import Kernel
from interlock.kernel.refusal import Fault
from interlock.kernel.storage import Store
from interlock.rooms.identity.model import Caller
from interlock.rooms.jobs.model import Job
from interlock.rooms.permits.model import DEPLOYMENT, KEY_RINGS, RING_ID, KeyRing, SigningKey
from interlock.rooms.permits.rules import EnsureKey, RotateKeys
from interlock.rooms.permits.sealing import make_key, private_key
from interlock.rooms.permits.tokens import Permit, b64encode, signing_input

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
        """Somebody may have rotated the keys."""
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

    async def ready(self) -> Signer:
        """A signer for what is about to be handed out. Fails before anything is handed out, not after."""
        ring = await self.ring()
        return Signer(ring, {key.kid: self._private(key) for key in ring.keys})

    def _private(self, key: SigningKey) -> Ed25519PrivateKey:
        if key.kid not in self._unsealed:
            try:
                self._unsealed[key.kid] = private_key(key, self._secret)
            except CannotUnseal as error:
                raise SigningUnavailable(str(error), retry_after_seconds=30.0) from error
        return self._unsealed[key.kid]


class Signer:
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
