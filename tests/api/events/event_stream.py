"""Server-sent events as a client reads them, from a real server or from a response in this process."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from tests.harness.server import InterlockServer, Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of a stream; `data` is None where there was none."""

    id: str | None = None
    event: str | None = None
    data: dict[str, Any] | None = None
    comment: bool = False


def parse(text: str) -> Block:
    """One block, as the specification reads it."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
    data = json.loads(fields["data"]) if "data" in fields else None
    comment = any(line.startswith(":") for line in text.split("\n"))
    return Block(id=fields.get("id"), event=fields.get("event"), data=data, comment=comment)


async def blocks(stream: AsyncIterator[bytes]) -> AsyncIterator[Block]:
    """The blocks of a response's stream."""
    text = ""
    async for chunk in stream:
        text += chunk.decode()
        while "\n\n" in text:
            block, text = text.split("\n\n", 1)
            yield parse(block)


class Stream:
    """A client of a real server's stream."""

    def __init__(
        self, server: InterlockServer, key: Key, *, query: str = "", last: str | None = None
    ) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = dict(key.headers) | ({"last-event-id": last} if last is not None else {})
        self.connection.request("GET", f"/api/v1/events{query}", headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def blocks(self) -> Iterator[Block]:
        """Blocks until the server ends the stream."""
        text = ""
        while chunk := self.response.read1(65536):
            text += chunk.decode()
            while "\n\n" in text:
                block, text = text.split("\n\n", 1)
                yield parse(block)

    def events(self) -> Iterator[Block]:
        """Blocks that hold data."""
        return (block for block in self.blocks() if block.data is not None)

    def close(self) -> None:
        self.connection.close()
