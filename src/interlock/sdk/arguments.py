"""Turns a call's arguments into a payload that a person can read, and back into the arguments that run.

Every argument is bound by name, defaults included, and copied. Only values that JSON can express in exactly one way
are accepted. Nothing is converted silently: otherwise the reviewer would see something else than what runs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from interlock.kernel.codec.strict import DEPTH_MAX, JsonRefused, parse
from interlock.sdk.outcomes import InvalidRequest
from interlock.wire.problem import Problem

if TYPE_CHECKING:
    from interlock.kernel.codec.strict import JsonValue

# The request's body and the payload are two levels around every argument.
ARGUMENT_DEPTH_MAX = DEPTH_MAX - 2
RECEIVERS = ("self", "cls")
CONVERSIONS = (
    (("tuple", "set", "frozenset", "deque", "range", "dict_keys", "dict_values"), "pass a list"),
    (("datetime", "date", "time"), "pass its .isoformat() text"),
    (("timedelta",), "pass a number of seconds"),
    (("Decimal", "Fraction"), "pass text, or an integer count of the smallest unit"),
    (("bytes", "bytearray", "memoryview"), "pass text, for example base64"),
    (("UUID", "PosixPath", "WindowsPath", "PurePosixPath", "URL"), "pass str(...) of it"),
)


class NotJson(InvalidRequest, TypeError):
    """An argument that a reviewer could not be shown exactly; `argument` names it."""

    def __init__(self, argument: str, reason: str) -> None:
        self.argument = argument
        detail = f"argument {argument!r} cannot be put before a reviewer: {reason}"
        super().__init__(Problem(status=400, code="invalid_request", title="Not JSON", detail=detail))


class Arguments(NamedTuple):
    """What a function is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class BoundCall(NamedTuple):
    """One call: the object it is made on (for a method), and the copy of its arguments by name."""

    receiver: tuple[object, ...]
    payload: dict[str, JsonValue]


class CallShape:
    """How one function is called. The first parameter of a method is the object, not an argument."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._signature = inspect.signature(function)
        self._name = getattr(function, "__qualname__", repr(function))
        parameters = list(self._signature.parameters.values())
        self._has_receiver = _is_method(function, parameters)
        self._parameters = parameters[1:] if self._has_receiver else parameters

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundCall:
        """Copy the arguments of a call; a call that does not fit the signature is a `TypeError` as ever."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}") from None
        bound.apply_defaults()
        receiver = bound.args[:1] if self._has_receiver else ()
        payload = {
            parameter.name: self._copy_of(parameter, bound.arguments[parameter.name])
            for parameter in self._parameters
        }
        return BoundCall(receiver, payload)

    def arguments(self, call: BoundCall, payload: Mapping[str, Any]) -> Arguments:
        """The arguments that a payload stands for; `ValueError` if it does not fit the function."""
        expected = {parameter.name for parameter in self._parameters}
        if expected != set(payload):
            odd = ", ".join(sorted(expected.symmetric_difference(payload)))
            raise ValueError(f"it must have exactly the function's parameters; look at {odd}")
        args: list[Any] = list(call.receiver)
        kwargs: dict[str, Any] = {}
        for parameter in self._parameters:
            _place(parameter, payload[parameter.name], args, kwargs)
        return Arguments(tuple(args), kwargs)

    def _copy_of(self, parameter: inspect.Parameter, value: object) -> JsonValue:
        if parameter.kind is parameter.VAR_POSITIONAL:
            value = list(cast("tuple[object, ...]", value))
        copy = _copied(value, parameter.name, "", ARGUMENT_DEPTH_MAX)
        try:
            parse(json.dumps(copy).encode(), depth_max=ARGUMENT_DEPTH_MAX)
        except JsonRefused as refused:
            fault = refused.faults[0]
            raise NotJson(parameter.name + fault.path, fault.reason) from None
        return copy


def named_by(name: object, what: str) -> str:
    """The name that a caller's function computed for a call; what is not surely one would name every call alike."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        detail = f"{what} must return text or an integer, not {type(name).__name__}"
        raise InvalidRequest(Problem(status=400, code="invalid_request", title="No name", detail=detail))
    return str(name)


def _is_method(function: Callable[..., object], parameters: list[inspect.Parameter]) -> bool:
    """Whether it was defined in a class body to be called on an object."""
    enclosing = function.__qualname__.rpartition(".")[0]
    in_class = bool(enclosing) and not enclosing.endswith("<locals>")
    return in_class and bool(parameters) and parameters[0].name in RECEIVERS


def _place(parameter: inspect.Parameter, value: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    match parameter.kind:
        case parameter.VAR_POSITIONAL:
            if not isinstance(value, list):
                raise ValueError(f"{parameter.name} must be a list")  # noqa: TRY004 - a value, not a type
            args.extend(cast("list[Any]", value))
        case parameter.VAR_KEYWORD:
            if not isinstance(value, dict):
                raise ValueError(f"{parameter.name} must be an object")  # noqa: TRY004 - as above
            kwargs.update(cast("dict[str, Any]", value))
        case parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = value
        case _:
            args.append(value)


def _copied(value: object, argument: str, where: str, levels: int) -> JsonValue:
    """A copy made of exactly the six JSON types; a subclass could behave otherwise than it looks."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return cast("JsonValue", value)
    if kind is float:
        return cast("float", value) + 0.0  # minus zero would be shown as zero
    if levels == 0:
        raise NotJson(argument + where, f"it is nested deeper than {ARGUMENT_DEPTH_MAX} levels, or in itself")
    if kind is list:
        items = cast("list[object]", value)
        return [_copied(item, argument, f"{where}/{n}", levels - 1) for n, item in enumerate(items)]
    if kind is dict:
        fields = cast("dict[object, object]", value)
        return {
            _field(name, argument, where): _copied(item, argument, f"{where}/{name}", levels - 1)
            for name, item in fields.items()
        }
    raise NotJson(argument + where, f"{kind.__qualname__} is not a JSON type; {_advice(value)}")


def _field(name: object, argument: str, where: str) -> str:
    if type(name) is not str:
        raise NotJson(argument + where, f"its field name {name!r} is not text; use str keys")
    return name


def _advice(value: object) -> str:
    kind = type(value).__name__
    for kinds, conversion in CONVERSIONS:
        if kind in kinds:
            return conversion
    if hasattr(value, "value") and hasattr(value, "name"):
        return "pass its .value"
    for plain in (bool, int, float, str, list, dict):
        if isinstance(value, plain):
            return f"pass a plain {plain.__name__}"
    return "pass a dict of its fields, or keep it out of the call (an attribute, a closure)"
