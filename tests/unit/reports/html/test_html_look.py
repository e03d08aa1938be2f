# SPDX-License-Identifier: Apache-2.0
"""How the page looks: colours told apart in light, dark and on paper; in a browser no request, no overflow, whole on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from tests.browser import Tab, browser, chromium
from tests.unit.reports.html.html_samples import RECORDINGS

from ssllatency.model.handshakes import PHASES
from ssllatency.output.recordings import read
from ssllatency.reports.html.page import page
from ssllatency.reports.html.plots.heatmap import HEAT
from ssllatency.reports.html.plots.svg import COLOURS
from ssllatency.reports.html.words import style_name
from ssllatency.reports.words.parts import CLIENT_PIECES

RECORDED = Path(__file__).resolve().parents[4] / "examples" / "recorded"
CSS = files("ssllatency.reports.html").joinpath("templates/page.css").read_text(encoding="utf-8")
WIDTHS = (320, 390, 820, 1400)
_WAITS = tuple(style_name(part) for part in CLIENT_PIECES if part not in PHASES)
_WORK = tuple(style_name(part) for part in CLIENT_PIECES if part in PHASES)
# What is written on what.
PAIRS = (
    *((text, "paper") for text in ("ink", "muted", "link", "good", "look", "bad", "p50", "p90", "p99", "after", "before")),
    *(("on-work", part) for part in _WORK),
    *(("ink", part) for part in _WAITS),
)


def _themes() -> dict[str, dict[str, str]]:
    light, dark, paper = (
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    )
    return {"light": light, "dark": {**light, **dark}, "print": {**light, **paper}}


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_stands_out(theme: str) -> None:
    colours = _themes()[theme]
    assert set(COLOURS) <= set(colours)
    low = {pair: round(_contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in PAIRS}
    assert {pair: contrast for pair, contrast in low.items() if contrast < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_heat_stands_out(theme: str) -> None:
    assert _contrast(f"#{bytes(HEAT).hex()}", _themes()[theme]["paper"]) >= 3


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    if not chromium():
        pytest.skip("no Chromium here: apt-get install chromium-headless-shell")
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.slow
def test_in_a_browser(name: str, tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(*RECORDINGS[name]()), encoding="utf-8")
    for width in WIDTHS:
        tab.show(file, width)
        assert [address for address in tab.requests if not address.startswith("data:")] == [file.as_uri()]
        tab.value("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert tab.value("document.documentElement.scrollWidth") == width
        shown = tab.value("[...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().width).length")
        assert 2 * shown == tab.value("document.querySelectorAll('svg').length")
        # The letters of plots are as large as those around them, and lie inside.
        assert tab.value(_SMALLEST_LETTERS) >= 9.5
        assert tab.value(_OUTSIDE) == []
    assert tab.printed().startswith(b"%PDF")


@pytest.mark.slow
def test_no_column_is_cut_in_a_window_of_1000_pixels(tab: Tab, tmp_path: Path) -> None:
    """Of a recorded change, whose table of parts has ten columns."""
    before, after = (read(str(RECORDED / f"{name}.jsonl")) for name in ("before", "after"))
    file = tmp_path / "page.html"
    file.write_text(page(after, before), encoding="utf-8")
    for width in (1000, 1280):
        tab.show(file, width)
        cut = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)"
        assert tab.value(f"{cut}.map(one => one.querySelector('caption').textContent)") == []


_SMALLEST_LETTERS = """Math.min(99, ...[...document.querySelectorAll('svg text')].filter(one => one.textContent.trim())
    .map(one => parseFloat(getComputedStyle(one).fontSize) * (one.ownerSVGElement.getBoundingClientRect().width || 1e6)
        / one.ownerSVGElement.viewBox.baseVal.width))"""
_OUTSIDE = """[...document.querySelectorAll('svg text')].filter(one => {
    const inner = one.getBoundingClientRect(), outer = one.ownerSVGElement.getBoundingClientRect();
    return outer.width && (inner.left < outer.left - 3 || inner.right > outer.right + 3
        || inner.top < outer.top - 3 || inner.bottom > outer.bottom + 3);
}).map(one => one.textContent)"""


@pytest.mark.slow
def test_light_and_dark_differ(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(*RECORDINGS["changed"]()), encoding="utf-8")
    pictures, grounds = [], []
    for scheme in ("light", "dark"):
        tab.show(file, 1100, scheme)
        grounds.append(tab.value("getComputedStyle(document.body).backgroundColor"))
        pictures.append(tab.value("getComputedStyle(document.querySelector('.wide svg path[style*=private-key]')).fill"))
    assert all(one != other for seen in (pictures, grounds) for one, other in pairwise(seen))


@pytest.mark.slow
def test_a_wide_tables_first_column_and_its_heading_stay(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(*RECORDINGS["changed"]()), encoding="utf-8")
    tab.show(file, 390)
    wide = "[...document.querySelectorAll('.scroll')].find(one => one.scrollWidth > one.clientWidth + 100)"
    places = f"[...{wide}.querySelectorAll('thead th:first-child, tbody th')].map(one => one.getBoundingClientRect().left)"
    second = f"{wide}.querySelectorAll('thead th')[1].getBoundingClientRect().left"
    before, moved_from = tab.value(places), tab.value(second)
    tab.value(f"{wide}.scrollLeft = 90")
    assert len(before) > 5
    assert tab.value(places) == before
    assert tab.value(second) == moved_from - 90


@pytest.mark.slow
def test_findings_are_on_the_first_screen_of_a_phone(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(*RECORDINGS["changed"]()), encoding="utf-8")
    tab.show(file, 390)
    assert tab.value("document.querySelector('.finding').getBoundingClientRect().bottom") < 700
