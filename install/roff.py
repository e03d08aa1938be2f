# SPDX-License-Identifier: Apache-2.0
"""Markdown as roff for man(7), in ASCII: only the kinds of blocks that docs/ uses. markdown-it parses.

Nothing packaged does it: Debian's go-md2man (2.0.2) leaves tables as they are; lowdown (1.0.0) draws boxes with columns of one
width, so that text of a paragraph's length gets half a line, and has no lists of terms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode as Node

# What roff would take for an accent, a quotation mark or an escape.
_ESCAPES = {"\\": r"\(rs", "^": r"\(ha", "~": r"\(ti", "`": r"\(ga", "'": r"\(aq", '"': r"\(dq"}
_WIDE_CELL = 16  # characters; a column with a longer cell is filled to the width of the page
_LONG_CELL = 120  # a table with a longer one is written as a list, as such text is unreadable in a terminal's columns
_HEAD = re.compile(r"((?:[^:]|:(?! )){1,70}): ")  # of an item that explains a term
_TERM = re.compile(r"\\f|[A-Z/]{2,}[^a-z]*:")  # certainly begins such an item: set in bold, or in capitals
Link = Callable[[str, str], str]


def parse(markdown: str) -> list[Node]:
    """The blocks of a document."""
    return Node(MarkdownIt("commonmark").enable("table").parse(markdown)).children


def escape(text: str) -> str:
    """Text escaped for roff, within a line."""
    escaped = "".join(_ESCAPES.get(char, char) for char in text)
    return "".join(char if char < "\x7f" else rf"\[u{ord(char):04X}]" for char in escaped)


def bold(text: str) -> str:
    """Text to be typed literally: a hyphen becomes a minus sign, so that it can be pasted."""
    return r"\fB" + escape(text).replace("-", r"\-") + r"\fP"


def italic(text: str) -> str:
    """A placeholder, or a title."""
    return r"\fI" + escape(text).replace("-", r"\-") + r"\fP"


def filled(text: str) -> list[str]:
    """Escaped text as lines that roff fills, none of which begins with what it would take for a request."""
    lines = (line.strip() for line in text.split("\n"))
    return [rf"\&{line}" if line.startswith(".") else line for line in lines if line]


def verbatim(text: str) -> list[str]:
    """Lines that stay as they are, indented."""
    lines = [escape(line).replace("-", r"\-") for line in text.rstrip("\n").split("\n")]
    return [".PP", ".RS 4", ".EX", *(rf"\&{line}" if line.startswith(".") else line for line in lines), ".EE", ".RE"]


def term(head: str, body: Sequence[str]) -> list[str]:
    """A term, given as roff, with its explanation indented below."""
    return [".TP", *filled(head), *(body or [r"\&"])]


class Writer:
    """Writes blocks as roff; `link(text, href)` gives a link's roff."""

    def __init__(self, link: Link = lambda text, _href: italic(text)) -> None:
        self._link = link

    def blocks(self, nodes: Iterable[Node]) -> list[str]:
        """The lines of several blocks. ValueError for a block of another kind, so that nothing is silently left out."""
        return [line for node in nodes for line in self._block(node)]

    def inline(self, node: Node) -> str:
        """The text of a paragraph or cell, ends of lines kept."""
        return "".join(self._span(child) for child in node.children)

    def _block(self, node: Node) -> list[str]:
        match node.type:
            case "paragraph":
                return [".PP", *filled(self.inline(node))]
            case "code_block" | "fence":
                return verbatim(node.content)
            case "bullet_list" | "ordered_list":
                return self._list(node)
            case "heading":
                return [f".SS {self.inline(node)}"]
            case "table":
                return self._table(node)
        raise ValueError(f"a {node.type} can't be written as roff")

    def _list(self, node: Node) -> list[str]:
        """As terms where most items explain one."""
        texts = [self.inline(item.children[0]) for item in node.children]
        terms = sum(bool(_TERM.match(text) and _HEAD.match(text)) for text in texts) * 2 > len(texts)
        lines: list[str] = []
        for number, (text, item) in enumerate(zip(texts, node.children, strict=True), 1):
            head = _HEAD.match(text) if terms else None
            mark = f".IP {number}. 4" if node.type == "ordered_list" else r".IP \(bu 2"
            lines += term(head[1], filled(text[head.end() :])) if head else [mark, *filled(text)]
            lines += [".RS", *self.blocks(item.children[1:]), ".RE"] if item.children[1:] else []
        return lines

    def _table(self, table: Node) -> list[str]:
        rows = [[self.inline(cell) for cell in row.children] for part in table.children for row in part.children]
        if max(len(cell) for row in rows for cell in row) > _LONG_CELL:
            return _as_list(*rows)
        wide = [max(map(len, column)) > _WIDE_CELL for column in zip(*rows, strict=True)]
        formats = " ".join("lx" if is_wide else "l" for is_wide in wide)
        lines = [".PP", ".TS", "tab(\t);", f"{formats.replace('l', 'lb')}", f"{formats}."]
        for row in rows:
            cells = (f"T{{\n.ad l\n{cell}\nT}}" if is_wide else cell for cell, is_wide in zip(row, wide, strict=True))
            lines += "\t".join(cells).split("\n")
        return [*lines, ".TE"]

    def _span(self, node: Node) -> str:
        match node.type:
            case "text":
                return escape(node.content)
            case "code_inline":
                return bold(node.content)
            case "softbreak" | "hardbreak":
                return "\n"
            case "strong":
                return rf"\fB{self.inline(node)}\fP"
            case "em":
                return rf"\fI{self.inline(node)}\fP"
            case "link":
                return self._link(
                    "".join(child.content for child in node.walk() if not child.children), str(node.attrs["href"])
                )
            case "inline":
                return self.inline(node)
        raise ValueError(f"a {node.type} can't be written as roff")


def _as_list(titles: Sequence[str], *rows: Sequence[str]) -> list[str]:
    """A table as terms: the first cell, then the others under it, each by its column's title."""
    lines: list[str] = []
    for row in rows:
        cells = (filled(rf"\fI{title}:\fP {cell}") for title, cell in zip(titles[1:], row[1:], strict=True))
        lines += term(row[0], [line for cell in cells for line in (*cell, ".br")][:-1])
    return lines
