# SPDX-License-Identifier: Apache-2.0
"""docs/glossary.md: words in order, each with one sentence and a home that has it, and found from where readers start."""

from __future__ import annotations

import re

from pages import TOP

PAGE = (TOP / "docs" / "glossary.md").read_text()
ROWS = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| `(\w+)` in `([\w./]+)` \|$", PAGE, re.MULTILINE)
WORDS = [word for word, *_ in ROWS]


def test_every_row_is_a_word_with_a_meaning_and_a_home() -> None:
    assert len(ROWS) >= 30
    assert len(ROWS) == sum(line.startswith("| **") for line in PAGE.splitlines())


def test_the_words_stand_in_order_and_once() -> None:
    assert sorted(set(WORDS)) == WORDS


def test_a_meaning_is_a_sentence() -> None:
    wrong = [word for word, meaning, *_ in ROWS if not re.fullmatch(r"[A-Z][^.]*\.(?: \([A-Z][^.]*\.\))?", meaning)]
    assert wrong == []


def test_the_home_has_the_name() -> None:
    folders = (TOP, TOP / "python" / "ssllatency")
    homes = {(name, path): next((f / path for f in folders if (f / path).is_file()), None) for _, _, name, path in ROWS}
    missing = [home for home, file in homes.items() if not file or not re.search(rf"\b{home[0]}\b", file.read_text())]
    assert missing == []


def test_readers_are_led_to_it() -> None:
    assert "(docs/glossary.md)" in (TOP / "README.md").read_text()
    assert "(docs/glossary.md)" in (TOP / "CONTRIBUTING.md").read_text()
