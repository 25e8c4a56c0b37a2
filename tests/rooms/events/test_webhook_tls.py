"""Webhooks over TLS: the connection goes to a checked address, and the certificate must still be the name's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from interlock.channels.webhook import Poster, Posting, PostRefused
from interlock.rooms.events.addresses import Address, read_networks
from tests.harness.certificate_authority import Authority
from tests.harness.webhook_receiver import Receiver
from tests.service.relay_service import LOOPBACK, relaying_service

NAME = "hook.test"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    yield made
    await made.stop()


async def at_loopback(host: str, port: int) -> Sequence[Address]:
    """Every name leads to the receiver."""
    return [ip_address("127.0.0.1")]


def poster_to(receiver: Receiver, authority: Authority, host: str = NAME) -> Poster:
    posting = Posting(
        allowed=read_networks(LOOPBACK),
        resolve=at_loopback,
        ssl_context=authority.trust(),
        timeout_seconds=20,
    )
    return Poster(f"https://{host}:{receiver.port}/hook", posting)


async def test_the_name_is_asked_for_and_checked_although_an_address_is_connected_to(
    receiver: Receiver, authority: Authority
) -> None:
    context, asked = authority.server(NAME)
    await receiver.start(ssl=context)
    poster = poster_to(receiver, authority)
    assert await poster.post({}, b"{}") == 204
    await poster.close()
    assert asked == [NAME]
    assert receiver.received[0].headers["host"] == f"{NAME}:{receiver.port}"


@pytest.mark.parametrize(
    "names", [("other.test",), ("127.0.0.1",), ("hook.test.evil.test", "*.hook.test"), ("test",)]
)
async def test_a_certificate_of_another_name_is_refused_before_anything_is_sent(
    receiver: Receiver, authority: Authority, names: tuple[str, ...]
) -> None:
    context, asked = authority.server(*names)
    await receiver.start(ssl=context)
    poster = poster_to(receiver, authority)
    with pytest.raises(PostRefused, match="certificate verify failed"):
        await poster.post({}, b"{}")
    await poster.close()
    assert asked == [NAME]
    assert receiver.received == []


async def test_an_address_in_the_url_needs_a_certificate_for_that_address(
    receiver: Receiver, authority: Authority
) -> None:
    await receiver.start(ssl=authority.server("127.0.0.1")[0])
    poster = poster_to(receiver, authority, "127.0.0.1")
    assert await poster.post({}, b"{}") == 204
    await poster.close()


async def test_a_certificate_that_ran_out_is_refused(receiver: Receiver, authority: Authority) -> None:
    await receiver.start(ssl=authority.server(NAME, lifetime=timedelta(hours=-1))[0])
    poster = poster_to(receiver, authority)
    with pytest.raises(PostRefused, match="certificate has expired"):
        await poster.post({}, b"{}")
    await poster.close()
    assert receiver.received == []


async def test_an_authority_that_nobody_trusts_is_refused(
    receiver: Receiver, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    await receiver.start(ssl=Authority(tmp_path / "other").server(NAME)[0])
    poster = poster_to(receiver, authority)
    with pytest.raises(PostRefused, match="certificate verify failed"):
        await poster.post({}, b"{}")
    await poster.close()
    assert receiver.received == []


async def test_a_relay_trusts_what_the_machine_trusts_and_waits_for_the_right_certificate(
    sqlite_url: str, receiver: Receiver, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    await receiver.start(ssl=authority.server("other.test")[0])
    async with relaying_service(sqlite_url, resolve=at_loopback) as relay_service:
        webhook = await relay_service.add_webhook(f"https://{NAME}:{receiver.port}/hook")
        await relay_service.tell("a", times=2)
        async with asyncio.timeout(30):
            while not (refused := await relay_service.relay(webhook.id)).failures:
                await asyncio.sleep(0.02)
        await receiver.stop()
        impostor = list(receiver.received)
        await receiver.start(port=receiver.port, ssl=authority.server(NAME)[0])
        await receiver.until_taken(2)
    assert impostor == []
    assert "certificate verify failed" in refused.error
    assert [event["data"]["n"] for event in receiver.events()] == [1, 2]


async def test_a_handshake_that_is_never_answered_leaves_no_connection_open(authority: Authority) -> None:
    ended = asyncio.Event()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)  # returns when the other side has closed
        writer.close()
        ended.set()

    server = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    posting = Posting(
        allowed=read_networks(LOOPBACK),
        resolve=at_loopback,
        ssl_context=authority.trust(),
        timeout_seconds=0.5,
    )
    poster = Poster(f"https://{NAME}:{server.sockets[0].getsockname()[1]}/hook", posting)
    try:
        with pytest.raises(PostRefused, match="no whole answer within"):
            await poster.post({}, b"{}")
        async with asyncio.timeout(30):
            await ended.wait()
    finally:
        await poster.close()
        server.close()
