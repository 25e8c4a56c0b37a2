"""From the next step that a refusal names to the route that takes it: the rooms know operations, not paths."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from interlock.api.operations import Operation
from interlock.kernel.refusal import Next
from interlock.wire.next_step import NextStep


def routed(step: Next) -> NextStep:
    """The step with its method and path. What the path lacks is the query of a GET, else a field of the body."""
    operation = _operations()[step.operation]
    path, rest = operation.path, dict(step.arguments)
    for name in operation.path_parameters:
        if name in rest:
            path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
    if rest and operation.method == "GET":
        path = f"{path}?{urlencode(rest)}"
    return NextStep(
        operation=operation.id,
        method=operation.method,
        path=path,
        arguments=dict(step.arguments),
        needs=step.needs,
    )


@cache
def _operations() -> dict[str, Operation[Any, Any, Any, Any]]:
    # Only now: the table is made of the modules whose problems ask for it.
    from interlock.api.assembly import OPERATIONS

    return {operation.id: operation for operation in OPERATIONS}
