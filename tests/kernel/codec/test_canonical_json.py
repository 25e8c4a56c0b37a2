"""Canonical JSON has one spelling, the one of RFC 8785, and digests are kept apart by what they are of."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.kernel.codec import canonical as module
from interlock.kernel.codec.canonical import NotCanonical, canonical, digest

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=30,
)
plain = st.recursive(
    st.none() | st.booleans() | numbers.filter(module._is_plain) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner),
    max_leaves=30,
)


@given(values)
@example({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7})
@example([333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001, -0.0, 1e21, 1e20, 1.0])
def test_every_value_is_spelled_as_the_reference_spells_it(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]


@given(plain)
def test_the_fast_encoder_is_trusted_only_with_what_it_spells_alike(value: object) -> None:
    assert module._is_plain(value)
    assert module._sorting.encode(value) == rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@example(1e-6)
@example(1e-7)
@example(9007199254740990.5)
@example(0.000001234)
def test_numbers_are_spelled_as_the_reference_spells_them(number: float) -> None:
    assert canonical(number) == rfc8785.dumps(number)


@given(st.dictionaries(texts, st.integers(0, 9), min_size=2), st.randoms())
def test_the_order_of_keys_makes_no_difference(fields: dict[str, int], shuffle: object) -> None:
    items = list(fields.items())
    shuffle.shuffle(items)  # pyright: ignore[reportAttributeAccessIssue]
    assert canonical(dict(items)) == canonical(fields)


def test_keys_are_sorted_by_utf_16_units_not_by_code_points() -> None:
    assert canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"😀":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize(
    "value",
    [
        2**53,
        -(2**53),
        float("nan"),
        float("inf"),
        "\ud800",
        {"\ud800": 1},
        {"a": ["\udfff"]},
        {1: 2},
        {"a": {None: 1}},
        {"a": {1, 2}},
        b"bytes",
        object(),
    ],
)
def test_what_json_cannot_carry_has_no_canonical_form(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical(value)  # pyright: ignore[reportArgumentType]


def test_a_value_nested_without_end_has_no_canonical_form() -> None:
    endless: list[object] = []
    for _ in range(100_000):
        endless = [endless]
    with pytest.raises(NotCanonical):
        canonical(endless)  # pyright: ignore[reportArgumentType]


def test_a_digest_is_sha256_over_its_domain_and_the_canonical_form() -> None:
    expected = hashlib.sha256(b'interlock:job/v1\n{"a":1,"b":[0.5]}').hexdigest()
    assert digest("job/v1", {"b": [0.5], "a": 1}) == f"sha256:{expected}"


def test_the_same_value_in_another_domain_has_another_digest() -> None:
    assert digest("job/v1", {"a": 1}) != digest("policy/v1", {"a": 1})


@pytest.mark.parametrize("domain", ["", "Job", "job\n", "a\nb", "é", "-job", "x" * 65])
def test_a_domain_that_could_be_mistaken_for_content_is_not_accepted(domain: str) -> None:
    with pytest.raises(ValueError, match="not a digest domain"):
        digest(domain, {})


@given(values)
def test_canonical_json_means_what_the_value_means(value: object) -> None:
    assert json.loads(canonical(value), parse_int=float) == value  # pyright: ignore[reportArgumentType]


def test_the_reference_is_imported_only_when_a_value_needs_it() -> None:
    script = (
        "import sys; from interlock.kernel.codec.canonical import canonical;"
        "canonical({'a': [1, 0.5, 'x']}); assert 'rfc8785' not in sys.modules;"
        "canonical(1e20); assert 'rfc8785' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
