"""YAML and JSON become one tree, and every node knows where it was written."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.codec.located import Node, Scalar, Sequence, Source, SourceInvalid, plain, read_json
from interlock.kernel.codec.located_yaml import read_yaml

# YAML cannot hold every character that JSON can; this is what both can.
texts = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs", "Cn"), exclude_characters="\ufeff\u2028\u2029"
    )
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 0, 2]), st.booleans())
def test_json_is_read_as_every_reader_reads_it(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(read_json(text).root) == value


@given(values)
def test_a_json_text_is_the_same_tree_when_read_as_yaml(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert plain(read_yaml(text).root) == plain(read_json(text).root)


def scalars(source: Source, node: Node) -> list[Scalar]:
    if isinstance(node, Scalar):
        return [node]
    if isinstance(node, Sequence):
        return [found for item in node.items for found in scalars(source, item)]
    return [found for key, item in node.entries.values() for found in [key, *scalars(source, item)]]


words = st.text("abc é中😀", min_size=1, max_size=8).map(str.strip).filter(bool)


@given(st.lists(st.dictionaries(words, words, min_size=1, max_size=3), min_size=1, max_size=4))
def test_every_word_is_found_again_at_its_line_and_column(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=False)
    source = read_yaml(text)
    lines = text.split("\n")
    for scalar in scalars(source, source.root):
        line, column = source.place_of(scalar.start)
        assert lines[line - 1][column - 1 :].lstrip("'\"").startswith(str(scalar.value)[:1])


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=2, max_size=6), st.sampled_from("|>"))
def test_every_character_of_a_block_is_found_where_it_was_written(lines: list[str], style: str) -> None:
    text = f"key: {style}\n" + "".join(f"    {line}\n" for line in lines)
    source = read_yaml(text)
    [_, scalar] = scalars(source, source.root)
    value = str(scalar.value)
    for offset, character in enumerate(value):
        if not character.isspace():
            assert text[source.offset_inside(scalar, offset)] == character


def test_plain_words_are_what_they_look_like() -> None:
    text = "[true, False, null, ~, 12, -3, 1.5, 1e3, no, on, 12:30, 2026-03-01, 0x1f, '12', \"true\", 1_000]"
    assert plain(read_yaml(text).root) == [
        *(True, False, None, None, 12, -3, 1.5, 1000.0),
        *("no", "on", "12:30", "2026-03-01", "0x1f", "12", "true", "1_000"),
    ]  # fmt: skip


def test_json_that_only_yaml_could_not_read_is_read() -> None:
    assert plain(read_json('"\\ud83d\\ude00\\u0041\\/"').root) == "😀A/"


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 5000, "- " * 50_000, '{"a":' * 20_000, "? " * 5000])
def test_no_depth_exhausts_the_stack(text: str) -> None:
    for read in (read_yaml, read_json):
        with pytest.raises(SourceInvalid):
            read(text)


def test_a_bomb_of_aliases_is_refused_without_being_expanded() -> None:
    levels = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    source = read_yaml("\n".join(levels))
    assert len(source.faults) == 9 * 29


@given(st.text(alphabet="{}[]\":,\\ \n\tab01-.eE&*!|>%@`'#?", max_size=40))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (read_yaml, read_json):
        with suppress(SourceInvalid):
            plain(read(text).root)
