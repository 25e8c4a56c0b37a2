"""No webhook makes the server reach an address that its operator did not mean to be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from interlock.channels.webhook import AddressRefused, Poster, Posting, PostRefused
from interlock.rooms.events.addresses import Address, Allowed, BadUrl, check_url, is_public, read_networks
from tests.harness.webhook_receiver import Receiver, Reply
from tests.service.conftest import Receive
from tests.service.relay_service import LOOPBACK, relaying_service

PRIVATE = (
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.3.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.2.7",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fd00::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "2002:7f00:1::",  # 6to4 of 127.0.0.1
    "2002:a9fe:a9fe::",  # 6to4 of 169.254.169.254
    "64:ff9b::7f00:1",  # NAT64 of 127.0.0.1
    "64:ff9b::a9fe:a9fe",
    "2001:db8::1",
    "3fff::1",
    "fec0::1",  # a private network, as it was written before fc00::/7
    "::127.0.0.1",
    "::10.0.0.1",
    "::ffff:0:169.254.169.254",
)
PUBLIC = ("93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::101:101")


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_for_everyone_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_for_everyone_is_public(address: str) -> None:
    assert is_public(ip_address(address))


def test_an_allowed_network_is_reached_and_its_neighbour_is_not() -> None:
    allowed = read_networks("10.1.0.0/16, fd00::/8")
    assert allowed.permits(ip_address("10.1.2.3"), encrypted=False)
    assert allowed.permits(ip_address("fd12::1"), encrypted=True)
    assert not allowed.permits(ip_address("10.2.0.1"), encrypted=True)


def test_a_public_address_is_reached_only_encrypted() -> None:
    assert Allowed().permits(ip_address("1.1.1.1"), encrypted=True)
    assert not Allowed().permits(ip_address("1.1.1.1"), encrypted=False)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/hook",
        "https://[::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://169.254.169.254/latest/meta-data",
        "http://example.com/hook",
        "ftp://example.com/hook",
        "https:///hook",
        "https://user:word@example.com/hook",
        "https://example.com/hook#part",
        "https://example.com/a b",
        "https://exämple.com/",
        "https://example.com:99999/",
        "/hook",
    ],
)
def test_a_url_that_could_never_be_posted_to_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadUrl):
        check_url(url, Allowed())


class Names:
    """A resolver whose answers change from one look-up to the next."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        return [ip_address(each) for each in answer]


async def test_a_name_that_resolves_to_loopback_reaches_nothing(receive: Receive) -> None:
    receiver = await receive()
    poster = Poster(f"https://rebound.test:{receiver.port}/", Posting(resolve=Names(["127.0.0.1"])))
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 is not a public address"):
        await poster.post({}, b"{}")
    await poster.close()
    assert receiver.connections == 0


async def test_a_name_that_turns_to_loopback_on_the_second_look_up_reaches_nothing(receive: Receive) -> None:
    receiver = await receive()
    # The first address may be reached, but nobody listens there; the receiver listens on the second.
    names = Names(["127.0.0.9"], ["127.0.0.1"])
    allowed = read_networks("127.0.0.9/32")
    posting = Posting(resolve=names, allowed=allowed, timeout_seconds=0.5)
    poster = Poster(f"http://rebound.test:{receiver.port}/", posting)
    for _ in range(3):
        with pytest.raises(PostRefused):
            await poster.post({}, b"{}")
    await poster.close()
    assert names.asked >= 2
    assert receiver.connections == 0


async def test_a_name_is_looked_up_once_a_connection_and_the_checked_address_is_used(
    receive: Receive,
) -> None:
    receiver = await receive()
    # A second look-up would find an address where nobody listens.
    names = Names(["127.0.0.1"], ["127.0.0.9"])
    poster = Poster(
        f"http://once.test:{receiver.port}/hook", Posting(resolve=names, allowed=read_networks(LOOPBACK))
    )
    await poster.post({}, b"{}")
    await poster.post({}, b"{}")
    await poster.close()
    assert names.asked == 1
    assert receiver.received[0].headers["host"] == f"once.test:{receiver.port}"


