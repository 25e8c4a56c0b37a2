"""Finds the route of a method and a raw path, in time proportional to the path's length.

The raw path is split before it is decoded, so an encoded slash stays inside its segment:
`/targets/repo%3Abilling%2Finvoice.py` names the target `repo:billing/invoice.py`. As in OpenAPI, a literal
segment is preferred to a parameter: where both `/jobs/claim` and `/jobs/{job_id}` are routes, a job cannot be
called `claim`. If nothing else fits, a parameter that may span segments accepts unencoded slashes:
`/targets/repo:billing/invoice.py` is the same target. A name that ends like a route must be encoded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeAlias, TypeVar

from interlock.wire.http import percent_decoded

T = TypeVar("T")


class NoRoute(Exception):
    """No route fits a path; `without_slash` if one would without the slash at its end."""

    def __init__(self, *, without_slash: bool) -> None:
        super().__init__("no such path")
        self.without_slash = without_slash


class MethodNotAllowed(Exception):
    """A path answers to other methods than the one that was asked for."""

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not possible here; use {allowed}")
        self.allowed = allowed


_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})
_SPANNED_MAX = 64


class Router(Generic[T]):
    """A fixed set of routes, each a method, a template such as `/jobs/{job_id}`, and what it leads to."""

    def __init__(self, routes: Iterable[tuple[str, str, T]], spanning: Collection[str] = ()) -> None:
        """Plant every route; one method and shape of path may lead to one thing only.

        `spanning` names the parameters that may go over several segments.
        """
        self._spanning = spanning
        self._root: _Node[T] = _Node()
        self._exact: dict[tuple[str, str], T] = {}
        self._segments_max = _SPANNED_MAX if spanning else 0
        for method, template, leads_to in routes:
            self._plant(method, template, leads_to)

    def find(self, method: str, path: str) -> tuple[T, Mapping[str, str]]:
        """Return what `method path` leads to and the decoded path parameters.

        Raises `NoRoute`, `MethodNotAllowed`, or `NotDecodable` for a path with bad escapes.
        """
        exact = self._exact.get((method, path))
        if exact is not None:
            return exact, _NO_PARAMETERS
        place = self._place(path)
        if place is None:
            raise self._nowhere(path)
        node, values = place
        route = node.routes.get("GET" if method == "HEAD" and "HEAD" not in node.routes else method)
        if route is None:
            raise MethodNotAllowed(method, ", ".join(node.methods()))
        names, leads_to = route
        return leads_to, dict(zip(names, values, strict=True))

    def methods(self, path: str) -> tuple[str, ...]:
        """List the methods that `path` answers to, or raise `NoRoute` if it leads nowhere."""
        place = self._place(path)
        if place is None:
            raise self._nowhere(path)
        return place[0].methods()

    def _plant(self, method: str, template: str, leads_to: T) -> None:
        node = self._root
        names: list[str] = []
        segments = _split(template)
        for segment in segments:
            if segment.startswith("{") and segment.endswith("}"):
                names.append(segment[1:-1])
                node.spans |= segment[1:-1] in self._spanning
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        if method in node.routes:
            raise ValueError(f"two routes for {method} {template}; give one of them another path")
        node.routes[method] = (tuple(names), leads_to)
        if not names:
            self._exact[method, template] = leads_to
        self._segments_max = max(self._segments_max, len(segments))

    def _place(self, path: str) -> _Place[T] | None:
        if not path.startswith("/") or path.count("/") > self._segments_max:
            return None
        segments = _split(path)
        if "%" in path:
            segments = [percent_decoded(segment) for segment in segments]
        return self._root.reach(segments, 0, ())

    def _nowhere(self, path: str) -> NoRoute:
        return NoRoute(without_slash=path.endswith("/") and self._place(path.rstrip("/")) is not None)


class _Node(Generic[T]):
    """One place in the tree of paths."""

    __slots__ = ("literals", "parameter", "routes", "spans")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.spans = False
        self.routes: dict[str, tuple[tuple[str, ...], T]] = {}

    def reach(self, segments: list[str], at: int, values: tuple[str, ...]) -> _Place[T] | None:
        """Follow `segments` from `at` on: the literal if it leads somewhere, else the parameter."""
        if at == len(segments):
            return (self, values) if self.routes else None
        segment = segments[at]
        literal = self.literals.get(segment)
        if literal is not None and (place := literal.reach(segments, at + 1, values)) is not None:
            return place
        if self.parameter is None or not segment:
            return None
        last = len(segments) if self.spans else at + 1
        for end in range(at + 1, last + 1):
            value = "/".join(segments[at:end])
            place = self.parameter.reach(segments, end, (*values, value)) if segments[end - 1] else None
            if place is not None:
                return place
        return None

    def methods(self) -> tuple[str, ...]:
        """List the methods of this place, with those that come along with others."""
        implied = {"OPTIONS", "HEAD"} if "GET" in self.routes else {"OPTIONS"}
        return tuple(sorted(implied | self.routes.keys()))


_Place: TypeAlias = tuple[_Node[T], tuple[str, ...]]


def _split(path: str) -> list[str]:
    return path.split("/")[1:]
