"""Signs a grant on the approver's own machine: the private key is read here and is not sent anywhere."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from interlock.rooms.grants.model import Pin
    from interlock.wire.grants import GrantTerms


def load_private_key(path: str) -> Ed25519PrivateKey:
    """An Ed25519 key from an OpenSSH or PEM file; a passphrase is asked for if it has one."""
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise Failed(f"cannot read {path}: {error.strerror}", Exit.USAGE) from None
    try:
        return _decode(content, None)
    except TypeError:
        return _decode_with_passphrase(content, path)


def sign_grant(
    key: Ed25519PrivateKey,
    terms: GrantTerms,
    *,
    task: str,
    pins: dict[str, Any],
    limits: list[dict[str, Any]],
    uses: int,
    expires_seconds: int,
    standing: bool,
) -> dict[str, Any]:
    """The fields that make a grant a signed one: when it ends by the service's clock, its id, the signature."""
    from interlock.rooms.grants.model import SpendLimit, signed_bytes
    from interlock.rooms.grants.signatures import fingerprint_of

    expires_at = _whole(terms.now) + timedelta(seconds=expires_seconds)
    message = signed_bytes(
        tenant=terms.tenant,
        task=task,
        pins=_pins(pins),
        limits=tuple(SpendLimit(**limit) for limit in limits),
        uses=uses,
        expires_at=expires_at,
        approver=terms.approver,
        nonce=terms.nonce,
        standing=standing,
    )
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    value = base64.b64encode(key.sign(message)).decode()
    return {
        "expires_at": expires_at,
        "nonce": terms.nonce,
        "signature": {"signer": fingerprint_of(public), "value": value},
    }


def _pins(written: dict[str, Any]) -> tuple[Pin, ...]:
    from interlock.rooms.grants.model import BadPin, pins_of

    try:
        return pins_of(written)
    except BadPin as error:
        raise Failed(f"pin {error.path!r} {error}", Exit.USAGE) from None


def _decode(content: bytes, passphrase: bytes | None) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    if b"PRIVATE KEY" not in content:
        public = content.startswith((b"ssh-", b"ecdsa-", b"sk-", b"-----BEGIN PUBLIC"))
        found = "that is a public key" if public else "that is no OpenSSH or PEM private key"
        raise Failed(f"{found}; sign with the private one, such as ~/.ssh/id_ed25519", Exit.USAGE)
    load = load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, passphrase)
    except (ValueError, UnsupportedAlgorithm) as error:
        if passphrase is None and "encrypted" in str(error).lower():
            raise TypeError(str(error)) from None
        advice = "; install bcrypt to read it" if "bcrypt" in str(error) else ""
        advice = advice or ("; is the passphrase right?" if passphrase else "")
        raise Failed(f"the private key cannot be read: {error}{advice}", Exit.USAGE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Failed("grants are signed with Ed25519 keys; make one with `ssh-keygen -t ed25519`", Exit.USAGE)
    return key


def _decode_with_passphrase(content: bytes, path: str) -> Ed25519PrivateKey:
    try:
        return _decode(content, _passphrase(path))
    except TypeError as error:
        raise Failed(f"the private key cannot be read: {error}", Exit.USAGE) from None


def _passphrase(path: str) -> bytes:
    """Ask at the terminal, and nowhere else: what is typed anywhere else is shown."""
    import getpass
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(f"passphrase of {path}: ").encode()
    except (getpass.GetPassWarning, EOFError, OSError):
        raise Failed(
            f"{path} has a passphrase, and there is no terminal to ask for it; sign at one", Exit.USAGE
        ) from None


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
