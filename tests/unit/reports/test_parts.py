# SPDX-License-Identifier: Apache-2.0
"""Every part of a handshake's time has all that it is shown by: a name, a place in tables, a sentence; and what is a piece of
the whole also a letter, what bars are drawn of, and a colour in each of the page's palettes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.model.handshakes import PHASES, Part
from ssllatency.reports.html.plots.svg import COLOURS
from ssllatency.reports.html.words import style_name
from ssllatency.reports.rows import parts as rows
from ssllatency.reports.words.parts import CLIENT_PIECES, STYLES

TOP = Path(__file__).resolve().parents[3]
STYLE_SHEET = (TOP / "python/ssllatency/reports/html/templates/page.css").read_text()
PALETTES = STYLE_SHEET.count("--ink:")


def sentences() -> dict[Part, tuple[str, str]]:
    """By part, its name in the text and its sentence, from the table of docs/reference/handshakes.md."""
    page = (TOP / "docs/reference/handshakes.md").read_text()
    table = page[page.index("| part in the text |") :].split("\n\n")[0]
    said: dict[Part, tuple[str, str]] = {}
    for line in table.splitlines()[2:]:
        names, keys, sentence = (cell.strip() for cell in line.strip("|").split("|"))
        told = re.findall(r"`(\w+)`", keys)
        for key, name in zip(told, [names] if len(told) == 1 else names.split(", "), strict=True):
            said[Part(key)] = name, sentence
    return said


SENTENCES = sentences()


def test_every_part_has_a_name_of_its_own_a_place_and_a_sentence() -> None:
    assert STYLES.keys() == SENTENCES.keys() == set(Part)
    places = [part for part, _ in rows._ROWS]
    assert (len(places), set(places)) == (len(Part), set(Part))
    assert len({style.name for style in STYLES.values()}) == len(Part)
    assert {part: (style.name, True) for part, style in STYLES.items()} == {
        part: (name, len(sentence) > 10) for part, (name, sentence) in SENTENCES.items()
    }


def test_the_kernel_side_has_the_same_parts() -> None:
    assert {part.value.upper() for part in Part} == {name for name in abi.Part.__members__ if name != "PARTS"}


@pytest.mark.parametrize("shape", ["letter", "ascii", "unicode"])
def test_pieces_of_bars_differ(shape: str) -> None:
    shapes = {part: getattr(style, shape) for part, style in STYLES.items()}
    pieces = [shapes[part] for part in CLIENT_PIECES]
    assert all(len(piece) == 1 for piece in pieces)
    assert len(set(pieces)) == len(pieces)
    assert not any(piece for part, piece in shapes.items() if part not in CLIENT_PIECES)


def test_waits_are_hatched_and_work_is_plain() -> None:
    hatches = {part: STYLES[part].hatch for part in CLIENT_PIECES}
    assert {part for part, hatch in hatches.items() if not hatch} == set(PHASES)
    waits = [hatch for hatch in hatches.values() if hatch]
    assert len(set(waits)) == len(waits)


@pytest.mark.parametrize("part", CLIENT_PIECES)
def test_pieces_have_a_colour_in_every_palette(part: Part) -> None:
    name = style_name(part)
    assert PALETTES == 3  # light, dark and paper
    assert name in COLOURS
    assert len(re.findall(rf"--{name}: #[0-9a-f]{{6}};", STYLE_SHEET)) == PALETTES
    assert part in PHASES or name.startswith(("wait-", "queue-")), "its letter is as light as its colour"
    assert f".{name} {{ background: var(--{name}); }}" in STYLE_SHEET
