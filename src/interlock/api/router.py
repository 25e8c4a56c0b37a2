"""From method and raw path to a route, in time that depends on the path's length alone.

The raw path is split before it is decoded, so an encoded slash stays inside its segment:
`/targets/repo%3Abilling%2Finvoice.py` names the target `repo:billing/invoice.py`. A literal segment is
preferred to a parameter; where the literal has no such method, the parameter gets its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeAlias, TypeVar

from interlock.api.http import NotDecodable, percent_decoded
from interlock.api.problem import ProblemError, invalid, problem
from interlock.codec.strict import Fault

T = TypeVar("T")

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


class Router(Generic[T]):
    """A fixed set of routes, each a method, a template such as `/jobs/{job_id}`, and what it leads to."""

    def __init__(self, routes: Iterable[tuple[str, str, T]]) -> None:
        """Plant every route; one method and shape of path may lead to one thing only."""
        self._root: _Node[T] = _Node()
        self._exact: dict[tuple[str, str], T] = {}
        self._segments_max = 0
        for method, template, leads_to in routes:
            self._plant(method, template, leads_to)

    def find(self, method: str, path: str) -> tuple[T, Mapping[str, str]]:
        """Return what `method path` leads to and the decoded path parameters, or raise a `ProblemError`."""
        exact = self._exact.get((method, path))
        if exact is not None:
            return exact, _NO_PARAMETERS
        segments = self._segments(path)
        nearest = _descend(self._root, segments)
        reached = [nearest] if nearest and method in nearest[0].routes else self._reached(segments)
        for node, values in reached:
            route = node.routes.get(method) or (node.routes.get("GET") if method == "HEAD" else None)
            if route is not None:
                names, leads_to = route
                return leads_to, dict(zip(names, values, strict=True))
        raise self._refusal(method, path, reached)

    def methods(self, path: str) -> tuple[str, ...]:
        """List the methods that `path` answers to; none if it leads nowhere."""
        return _methods(node for node, _ in self._reached(self._segments(path)))

    def _plant(self, method: str, template: str, leads_to: T) -> None:
        node = self._root
        names: list[str] = []
        segments = _split(template)
        for segment in segments:
            if segment.startswith("{") and segment.endswith("}"):
                names.append(segment[1:-1])
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

    def _segments(self, path: str) -> list[str] | None:
        """Split and decode a path; None if it is longer than every route."""
        if not path.startswith("/") or path.count("/") > self._segments_max:
            return None
        if "%" not in path:
            return _split(path)
        try:
            return [percent_decoded(segment) for segment in _split(path)]
        except NotDecodable as error:
            raise invalid(Fault("path", str(error))) from None

    def _reached(self, segments: list[str] | None) -> list[_Place[T]]:
        """List every place that the path leads to; more than one where a literal hides a parameter."""
        places: list[_Place[T]] = [] if segments is None else [(self._root, ())]
        for segment in segments or ():
            places = [place for node, values in places for place in node.step(segment, values)]
        return [(node, values) for node, values in places if node.routes]

    def _refusal(self, method: str, path: str, reached: Sequence[tuple[_Node[T], object]]) -> ProblemError:
        if reached:
            allowed = ", ".join(_methods(node for node, _ in reached))
            detail = f"{method} is not possible here; use {allowed}"
            return ProblemError(problem("method_not_allowed", detail, headers=(("allow", allowed),)))
        if path.endswith("/") and self._reached(self._segments(path.rstrip("/"))):
            return ProblemError(problem("not_found", "no such path; leave out the slash at its end"))
        return no_such_path()


def no_such_path() -> ProblemError:
    """Make the error for a path that leads nowhere."""
    return ProblemError(problem("not_found", "no such path; GET /openapi.json lists every one there is"))


class _Node(Generic[T]):
    """One place in the tree of paths."""

    __slots__ = ("literals", "parameter", "routes")

    def __init__(self) -> None:
        self.literals: dict[str, _Node[T]] = {}
        self.parameter: _Node[T] | None = None
        self.routes: dict[str, tuple[tuple[str, ...], T]] = {}

    def step(self, segment: str, values: tuple[str, ...]) -> list[_Place[T]]:
        """List where `segment` leads from here: its literal first, then the parameter."""
        places: list[_Place[T]] = []
        if (literal := self.literals.get(segment)) is not None:
            places.append((literal, values))
        if self.parameter is not None and segment:
            places.append((self.parameter, (*values, segment)))
        return places


_Place: TypeAlias = tuple[_Node[T], tuple[str, ...]]


def _split(path: str) -> list[str]:
    return path.split("/")[1:]


def _descend(node: _Node[T], segments: list[str] | None) -> _Place[T] | None:
    """Follow the literal wherever there is one: right for nearly every request, and quick."""
    values: list[str] = []
    for segment in segments or ():
        literal = node.literals.get(segment)
        if literal is not None:
            node = literal
        elif node.parameter is not None and segment:
            node = node.parameter
            values.append(segment)
        else:
            return None
    return node, tuple(values)


def _methods(nodes: Iterable[_Node[T]]) -> tuple[str, ...]:
    methods = {method for node in nodes for method in node.routes}
    if not methods:
        return ()
    return tuple(sorted(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))
