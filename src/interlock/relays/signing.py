"""Signatures after the Standard Webhooks specification: HMAC-SHA256 over id, time and body.

A receiver recomputes the signature with its secret, compares in constant time, and refuses a timestamp
that is too far from its own clock, so that an old request cannot be played again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"  # noqa: S105 - how every secret begins, not a secret
SECRET_BYTES = (24, 64)


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
