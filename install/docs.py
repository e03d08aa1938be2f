# SPDX-License-Identifier: Apache-2.0
"""The part of docs/ about a subcommand: what is below the heading `ssllatency NAME`, by its own headings."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markdown_it.tree import SyntaxTreeNode as Node

from install.roff import parse

TOP = Path(__file__).resolve().parent.parent


@dataclass
class Part:
    """What is under a heading: its own blocks, and those of the headings one level below, by their titles in capitals."""

    own: list[Node] = field(default_factory=list)
    sections: dict[str, list[Node]] = field(default_factory=dict)


def part_of(name: str, folder: Path = TOP / "docs") -> Part:
    """The part about the subcommand; an empty one where there is none."""
    for file in sorted(folder.rglob("*.md"), key=lambda file: file.stem != name):
        blocks = _parsed(file)
        for index, block in enumerate(blocks):
            if _title(block) == f"ssllatency {name}":
                return _part(int(block.tag[1:]), blocks[index + 1 :])
    return Part()


def purpose(file: Path = TOP / "README.md") -> list[Node]:
    """The first paragraph of the README: what ssllatency is for."""
    return [block for block in _parsed(file) if block.type == "paragraph"][:1]


@cache
def _parsed(file: Path) -> list[Node]:
    return parse(file.read_text(encoding="utf-8"))


def _title(block: Node) -> str:
    return block.children[0].content if block.type == "heading" else ""


def _part(level: int, blocks: list[Node]) -> Part:
    part = Part()
    current = part.own
    for block in blocks:
        depth = int(block.tag[1:]) if block.type == "heading" else level + 2
        if depth <= level:
            break
        if depth == level + 1:
            current = part.sections.setdefault(_title(block).upper(), [])
        else:
            current.append(block)
    return part
