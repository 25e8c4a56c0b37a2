"""What a terminal showed is what is drawn of it; what cannot be drawn truly is refused."""

from __future__ import annotations

import re

import pytest

from tools.terminal_svg import COLUMNS, ROWS, Piece, draw, lines_drawn, lines_of, pieces, placed


def drawn(*shown: Piece) -> str:
    return draw(placed(shown), title="a title", description="what it shows")


def test_a_line_that_is_longer_than_the_terminal_goes_on_in_the_next_row() -> None:
    cells = placed([Piece(0, "x" * (COLUMNS + 3) + "\nend")])
    assert lines_of(cells) == ["x" * COLUMNS, "xxx", "end"]


def test_colours_are_taken_from_the_codes_and_end_where_the_program_ends_them() -> None:
    assert pieces(1, "\x1b[33mheld\x1b[0m by \x1b[1mann\x1b[0m\r\n") == [
        Piece(1, "held", "yellow"),
        Piece(1, " by "),
        Piece(1, "ann", "bold"),
        Piece(1, "\n"),
    ]


@pytest.mark.parametrize("code", ["\x1b[2J", "\x1b[1A", "50 %\r100 %", "\x07", "\x1b]0;title\x07"])
def test_what_is_more_than_coloured_lines_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        placed(pieces(0, f"one{code}two"))


def test_a_picture_is_read_back_as_the_lines_that_it_shows() -> None:
    said = '  {"a": 1}   <&>\n\nlast  column'
    assert lines_drawn(drawn(Piece(0, "$ "), *pieces(1, said))) == ['$   {"a": 1}   <&>', "", "last  column"]


def test_each_text_is_hidden_until_its_moment_and_stays() -> None:
    picture = drawn(Piece(0, "first\n"), Piece(2, "second\n"))  # the film goes on for 8 s after the last
    assert 'class="t0"' in picture
    assert "@keyframes t0" not in picture
    assert "@keyframes t1{0%{visibility:hidden}20.000%{visibility:visible}}" in picture
    assert re.search(r'<text class="t1"[^>]*>second</text>', picture)


def test_the_last_row_is_in_sight_and_a_picture_that_does_not_move_shows_the_end() -> None:
    picture = drawn(Piece(0, "first"), *[Piece(number, f"\n{number}") for number in range(1, ROWS + 2)])
    end = "transform:translateY(-40px)"
    assert picture.count(f"{{{end}}}") == 1
    assert f'<g id="sheet" style="{end}">' in picture
