# SPDX-License-Identifier: Apache-2.0
"""Reads a page as strictly as a checker would: elements closed in order, ids once, references to what is there."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "wbr"}


class Reading(HTMLParser):
    """What a page holds. Raises AssertionError where it isn't sound."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.ids: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.headings: list[int] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, self._open
        assert len(self.ids) == len(set(self.ids))
        self._check_references()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        assert len(attributes) == len(attrs), f"{tag} has an attribute twice"
        assert not any(name.startswith("on") for name in attributes), f"{tag} runs a script"
        self.elements.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.texts.append(data)
        if "th" in self._open or "td" in self._open:
            self.tables[-1][-1][-1] += data

    @property
    def text(self) -> str:
        """All text that a reader sees or hears."""
        return " ".join(" ".join(self.texts).split())

    def _check_references(self) -> None:
        for _, attributes in self.elements:
            for name in ("aria-labelledby", "aria-describedby"):
                assert attributes.get(name, self.ids[0]) in self.ids
            target = attributes.get("href", "")
            assert not target.startswith("#") or target[1:] in self.ids
