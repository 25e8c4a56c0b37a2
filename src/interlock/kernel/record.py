"""Records, and the keys, picks and reads with which a command names them.

A record is a frozen value with a tenant, an id and a version. A kind says which table stores a type of record and
which of its fields are columns. A command lists what it needs as `Reads`: exact keys and bounded picks, each to
*own* (locked, may be changed) or to *see* (read as of the load).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from interlock.kernel.refusal import Unreadable

ColumnValue = str | int | None
Params = Mapping[str, ColumnValue]

PICKED_MAX = 1024

# Tenant and id, which every body begins with, and little else.
_BEGINNING_CHARACTERS = 64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment: datetime) -> int:
    """A moment as whole microseconds since the epoch, which is how columns keep and compare it."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(value: int) -> datetime:
    """The moment that `micros` turned into a number."""
    return _EPOCH + timedelta(microseconds=value)


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every stored record has. `version` counts its changes; 0 means not stored yet."""

    tenant: str
    id: str
    version: int = 0


R = TypeVar("R", bound=Record)


class Kind(Generic[R]):
    """One type of record: its name, its table, its columns.

    The body is the whole record as JSON; `columns` are copies of what is looked up or sorted by, and `values` says
    what a record has in them, in their order. It is asked for every row that is written, so it is one function.
    An immutable kind never changes once written (it is addressed by its content), so a store may keep
    decoded copies.
    """

    __slots__ = (
        "_decoder",
        "_decoder_of_all",
        "_encoder",
        "columns",
        "immutable",
        "name",
        "record",
        "table",
        "values",
    )

    def __init__(
        self,
        name: str,
        record: type[R],
        *,
        table: str,
        columns: tuple[str, ...] = (),
        values: Callable[[R], tuple[ColumnValue, ...]] = lambda _: (),
        immutable: bool = False,
    ) -> None:
        self.name = name
        self.record = record
        self.table = table
        self.columns = columns
        self.values = values
        self.immutable = immutable
        self._encoder = msgspec.json.Encoder()
        # Made when the first body is read: resolving the types of all kinds at start is slow.
        self._decoder: msgspec.json.Decoder[R] | None = None
        self._decoder_of_all: msgspec.json.Decoder[list[R]] | None = None

    def __repr__(self) -> str:
        return f"Kind({self.name})"

    def encode(self, record: R) -> bytes:
        return self._encoder.encode(record)

    def decode(self, body: bytes | str) -> R:
        """The record in a body; `Unreadable` if there is none."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = msgspec.json.Decoder(self.record)
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise Unreadable(
                self.name, why=f"{error}; it begins with {str(body)[:_BEGINNING_CHARACTERS]}"
            ) from error

    def decode_all(self, bodies: bytes | str) -> list[R]:
        """The records in a JSON array of bodies; `Unreadable` if one of them holds none."""
        decoder = self._decoder_of_all
        if decoder is None:
            decoder = self._decoder_of_all = msgspec.json.Decoder(list[self.record])
        try:
            return decoder.decode(bodies)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise Unreadable(self.name, why=str(error)) from error

    def decode_as(self, key: Key, body: bytes | str) -> R:
        """The record of that key in its row's body; `Unreadable` if the body holds nothing, or another record."""
        record = self.decode(body)
        if record.id != key.id or record.tenant != key.tenant:
            raise Unreadable(self.name, key.id, why=f"the row of {key.tenant} {key.id} holds another record")
        return record

    def row(self, record: R) -> tuple[ColumnValue, ...]:
        """A record as tenant, id, version, body and then its own columns."""
        return (*self.head(record), *self.values(record))

    def head(self, record: R) -> tuple[str, str, int, str]:
        """The part of a row that every kind has."""
        return (record.tenant, record.id, record.version, self._encoder.encode(record).decode())

    def changed(self, before: R, after: R) -> dict[str, ColumnValue]:
        """Those of the kind's own columns that are not as they were, with their values now."""
        pairs = zip(self.columns, self.values(before), self.values(after), strict=True)
        return {name: now for name, then, now in pairs if now != then}

    def key(self, tenant: str, record_id: str) -> Key:
        return Key(self, tenant, record_id)

    def key_of(self, record: R) -> Key:
        return Key(self, record.tenant, record.id)


class Key(NamedTuple):
    """The exact address of one record."""

    kind: Kind[Any]
    tenant: str
    id: str

    @property
    def rank(self) -> tuple[str, str, str]:
        """The one global lock order: kind, then tenant and id."""
        return (self.kind.name, self.tenant, self.id)


class Pick(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """A bounded choice of records by a named query, such as "the next ten runnable jobs on these topics".

    A subclass adds its parameters as fields and says the same thing three times: as a named SQL block
    (`query`, with `params`), as a predicate (`matches`) and as an order (`sort_key`). The world applies
    the last two again at decision time, because earlier commands of the batch may have changed records.
    """

    kind: ClassVar[Kind[Any]]
    # The named block that finds the candidates, written `room.block`.
    query: ClassVar[str]

    limit: int
    own: bool = True

    def params(self, now: datetime) -> Params:
        raise NotImplementedError

    def matches(self, record: R, now: datetime) -> bool:
        raise NotImplementedError

    def sort_key(self, record: R) -> Any:
        """A total order, the same as the query's; ties would make two stores choose differently."""
        raise NotImplementedError

    @property
    def uses_up(self) -> int:
        """How many of the found records one command may use up; the others of its batch load that many more."""
        return self.limit if self.own else 0

    @property
    def bytes_max(self) -> int | None:
        """After how many bytes a load of this pick ends; None for small records."""
        return None

    def unlimited(self) -> Pick[R]:
        """This pick without its limit: equal for all commands that pick the same records."""
        return msgspec.structs.replace(self, limit=0)


class Reads(msgspec.Struct, frozen=True):
    """The records that a command needs before it can decide."""

    own: tuple[Key, ...] = ()
    see: tuple[Key, ...] = ()
    picks: tuple[Pick[Any], ...] = ()

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.own + other.own, self.see + other.see, self.picks + other.picks)

    def __bool__(self) -> bool:
        return bool(self.own or self.see or self.picks)


NOTHING = Reads()


def merge_reads(many: Sequence[Reads]) -> Reads:
    """All reads of a batch as one: keys once each (owned wins over seen), equal picks as one.

    Commands that use up what they pick take it from each other, so their limits add up, to a bound; commands
    that only look can share. Many may name the very same keys (`World.once`), which are gone through once.
    """
    own = dict.fromkeys(chain.from_iterable({id(reads.own): reads.own for reads in many}.values()))
    see = dict.fromkeys(chain.from_iterable({id(reads.see): reads.see for reads in many}.values()))
    picks: dict[Pick[Any], int] = {}
    for reads in many:
        for pick in reads.picks:
            same = pick.unlimited()
            picks[same] = _shared_limit(pick, picks.get(same, 0))
    return Reads(
        tuple(own),
        tuple(key for key in see if key not in own),
        tuple(msgspec.structs.replace(pick, limit=limit) for pick, limit in picks.items()),
    )


def _shared_limit(pick: Pick[Any], others: int) -> int:
    wanted = min(others + pick.uses_up, PICKED_MAX) if others else 0
    return max(wanted, others, pick.limit)
