"""The formats of credentials. The public part finds the record; a digest proves the secret part.

A key is `il_<key id>_<secret>`, and its digest is of the whole text. A session's token is `ses_<id>_<secret>` and a
sign-in link's is `sil_<id>_<secret>`: first the id of the record, which is made when it is stored, and then a secret
of which the digest is stored.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

_PREFIX = "il"
_ID_BYTES = 8
_SECRET_BYTES = 24
_RECORD_ID_DIGITS = 32

SESSION_PREFIX = "ses"
LINK_PREFIX = "sil"


class NewApiKey(NamedTuple):
    """A key just made. `text` is shown once and kept nowhere."""

    id: str
    text: str
    digest: str


def make_key() -> NewApiKey:
    """A fresh random key."""
    key_id = secrets.token_hex(_ID_BYTES)
    text = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewApiKey(key_id, text, digest_of(text))


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


class NewSecret(NamedTuple):
    """The secret part of a token just made. `text` is shown once and kept nowhere."""

    text: str
    digest: str


class TokenParts(NamedTuple):
    """A presented token: which record it names, and the digest of its secret."""

    record_id: str
    digest: str


def make_secret() -> NewSecret:
    """A fresh random secret for a session or a sign-in link."""
    text = secrets.token_urlsafe(_SECRET_BYTES)
    return NewSecret(text, digest_of(text))


def token_of(record_id: str, secret: str) -> str:
    """The token of a session or a sign-in link: what its owner presents."""
    return f"{record_id}_{secret}"


def token_parts(text: str, prefix: str) -> TokenParts | None:
    """What a token of this prefix says, or None if the text is not shaped like one."""
    found, _, rest = text.partition("_")
    digits, _, secret = rest.partition("_")
    if found != prefix or len(digits) != _RECORD_ID_DIGITS or not secret:
        return None
    if not (digits.isascii() and digits.isalnum()):
        return None
    return TokenParts(f"{prefix}_{digits}", digest_of(secret))
