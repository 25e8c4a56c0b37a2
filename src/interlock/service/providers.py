"""Identity providers that people sign in with: how each is configured, and who one of its accounts is here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from interlock.rooms.identity.model import EVERY_ROLE, Role
from interlock.service.sessions import Vouched
from interlock.service.settings import TENANT_DEFAULT, BadSetting, Settings
from interlock.wire.fields import Name

# What the provider of the plain settings is called in addresses and in the audit.
PLAIN_ID = "sso"
PLAIN_TITLE = "single sign-on"
EVERYBODY = "*"
GROUPS_MAX = 50

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_HERE = frozenset({"127.0.0.1", "::1", "localhost"})
_SUBJECT_CHARACTERS_MAX = 255


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One identity provider. `roles` and `groups` say what its groups stand for here; without `groups` a group keeps
    its name. `create` lets people in who are new, `adopt` those who were here before they first signed in with it.
    """

    id: str
    title: str
    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    roles: Mapping[str, tuple[Role, ...]] = {}
    groups: Mapping[str, str] | None = None
    create: bool = True
    adopt: bool = False
    tenant: str = TENANT_DEFAULT


class NotVouched(Exception):
    """What a provider says of an account is not enough to know who it is."""


def providers_from(settings: Settings) -> tuple[Provider, ...]:
    """Every provider that is configured, in the order in which people are offered them, or `BadSetting`."""
    found: list[Provider] = []
    if settings.oidc_issuer or settings.oidc_client_id:
        found.append(_plain(settings))
    if settings.oidc_providers:
        found += _from_file(Path(settings.oidc_providers))
    names = [each.id for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadSetting(
            f"oidc_providers: {twice} is the provider of the settings oidc_*; give it another name"
        )
    if found and settings.workers > 1 and not settings.secret:
        raise BadSetting(
            "secret must be set to sign in with a provider on several workers: one may finish what another began"
        )
    return tuple(found)


def vouched(provider: Provider, claims: Mapping[str, Any]) -> Vouched:
    """Who an account is here, from claims that were proven, or `NotVouched`."""
    subject = claims.get("sub")
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= _SUBJECT_CHARACTERS_MAX
        or not subject.isprintable()
    ):
        raise NotVouched("it does not say which account this is (sub)")
    theirs = _groups_of(claims, provider.groups_claim)
    roles = {role for group in (*theirs, EVERYBODY) for role in provider.roles.get(group, ())}
    if provider.groups is None:
        groups = [group for group in theirs if _is_name(group)]
    else:
        groups = [provider.groups[group] for group in theirs if group in provider.groups]
    return Vouched(
        provider=provider.id,
        subject=subject,
        name=_name_of(claims),
        roles=tuple(role for role in EVERY_ROLE if role in roles),
        groups=tuple(dict.fromkeys(groups))[:GROUPS_MAX],
        tenant=provider.tenant,
    )


def lacks_claims(provider: Provider, claims: Mapping[str, Any]) -> bool:
    """Whether the provider may have more claims about an account than its token carries."""
    return provider.groups_claim not in claims or not any(_names_in(claims))


def _names_in(claims: Mapping[str, Any]) -> Sequence[Any]:
    email = claims.get("email") if claims.get("email_verified") is True else None
    return claims.get("preferred_username"), email


def _name_of(claims: Mapping[str, Any]) -> str:
    """The first that can be a name here: the user name, the verified email address, then `sub`.

    It is used once: afterwards the account is tied to the principal that it made.
    """
    for each in (*_names_in(claims), claims["sub"]):
        # A colon is refused: names such as `local:mia` belong to the owner of a file and to parts of the server.
        if isinstance(each, str) and _is_name(each) and ":" not in each:
            return each
    raise NotVouched("it gives no user name or verified email address that can be a name here")


def _groups_of(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    found: Any = claims.get(claim)
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list):
        return ()
    return tuple(each for each in cast("list[object]", found) if isinstance(each, str))


