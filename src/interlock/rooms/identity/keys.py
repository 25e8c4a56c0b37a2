"""The format of a key: `il_<key id>_<secret>`. The id finds the record; the digest of the whole key proves it."""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

_PREFIX = "il"
_ID_BYTES = 8
_SECRET_BYTES = 24


class NewKey(NamedTuple):
    """A key just made. `text` is shown once and kept nowhere."""

    id: str
    text: str
    digest: str


def make_key() -> NewKey:
    """A fresh random key."""
    key_id = secrets.token_hex(_ID_BYTES)
    text = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewKey(key_id, text, digest_of(text))


def digest_of(text: str) -> str:
    """What is stored of a key. The secret has 192 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def id_of(text: str) -> str | None:
    """The public part of a presented key, or None if it is not shaped like one."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != _PREFIX or len(key_id) != 2 * _ID_BYTES or not secret or not key_id.isalnum():
        return None
    return key_id
