"""The secrets that sign webhooks: how they are spelled, what they sign, and how they are kept.

A server needs them as they are, so they cannot be kept as digests. With a secret of the deployment
(`INTERLOCK_SECRET`) they are stored sealed, each for its own webhook, so reading the database reveals
nothing. Without one they are stored as they are, and a reader of the database can forge requests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.rooms.events.model import Webhook

SECRET_PREFIX = "whsec_"  # noqa: S105 - how every secret begins, not a secret
SECRET_BYTES = (24, 64)

_PREFIX = "sealed_"
_PURPOSE = b"interlock webhook secret v1"


class BadSecret(ValueError):
    """Not a secret that can sign; the message says what one looks like."""


def spell_secret(key: bytes) -> str:
    """A signing key as it is shown and kept."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def read_secret(secret: str) -> bytes:
    """The signing key behind a secret."""
    least, most = SECRET_BYTES
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not least <= len(key) <= most:
        raise BadSecret(f"must be {SECRET_PREFIX} and {least} to {most} bytes in base64")
    return key


def signed_headers(secrets: Sequence[str], event_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """The headers of one request; with two secrets, a signature by each."""
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signature(secret, event_id, seconds, body) for secret in secrets),
    }


def signature(secret: str, event_id: str, seconds: int, body: bytes) -> str:
    """One signature, `v1,<base64>`."""
    content = f"{event_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(read_secret(secret), content, hashlib.sha256)).decode()


def kept_secret(spelled: str, webhook_id: str, secret: str) -> str:
    """How a webhook's secret is stored."""
    if not secret:
        return spelled
    sealed = seal(spelled.encode(), secret, purpose=_PURPOSE, about=webhook_id)
    return _PREFIX + base64.b64encode(sealed).decode()


def open_secret(kept: str, webhook_id: str, secret: str) -> str:
    """A webhook's secret as it signs; one that was stored before there was anything to seal with opens too."""
    if not kept.startswith(_PREFIX):
        return kept
    if not secret:
        raise CannotUnseal(
            f"the secret of {webhook_id} is sealed; start with the INTERLOCK_SECRET of that time"
        )
    try:
        sealed = base64.b64decode(kept.removeprefix(_PREFIX))
        return unseal(sealed, secret, purpose=_PURPOSE, about=webhook_id).decode()
    except CannotUnseal as error:
        raise CannotUnseal(
            f"the secret of {webhook_id} was sealed with another INTERLOCK_SECRET; start with that one, or "
            "rotate its secret with the new one"
        ) from error


def signing_secrets(webhook: Webhook, now: datetime, secret: str) -> tuple[str, ...]:
    """The secrets that sign at a moment, the current one first. Raises `CannotUnseal`.

    The one before a rotation is left out if it cannot be opened: a rotation is how a lost secret is replaced.
    """
    current, *old = webhook.secrets_at(now)
    opened = [open_secret(current, webhook.id, secret)]
    for kept in old:
        try:
            opened.append(open_secret(kept, webhook.id, secret))
        except CannotUnseal:
            continue
    return tuple(opened)