def _is_name(text: str) -> bool:
    try:
        msgspec.convert(text, Name)
    except msgspec.ValidationError:
        return False
    return True


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider in a file."""

    issuer: str
    client_id: str
    name: str = ""
    client_secret: str = ""
    client_secret_file: str = ""
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    roles: dict[str, list[Role]] = {}
    groups: dict[str, str] | None = None
    create: bool = True
    adopt: bool = False
    tenant: str = TENANT_DEFAULT


def _plain(settings: Settings) -> Provider:
    """The provider of the settings `oidc_*`."""
    if not (settings.oidc_issuer and settings.oidc_client_id):
        raise BadSetting("oidc_issuer and oidc_client_id must be set together")
    groups = _pairs("oidc_groups", settings.oidc_groups) if settings.oidc_groups else None
    provider = Provider(
        id=PLAIN_ID,
        title=settings.oidc_name or PLAIN_TITLE,
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        scopes=settings.oidc_scopes,
        groups_claim=settings.oidc_groups_claim,
        roles={group: _roles(words) for group, words in _pairs("oidc_roles", settings.oidc_roles).items()},
        groups=groups,
        create=settings.oidc_create,
        adopt=settings.oidc_adopt,
        tenant=settings.oidc_tenant,
    )
    return _checked(provider, "oidc_")


def _pairs(setting: str, text: str) -> dict[str, str]:
    """`a=b,c=d` as a table."""
    found: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        left, sign, right = (part.strip() for part in each.rpartition("="))
        if not (left and sign and right):
            raise BadSetting(f"{setting} must be like finance-leads=review,ops=operate; {each!r} is not")
        found[left] = right
    return found


def _roles(words: str) -> tuple[Role, ...]:
    named = [word.strip() for word in words.split("+")]
    wrong = next((word for word in named if word not in list(Role)), None)
    if wrong is not None:
        known = ", ".join(role.value for role in Role)
        raise BadSetting(f"oidc_roles: {wrong!r} is not a role; use {known}, with + between several")
    return tuple(Role(word) for word in named)


def _from_file(path: Path) -> list[Provider]:
    """The providers of a file, which has a table for each."""
    import tomllib

    try:
        document = tomllib.loads(path.read_text())
        tables = msgspec.convert(document, dict[str, _Table])
    except OSError as error:
        raise BadSetting(f"oidc_providers: {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"oidc_providers: {path} is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise BadSetting(f"oidc_providers: {path} needs one table for each provider: {error}") from None
    return [_from_table(path, name, table) for name, table in tables.items()]


def _from_table(path: Path, name: str, table: _Table) -> Provider:
    if not _ID.fullmatch(name):
        raise BadSetting(f"oidc_providers: {name!r} in {path} must be small letters, digits and hyphens")
    secret = table.client_secret
    if table.client_secret_file:
        try:
            secret = (path.parent / table.client_secret_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSetting(
                f"oidc_providers: client_secret_file of {name} cannot be read: {error}"
            ) from None
    provider = Provider(
        id=name,
        title=table.name or name.capitalize(),
        issuer=table.issuer,
        client_id=table.client_id,
        client_secret=secret,
        scopes=table.scopes,
        groups_claim=table.groups_claim,
        roles={group: tuple(roles) for group, roles in table.roles.items()},
        groups=table.groups,
        create=table.create,
        adopt=table.adopt,
        tenant=table.tenant,
    )
    return _checked(provider, f"oidc_providers: {name}.")


def _checked(provider: Provider, named: str) -> Provider:
    """The same provider, if it can be used. `named` begins the names of its settings."""
    if not is_trustworthy(provider.issuer):
        raise BadSetting(
            f"{named}issuer must be an https address, like https://login.example.com/realms/acme"
        )
    if "openid" not in provider.scopes.split():
        raise BadSetting(f"{named}scopes must have openid among them, like openid profile email groups")
    wrong = next((each for each in (provider.groups or {}).values() if not _is_name(each)), None)
    if wrong is not None:
        raise BadSetting(f"{named}groups: {wrong!r} cannot be a group; use letters, digits and _.:@-")
    if not _is_name(provider.tenant):
        raise BadSetting(f"{named}tenant must be a tenant's name")
    return provider


def is_trustworthy(address: str) -> bool:
    """Whether no third party can change messages to and from this address: https, or this machine itself."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not address.isprintable():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _HERE)
