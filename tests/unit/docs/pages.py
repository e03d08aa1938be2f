# SPDX-License-Identifier: Apache-2.0
"""The documents of this checkout as the tests read them: which there are, their code, their links, their paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
# What was true of a version stays in the changelog, whatever comes later.
DOCUMENTS = tuple(
    file
    for pattern in ("*.md", "docs/**/*.md", "examples/*/README.md")
    for file in sorted(TOP.glob(pattern))
    if file.stem != "CHANGELOG"
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(file: Path) -> str:
    """Its path in the checkout."""
    return str(file.relative_to(TOP))


def code_lines(text: str) -> list[str]:
    """The lines of blocks that are indented or fenced; one that ends in a backslash with the next."""
    fenced = [line for block in _FENCE.findall(text) for line in block.splitlines()[1:-1]]
    lines = [*fenced, *(line[4:] for line in _FENCE.sub("", text).splitlines() if line.startswith("    "))]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def code_spans(text: str) -> list[str]:
    """What stands between backquotes within a line, or a line and the next."""
    prose = "\n".join(line for line in _FENCE.sub("", text).splitlines() if not line.startswith("    "))
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def links(text: str) -> list[str]:
    """Where its links lead, but for those to the web."""
    return [link for link in _LINK.findall(text) if "://" not in link]


def anchors(text: str) -> set[str]:
    """What a link can name of it: its headings, as the forge writes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def paragraphs(text: str) -> Iterator[str]:
    """Its paragraphs, items of lists and rows of tables, each on one line; code isn't among them."""
    prose = "\n".join("" if line.startswith("    ") else line for line in _FENCE.sub("", text).splitlines())
    for block in re.split(r"\n\s*\n|\n(?=\s*[-|])", prose):
        yield " ".join(block.split())
