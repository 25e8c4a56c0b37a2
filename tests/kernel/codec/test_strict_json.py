"""What strict JSON refuses, where it says the fault is, and that what it accepts means one thing."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.codec import strict
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.strict import FAULTS_MAX, JsonFault, JsonRefused, parse, pointer

MALFORMED = [
    b"",
    b" ",
    b"\n\t",
    b"nul",
    b"True",
    b"undefined",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b"[1,,2]",
    b'{"a"}',
    b'{"a":}',
    b'{"a":1,}',
    b'{,"a":1}',
    b'{"a" 1}',
    b'{"a":1 "b":2}',
    b"{a:1}",
    b"{'a':1}",
    b"{1:2}",
    b"{null:1}",
    b'{"a":1}}',
    b'{"a":1} x',
    b"1 2",
    b"[] []",
    b"{}\x00",
    b"\x00{}",
    b'{}{"a":1}',
    b"// note\n{}",
    b"/* note */ {}",
    b"{} # note",
    b'"abc',
    b'"abc\\',
    b'"\\x41"',
    b'"\\u12"',
    b'"\\u00g0"',
    b'"\\\'"',
    b'"tab\there"',
    b'"line\nbreak"',
    b'"bell\x07"',
    b'"nul\x00"',
    b'"esc\x1b"',
    b"'single'",
    b"01",
    b"-01",
    b"+1",
    b"-",
    b"- 1",
    b".5",
    b"5.",
    b"1e",
    b"1e+",
    b"1.e1",
    b"0x10",
    b"0b1",
    b"1_000",
    b"1,5",
    b"--1",
    b"\xc2\xa01",  # a no-break space is not JSON's white space
    b"\xe2\x80\xa8{}",
    "\u0661".encode(),  # digits, but not JSON's
    "[1\u0662]".encode(),
    "\uff11".encode(),
    b"[1}",
    b'{"a":1]',
    b'[{"a":[}]',
]

NOT_UTF_8 = [
    b"\xff",
    b'"\xff"',
    b'"\x80"',
    b'"\xc3"',
    b'"\xc3("',
    b'"\xc0\xaf"',  # overlong
    b'"\xe0\x80\xaf"',
    b'"\xf0\x80\x80\xaf"',
    b'"\xed\xa0\x80"',  # a surrogate spelled as bytes
    b'"\xed\xb0\x80"',
    b'"\xf4\x90\x80\x80"',  # past U+10FFFF
    b'"\xf8\x88\x80\x80\x80"',
    '{"a":1}'.encode("utf-16"),
    '{"a":"é"}'.encode("latin-1"),
    b"\xff\xfe{\x00}\x00",
]

TWO_READINGS = [
    (b'{"a":1,"a":1}', ""),
    (b'{"a":1,"\\u0061":2}', ""),
    (b'{"a":{"b":[{"c":1,"c":2}]}}', "/a/b/0"),
    (b'{"":1,"":2}', ""),
    (b'{"a/b":{"~":{"x":1,"x":1}}}', "/a~1b/~0"),
    (b"NaN", ""),
    (b"Infinity", ""),
    (b"-Infinity", ""),
    (b'{"a":[0,NaN]}', "/a/1"),
    (b"9007199254740992", ""),
    (b"-9007199254740992", ""),
    (b'{"id":9007199254740993}', "/id"),
    (b"1" + b"0" * 4999, ""),  # the interpreter refuses to convert it, and so do we
    (b"9007199254740992.0", ""),
    (b"1e16", ""),
    (b"1e20", ""),
    (b"1E308", ""),
    (b"-1e300", ""),
    (b"1e400", ""),
    (b"-1e400", ""),
    (b"1e999999999999999999999", ""),
    (b"1e-400", ""),
    (b"1e-999999999999999999999", ""),
    (b"0e999999999999999999999", ""),
    (b"0.1000000000000000000001", ""),
    (b"0.12345678901234567890", ""),
    (b"123456789.123456789", ""),
    (b"[1,2.00000000000000000001]", "/1"),
    (b"9007199254740991.1", ""),
    (b'"\\ud800"', ""),
    (b'"\\uDFFF"', ""),
    (b'"\\ud800\\u0041"', ""),
    (b'"\\udc00\\ud800"', ""),
    (b'{"a":["x","\\ud83d"]}', "/a/1"),
    (b'{"\\ud800":1}', ""),
    (b'"a\\u0000b"', ""),
    (b'{"a":{"\\u0000":1}}', "/a"),
]

ACCEPTED = [
    (b"null", None),
    (b" true\r\n\t", True),
    (b"[0, -1]", [0, -1]),
    (b"[9007199254740991, -9007199254740991]", [2**53 - 1, 1 - 2**53]),
    (b"[9007199254740991.0, -9007199254740991.0]", [2**53 - 1, 1 - 2**53]),
    (b"0.1", 0.1),
    (b"1.50", 1.5),
    (b"-0.25e-3", -0.00025),
    (b"0.30000000000000004", 0.1 + 0.2),
    (b"5e-324", 5e-324),
    (b"0.1" + b"0" * 400, 0.1),
    (b'""', ""),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (b'"\\\\ud800"', "\\ud800"),  # an escaped backslash, then letters
    (b'"\\\\u0000"', "\\u0000"),
    ('"é😀\x7f"'.encode(), "é😀\x7f"),
    (b'"\\"[{\\\\"', '"[{\\'),
    (b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}),
    (b'{"a":1,"A":2," a":3}', {"a": 1, "A": 2, " a": 3}),
    (b"[[],{}]", [[], {}]),
]


@pytest.mark.parametrize("body", MALFORMED)
def test_text_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(JsonRefused) as refused:
        parse(body)
    assert refused.value.faults[0].path == ""
    assert "not JSON" in refused.value.faults[0].reason


@pytest.mark.parametrize("body", NOT_UTF_8)
def test_bytes_that_are_not_utf_8_are_refused(body: bytes) -> None:
    with pytest.raises(JsonRefused, match="not UTF-8 at byte"):
        parse(body)


@pytest.mark.parametrize(("body", "path"), TWO_READINGS)
def test_json_that_two_parsers_could_read_differently_is_refused_with_its_path(
    body: bytes, path: str
) -> None:
    with pytest.raises(JsonRefused) as refused:
        parse(body)
    assert refused.value.faults[0].path == path


@pytest.mark.parametrize(("body", "value"), ACCEPTED)
def test_json_with_one_reading_is_accepted(body: bytes, value: object) -> None:
    assert parse(body) == value


def test_a_byte_order_mark_is_refused() -> None:
    with pytest.raises(JsonRefused, match="byte order mark"):
        parse(b"\xef\xbb\xbf{}")


@pytest.mark.parametrize("text", [b"1", b"1.0", b"1e0", b"10e-1", b"0.1e1", b"1.000E+0"])
def test_one_number_has_one_value_and_one_type_however_it_is_written(text: bytes) -> None:
    value = parse(text)
    assert value == 1
    assert type(value) is int


@pytest.mark.parametrize("text", [b"-0", b"-0.0", b"-0e5", b"0.00"])
def test_zero_has_no_sign(text: bytes) -> None:
    value = parse(text)
    assert (value, type(value)) == (0, int)


def test_every_fault_is_listed_in_the_order_of_the_text() -> None:
    with pytest.raises(JsonRefused) as refused:
        parse(b'{"a":NaN,"b":{"x":1,"y":[1e999],"x":2},"c":9007199254740993}')
    assert [fault.path for fault in refused.value.faults] == ["/a", "/b", "/b/y/0", "/c"]


def test_a_duplicate_key_is_named() -> None:
    with pytest.raises(JsonRefused) as refused:
        parse(b'{"a":1,"b":2,"a":3}')
    assert refused.value.faults == (JsonFault("", "duplicate key 'a'; each key may appear once"),)


def test_the_number_of_faults_listed_is_bounded() -> None:
    with pytest.raises(JsonRefused) as refused:
        parse(b"[" + b",".join([b"NaN"] * 1000) + b"]")
    assert len(refused.value.faults) == 20


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"]":', b"}]")])
def test_nesting_is_allowed_to_64_levels_and_no_further(opening: bytes, closing: bytes) -> None:
    levels = opening.count(b"[") + opening.count(b"{")
    allowed = 64 // levels
    parse(opening * allowed + b"1" + closing * allowed)
    with pytest.raises(JsonRefused, match="deeper than 64"):
        parse(opening * (allowed + 1) + b"1" + closing * (allowed + 1))


@pytest.mark.parametrize("body", [b"[" * 10_000, b'{"a":' * 10_000, b"[" * 500_000 + b"]" * 500_000])
def test_absurd_nesting_is_refused_without_recursion(body: bytes) -> None:
    with pytest.raises(JsonRefused, match="deeper than 64"):
        parse(body)


def test_brackets_inside_strings_are_not_nesting() -> None:
    text = "[{\\" * 1000
    assert parse(json.dumps([text, {text: '"'}]).encode()) == [text, {text: '"'}]


def test_many_shallow_brackets_are_not_deep() -> None:
    assert parse(b"[" + b"[[]]," * 1000 + b"{}]") == [[[]]] * 1000 + [{}]
    assert parse(b"[" + b"{}," * 99 + b"[" * 63 + b"]" * 64)


def test_a_pointer_escapes_what_it_must() -> None:
    assert pointer("a/b", 0, "m~n", "") == "/a~1b/0/m~0n/"


fractions = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | fractions | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30)


@given(values, st.booleans())
def test_what_any_writer_spells_is_read_back_unchanged(value: object, ascii_only: bool) -> None:
    assert _typed(parse(json.dumps(value, ensure_ascii=ascii_only).encode())) == _typed(value)
    assert _typed(parse(msgspec.json.encode(value))) == _typed(value)


@given(values | st.floats() | st.integers() | st.text())
def test_what_is_accepted_survives_its_own_canonical_form_and_any_other_reader(value: object) -> None:
    try:
        accepted = parse(json.dumps(value).encode())
    except JsonRefused:
        return
    spelled = canonical(accepted)
    assert _typed(parse(spelled)) == _typed(accepted)
    assert _typed(json.loads(spelled)) == _typed(accepted)
    assert _typed(msgspec.json.decode(spelled)) == _typed(accepted)


@given(st.binary() | st.text().map(str.encode) | st.text('[]{}",:\\u0dD89-.eE truefalsn\t').map(str.encode))
def test_no_bytes_raise_anything_but_a_refusal_with_a_reason(body: bytes) -> None:
    try:
        spelled = canonical(parse(body))
    except JsonRefused as refused:
        faults = refused.faults
    else:
        faults = (JsonFault("", "accepted"),)
        assert _typed(json.loads(spelled)) == _typed(parse(body))
    assert faults
    assert all(fault.reason for fault in faults)


@given(st.from_regex(rb"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,3})?", fullmatch=True))
def test_an_accepted_number_has_exactly_the_value_that_was_written(text: bytes) -> None:
    from fractions import Fraction

    try:
        number = parse(text)
    except JsonRefused:
        return
    assert Fraction(repr(number)) == Fraction(text.decode())


def _typed(value: object) -> object:
    """Make `1`, `1.0` and `True` different, which `==` does not."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return (type(value).__name__, value)


def test_once_enough_faults_are_found_no_further_number_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    fraction = strict._fraction

    def counted(text: str) -> int | float:
        judged.append(text)
        return fraction(text)

    monkeypatch.setattr(strict, "_fraction", counted)
    with pytest.raises(JsonRefused) as refused:
        parse(b"[" + b",".join([b"1e400"] * 10_000) + b"]")
    assert [fault.path for fault in refused.value.faults] == [f"/{n}" for n in range(FAULTS_MAX)]
    assert len(judged) == FAULTS_MAX


def test_what_comes_after_many_faults_is_still_held_to_the_grammar() -> None:
    with pytest.raises(JsonRefused, match="not JSON"):
        parse(b"[" + b",".join([b"1e400"] * 100) + b",oops]")
