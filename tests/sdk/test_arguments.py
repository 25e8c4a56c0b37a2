"""Binding: every argument by name, nothing converted, nothing lost on the way back."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import parse
from interlock.sdk.arguments import CallShape, NotJson
from interlock.sdk.outcomes import InvalidRequest


def everything(a: Any, /, b: Any, c: Any = 3, *rest: Any, d: Any, e: Any = "five", **others: Any) -> None: ...


def payload(function: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return dict(CallShape(function).bind(args, kwargs).payload)


def test_every_kind_of_parameter_is_bound_by_name_with_its_default() -> None:
    assert payload(everything, 1, 2, d=4) == {
        "a": 1,
        "b": 2,
        "c": 3,
        "rest": [],
        "d": 4,
        "e": "five",
        "others": {},
    }
    assert payload(everything, 1, 2, 30, 31, 32, d=4, f=6, a="shadow") == {
        "a": 1,
        "b": 2,
        "c": 30,
        "rest": [31, 32],
        "d": 4,
        "e": "five",
        "others": {"f": 6, "a": "shadow"},
    }


def test_however_a_call_is_spelled_its_payload_is_one() -> None:
    def pay(invoice: str, amount: int = 5, *, currency: str = "EUR") -> None: ...

    spellings = [
        payload(pay, "i1"),
        payload(pay, invoice="i1"),
        payload(pay, "i1", 5),
        payload(pay, amount=5, invoice="i1", currency="EUR"),
    ]
    assert {canonical(spelled) for spelled in spellings} == {b'{"amount":5,"currency":"EUR","invoice":"i1"}'}


def test_a_call_that_does_not_fit_is_the_type_error_it_always_was() -> None:
    with pytest.raises(TypeError, match=r"\(\): missing a required argument: 'b'"):
        payload(everything, 1, d=4)


class Account:
    def pay(self, amount: int) -> None: ...

    def odd(this, amount: int) -> None: ...  # noqa: N805  # pyright: ignore[reportSelfClsParameterName]

    @classmethod
    def all(cls, amount: int) -> None: ...

    @staticmethod
    def anyone(self_service: bool, amount: int) -> None: ...


def test_the_object_of_a_method_is_not_an_argument() -> None:
    account = Account()
    bound = CallShape(Account.pay).bind((account, 5), {})
    assert (bound.receiver, bound.payload) == ((account,), {"amount": 5})
    assert CallShape(Account.all.__func__).bind((Account, 5), {}).payload == {"amount": 5}
    assert payload(Account.anyone, True, 5) == {"self_service": True, "amount": 5}


def test_an_object_under_another_name_is_refused_rather_than_left_out() -> None:
    with pytest.raises(NotJson, match="argument 'this'"):
        payload(Account.odd, Account(), 5)


def test_a_plain_functions_self_is_an_argument_like_any_other() -> None:
    def attached(self: str) -> None: ...

    assert payload(attached, "x") == {"self": "x"}


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(str):
    pass


Point = collections.namedtuple("Point", "x y")

NOT_JSON: list[tuple[object, str]] = [
    ((1, 2), "pass a list"),
    ({1, 2}, "pass a list"),
    (frozenset(), "pass a list"),
    (range(3), "pass a list"),
    (Point(1, 2), "pass a dict of its fields"),
    (datetime.datetime.now(datetime.UTC), "isoformat"),
    (datetime.date(2026, 1, 1), "isoformat"),
    (datetime.timedelta(1), "seconds"),
    (decimal.Decimal("1.10"), "smallest unit"),
    (fractions.Fraction(1, 3), "smallest unit"),
    (b"bytes", "base64"),
    (uuid.UUID(int=1), "str(...)"),
    (pathlib.PurePosixPath("/x"), "str(...)"),
    (Colour.RED, ".value"),
    (Level.LOW, ".value"),
    (Word("x"), "plain str"),
    (collections.OrderedDict(a=1), "plain dict"),
    (object(), "keep it out of the call"),
    (len, "keep it out of the call"),
    (float("nan"), "NaN is not JSON"),
    (float("inf"), "Infinity is not JSON"),
    (2**53, "write it as a string"),
    (1e300, "write it as a string"),
    ("\ud800", "surrogate"),
    ("\0", "0000"),
    ({1: "x"}, "use str keys"),
    ({None: "x"}, "use str keys"),
]


@pytest.mark.parametrize(("value", "advice"), NOT_JSON, ids=[repr(value)[:40] for value, _ in NOT_JSON])
def test_what_json_cannot_say_exactly_is_refused_by_name_with_advice(value: object, advice: str) -> None:
    def act(harmless: int, culprit: object) -> None: ...

    for wrapped, where in ((value, "culprit"), ([value], "culprit/0"), ({"k": [0, value]}, "culprit/k/1")):
        with pytest.raises(NotJson) as caught:
            payload(act, 1, culprit=wrapped)
        assert caught.value.argument == where
        assert f"argument '{where}'" in str(caught.value)
        assert advice in str(caught.value)


def test_a_refused_argument_is_both_an_invalid_request_and_a_type_error() -> None:
    assert issubclass(NotJson, InvalidRequest)
    assert issubclass(NotJson, TypeError)


def test_a_minus_before_zero_is_dropped_as_it_is_not_shown() -> None:
    assert str(payload(lambda x: None, -0.0)["x"]) == "0.0"


def test_a_value_inside_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(NotJson, match="in itself"):
        payload(lambda x: None, loop)


def test_a_default_that_is_not_json_is_refused_too() -> None:
    def act(when: object = datetime.date(2026, 1, 1)) -> None: ...

    with pytest.raises(NotJson, match="argument 'when'"):
        payload(act)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < 2**53)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    args=st.lists(json_values, min_size=2, max_size=6),
    d=json_values,
    others=st.dictionaries(st.text("xyz", min_size=1, max_size=2), json_values, max_size=3),
)
def test_what_is_shown_is_what_runs_byte_for_byte(args: list[Any], d: Any, others: dict[str, Any]) -> None:
    ran: list[dict[str, Any]] = []

    def act(a: Any, /, b: Any, c: Any = None, *rest: Any, d: Any, e: Any = "e", **others: Any) -> None:
        ran.append({"a": a, "b": b, "c": c, "rest": list(rest), "d": d, "e": e, "others": others})

    shape = CallShape(act)
    call = shape.bind(tuple(args), {"d": d, **others})
    shown = canonical(call.payload)
    agreed = shape.arguments(call, call.payload)
    act(*agreed.args, **agreed.kwargs)
    assert canonical(ran[0]) == shown
    stored: Any = parse(shown)
    decoded = shape.arguments(call, stored)
    act(*decoded.args, **decoded.kwargs)
    assert canonical(ran[1]) == shown


@given(json_values)
def test_the_copy_shares_nothing_that_can_change(value: Any) -> None:
    call = CallShape(lambda x: None).bind((value,), {})
    before = canonical(call.payload)
    _scramble(value)
    assert canonical(call.payload) == before


def _scramble(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _scramble(item)
        value.append("changed")
    elif isinstance(value, dict):
        for item in value.values():
            _scramble(item)
        value["changed"] = True


def test_an_edited_payload_must_fit_the_function() -> None:
    shape = CallShape(everything)
    call = shape.bind((1, 2), {"d": 4})
    with pytest.raises(ValueError, match="look at surprise"):
        shape.arguments(call, {**call.payload, "surprise": 1})
    with pytest.raises(ValueError, match="rest must be a list"):
        shape.arguments(call, {**call.payload, "rest": {}})
    with pytest.raises(ValueError, match="others must be an object"):
        shape.arguments(call, {**call.payload, "others": []})
