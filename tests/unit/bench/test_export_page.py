# SPDX-License-Identifier: Apache-2.0
"""The page of what `export` takes, of made-up measurements: every part of it is filled in."""

from __future__ import annotations

import re

from bench.fleet.export import FORMATS, Results, page


def results() -> Results:
    """Of 200 processes."""
    return Results(
        processes=200,
        series=2001,
        cpu={"not scraped": (0.0031, 0.0002), "every 15 s": (0.004, 0.002), "every 2 s": (0.0123, 0.0045)},
        scrapes={name: [(21.4, 8.0, 2.0), (20.2, 9.0, 2.0), (39.6, 10.0, 3.0)] for name in FORMATS},
        busy={name: [(110.0, 50.0, 11.0), (130.0, 70.0, 15.0)] for name in FORMATS},
        regular=[5.2, 7.4, 6.1],
        sizes=dict.fromkeys(FORMATS, 1234567),
        memory={"the tracer (PSS)": 30 << 20, "the kernel's maps": 40 << 20},
    )


def test_the_page_has_all_figures() -> None:
    text = page(results(), 20.0)
    assert not re.search(r"\{\w*\}", text)
    assert "| not scraped | 0.31 % | 0.02 % | 0.33 % |" in text
    assert "| every 2 s | 1.23 % | 0.45 % | 1.68 % |" in text
    assert "| **all of it** | 70.0 |" in text
    assert "less than 0.5 % where it is scraped every 15 s, is missed." in text
    assert "less than 100 MiB for all of it, is met." in text
    for name in FORMATS:
        assert f"| {name} | 1,234,567 | 21 (40) | 9 (10) | 120 (130) | 60 (70) | 13 (15) |" in text
    assert "**6 (7) ms**" in text
    assert "200 processes of 100 services" in text
    assert "2,001 series" in text


def test_its_lines_fit() -> None:
    assert max(len(line) for line in page(results(), 20.0).splitlines() if not line.startswith(("|", "- "))) <= 128
