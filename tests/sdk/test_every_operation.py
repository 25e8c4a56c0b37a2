"""Every operation of the API is a method of both clients, and every method asks for an operation."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

from interlock import AsyncInterlock, Interlock
from interlock.api.assembly import OPERATIONS
from interlock.sdk.outcomes import InterlockError
from interlock.sdk.session import Session
from tests.sdk.virtual_time import Script, VirtualTime, problem

# Operations without a method of their own, and why.
ELSEWHERE = {
    "stream_events": "`events` reads the same events, page by page, and waits for the next",
    "healthz": "for a supervisor of the process; `get_health` says more",
    "api_healthz": "the same",
    "api_readyz": "`get_health` asks the same operation by its other path",
    "api_metrics": "`get_metrics` asks the same operation by its other path",
}
# Methods that are more than one operation, or whichever the caller names.
MORE = {"wait", "call", "once"}
REQUIRED = {
    "fence": 1,
    "kind": "person",
    "steps": [],
    "changes": [],
    "job": {"topic": "pay"},
    "outcome": "committed",
}


def test_every_operation_of_the_api_has_a_method() -> None:
    asked = {operation for operations in _asked().values() for operation in operations}
    assert {operation.id for operation in OPERATIONS} - asked == set(ELSEWHERE)


def test_every_method_asks_for_one_operation_of_the_api() -> None:
    assert {name: found for name, found in _asked().items() if len(found) != 1} == {}


def test_both_clients_have_the_same_methods() -> None:
    blocking, awaiting = (
        {name for name in vars(client) if not name.startswith("_")} for client in (Interlock, AsyncInterlock)
    )
    assert blocking == awaiting


def _asked() -> dict[str, set[str]]:
    operations = {name: method.__wrapped__ for name, method in _methods().items()}
    return {name: _found(*_request(operation)) for name, operation in operations.items()}


def _methods() -> dict[str, Any]:
    found = {name: method for name, method in vars(Interlock).items() if hasattr(method, "__wrapped__")}
    return {name: method for name, method in found.items() if _is_operation(method) and name not in MORE}


def _is_operation(method: Any) -> bool:
    return method.__module__.startswith("interlock.sdk.operations.")


def _request(operation: Any) -> tuple[str, str]:
    """What the first request of an operation asks for, with a value for each argument that it needs."""
    needed = [
        parameter
        for parameter in list(inspect.signature(operation).parameters.values())[1:]
        if parameter.default is parameter.empty
    ]
    script = Script(problem(404, "not_found"))
    arguments = {parameter.name: _value(operation, parameter.name) for parameter in needed}
    with contextlib.suppress(InterlockError):
        VirtualTime(script).run(operation(Session(), **arguments))
    return script.requests[0].method, script.requests[0].path


def _value(operation: Any, name: str) -> Any:
    if name == "job" and operation.__name__ != "evaluate_policy":
        return "job_1"
    return REQUIRED.get(name, f"{name}_1")


def _found(method: str, path: str) -> set[str]:
    """The operations that answer this; a word of the path wins over a parameter."""
    asked = path.split("/")
    fits = [
        (operation.path.count("{"), operation.id)
        for operation in OPERATIONS
        if operation.method == method and _fits(operation.path.split("/"), asked)
    ]
    return {name for _, name in sorted(fits)[:1]}


def _fits(template: list[str], asked: list[str]) -> bool:
    return len(template) == len(asked) and all(
        word.startswith("{") or word == said for word, said in zip(template, asked, strict=True)
    )
