"""Which addresses a webhook may reach: public ones, and those that the operator allowed.

A tenant chooses a webhook's address, but the request comes from inside the operator's network. Without this check, a
tenant could make the server call its metadata service or an internal database. The check is made on the address that
is connected to, because a name may resolve differently the next time.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

import msgspec

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

URL_CHARACTERS_MAX = 2000

# IPv4 inside IPv6: what matters is where the packets end up.
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
# The global unicast addresses. The rest has old forms of IPv4 inside IPv6 and private networks.
_UNICAST = IPv6Network("2000::/3")
_DOCUMENTATION = IPv6Network("3fff::/20")


class BadUrl(ValueError):
    """A URL that nothing may be posted to; the message says why and what to do."""


class Allowed(msgspec.Struct, frozen=True):
    """The networks that the operator allowed besides public addresses."""

    networks: tuple[Network, ...] = ()

    def permits(self, address: Address, *, encrypted: bool) -> bool:
        """Whether this address may be connected to. In the clear, only if the operator said so."""
        if any(address.version == network.version and address in network for network in self.networks):
            return True
        return encrypted and is_public(address)


def read_networks(text: str) -> Allowed:
    """Networks as configured: `10.1.0.0/16,fd00::/8`. Raises ValueError for anything else."""
    words = (word.strip() for word in text.split(","))
    return Allowed(tuple(ip_network(word, strict=False) for word in words if word))


def is_public(address: Address) -> bool:
    """Whether an address is meant to be reached by anyone."""
    return all(_is_given_out(each) for each in _meanings(address))


def check_url(url: str, allowed: Allowed) -> None:
    """Refuse a URL that could never be posted to; what a name resolves to is checked when connecting."""
    if len(url) > URL_CHARACTERS_MAX or not url.isascii() or any(char <= " " for char in url):
        raise BadUrl(f"must be at most {URL_CHARACTERS_MAX} visible ASCII characters")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadUrl(f"is not a URL: {error}") from None
    if parts.scheme not in ("https", "http") or not host:
        raise BadUrl("must begin with https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise BadUrl("must hold no user, password or fragment; requests are signed instead")
    literal = _literal(host)
    encrypted = parts.scheme == "https"
    if not encrypted and not allowed.networks:
        raise BadUrl("must begin with https://; http is only for networks that the operator allowed")
    if literal is not None and not allowed.permits(literal, encrypted=encrypted):
        raise BadUrl(refusal(literal))


def refusal(address: Address) -> str:
    """Why an address is not reached, for the person who configured the webhook."""
    return (
        f"{address} is not a public address (or not encrypted); "
        "an operator can allow its network with INTERLOCK_WEBHOOK_ALLOW_PRIVATE"
    )


def _is_given_out(address: Address) -> bool:
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv4Address) or any(address in network for network in _NAT64):
        return True
    return address in _UNICAST and address not in _DOCUMENTATION


def _meanings(address: Address) -> Iterable[Address]:
    """The address, and every IPv4 address that it stands for."""
    yield address
    if isinstance(address, IPv4Address):
        return
    inner = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
    yield from (each for each in inner if each is not None)
    if any(address in network for network in _NAT64):
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
