"""Commands on their way to another process that shares the store, which may decide them in the asker's place.

Only those travel that leave behind what they decided, so that the asker finds it in the store (`Command.found`) and
need not believe anybody. A process that decides for another keeps what the other will find, and nothing else: a "no",
and whatever is recorded of it, is left to the asker.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from interlock.kernel.command import Command
from interlock.kernel.record import Find, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World


class Requests:
    """Which commands may travel: by name, the module that each is imported from when one does."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes
        self._decoders: dict[str, msgspec.json.Decoder[Command[Any]]] = {}

    def encode(self, commands: Sequence[Command[Any]], find: Find) -> bytes | None:
        """A request for all of these, or None if one of them cannot be asked for."""
        if all(type(command).__name__ in self._homes and command.is_askable(find) for command in commands):
            return _encoded(commands)
        return None

    def decode(self, body: bytes) -> list[Command[Any]]:
        """What a request asks for; nothing if this process, of another version perhaps, would not say it so."""
        try:
            named = msgspec.json.decode(body, type=list[tuple[str, msgspec.Raw]])
            commands = [self._decoder(name).decode(fields) for name, fields in named]
        except (msgspec.DecodeError, ValueError, LookupError):
            return []
        return commands if _encoded(commands) == body else []

    def _decoder(self, name: str) -> msgspec.json.Decoder[Command[Any]]:
        decoder = self._decoders.get(name)
        if decoder is None:
            kind = cast("type[Command[Any]]", getattr(importlib.import_module(self._homes[name]), name))
            decoder = self._decoders[name] = msgspec.json.Decoder(kind)
        return decoder


class OnBehalf(Command[None], frozen=True, kw_only=True):
    """Somebody else's command: decided if the asker will find what was decided, and left to the asker if not."""

    command: Command[Any]

    def reads(self) -> Reads:
        return self.command.reads()

    def more(self, world: World) -> Reads:
        return self.command.more(world)

    def decide(self, world: World) -> None:
        if not self.command.is_findable(self.command.decide(world)):
            raise LeftToTheAsker


class LeftToTheAsker(Refusal):
    """Nothing was decided, and nothing is recorded of it."""


def _encoded(commands: Sequence[Command[Any]]) -> bytes:
    return msgspec.json.encode([(type(command).__name__, command) for command in commands])
