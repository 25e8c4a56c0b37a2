"""Keeping the secrets that sign webhooks.

A server needs them as they are, so they cannot be kept as digests. With a secret of the deployment
(`INTERLOCK_SECRET`) they are stored sealed, each for its own webhook: whoever reads the database learns nothing
from it. Without one they are stored as they are, and whoever can read the database can forge requests.
"""

from __future__ import annotations

import base64
from datetime import datetime

from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.rooms.events.model import Webhook

_PREFIX = "sealed_"
_PURPOSE = b"interlock webhook secret v1"


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