async def test_of_several_addresses_only_permitted_ones_are_tried(receive: Receive) -> None:
    receiver = await receive()
    names = Names(["10.9.9.9", "::1", "127.0.0.1"])
    poster = Poster(
        f"http://many.test:{receiver.port}/", Posting(resolve=names, allowed=read_networks("127.0.0.1/32"))
    )
    await poster.post({}, b"{}")
    await poster.close()
    assert len(receiver.received) == 1


async def test_a_redirect_is_not_followed(receive: Receive) -> None:
    inside = await receive()
    outside = await receive(lambda _: Reply(status=307, headers={"location": inside.url}))
    poster = Poster(outside.url, Posting(allowed=read_networks(LOOPBACK)))
    with pytest.raises(PostRefused, match="307, a redirect, which is not followed"):
        await poster.post({}, b"{}")
    await poster.close()
    assert inside.connections == 0


async def test_proxies_of_the_environment_are_not_used(
    receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, receiver = await receive(), await receive()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    poster = Poster(receiver.url, Posting(allowed=read_networks(LOOPBACK)))
    await poster.post({}, b"{}")
    await poster.close()
    assert proxy.connections == 0
    assert len(receiver.received) == 1


async def test_an_endless_answer_is_cut_short(receive: Receive) -> None:
    huge = b"HTTP/1.1 200 told\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 200_000
    receiver = await receive(lambda _: Reply(raw=huge))
    poster = Poster(receiver.url, Posting(allowed=read_networks(LOOPBACK), timeout_seconds=10))
    assert await poster.post({}, b"{}") == 200
    await poster.close()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(delay_seconds=30), "no whole answer within"),
        (Reply(hang_up=True), "the connection failed"),
        (Reply(raw=b"gibberish\r\n\r\n"), "the connection failed"),
        (
            Reply(raw=b"HTTP/1.1 200 told\r\ncontent-length: 50\r\n\r\nhalf"),
            "the connection failed|no whole answer",
        ),
        (Reply(status=404), "it answered 404"),
        (Reply(status=503, headers={"retry-after": "7"}), "it answered 503"),
    ],
)
async def test_a_wrong_answer_is_no_delivery(receive: Receive, reply: Reply, why: str) -> None:
    receiver = await receive(lambda _: reply)
    poster = Poster(receiver.url, Posting(allowed=read_networks(LOOPBACK), timeout_seconds=0.5))
    with pytest.raises(PostRefused, match=why) as refused:
        await poster.post({}, b"{}")
    await poster.close()
    assert refused.value.retry_after_seconds == (7.0 if reply.headers else 0.0)


async def test_a_webhook_whose_name_turns_to_loopback_forges_no_request_and_loses_nothing(
    sqlite_url: str, receive: Receive
) -> None:
    inside, public = await receive(), await Receiver().start()
    names = Names(["127.0.0.1"])  # loopback, which this server may not reach
    async with relaying_service(sqlite_url, resolve=names, webhook_allow_private="") as relay_service:
        webhook = await relay_service.add_webhook(f"https://rebound.test:{inside.port}/hook")
        await relay_service.tell("a", times=3)
        async with asyncio.timeout(30):
            while (await relay_service.relay(webhook.id)).failures < 2:
                await asyncio.sleep(0.02)
    assert inside.connections == 0
    # The operator allows the network: everything that was held back arrives.
    async with relaying_service(sqlite_url, resolve=Names(["127.0.0.1"])) as relay_service:
        await relay_service.add_webhook(f"http://fine.test:{public.port}/hook")
        await public.until_taken(3)
    await public.stop()
    assert [event["data"]["n"] for event in public.events()] == [1, 2, 3]
