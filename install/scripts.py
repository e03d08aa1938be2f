# SPDX-License-Identifier: Apache-2.0
"""The man page of a bpftrace script, from the comment at its beginning: `KEYWORD  text`, continued on indented lines."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from textwrap import dedent

from install.page import Page, reference
from install.roff import bold, escape, filled, italic, term, verbatim

_TITLES = {"USAGE": "SYNOPSIS", "NEEDS": "REQUIREMENTS", "MEASURES": "DESCRIPTION", "PRINTS": "FIELDS", "SAMPLE": "EXAMPLES"}
_KEYWORD = re.compile(r"([A-Z]{4,})(?: +(\S.*))?")
_COLUMNS = re.compile(r"(\S+(?: \S+)*) {2,}(\S.*)")
_OUTPUT = re.compile(r"[@\[]|.*\S  ")  # how a line of bpftrace's output begins, or that it has columns
_PROSE = 60  # characters; any other line of a sample that is at least as long isn't output


def page_of(script: Path) -> Page:
    """The page of a script. ValueError where the script doesn't begin with such a comment."""
    summary, texts = header(script.read_text(encoding="utf-8"), script.name)
    page = Page(script.name, summary)
    for keyword, lines in texts.items():
        page.sections[_TITLES.get(keyword, keyword)] = _section(keyword, lines)
    page.sections["EXIT STATUS"] = ["That of", f"{bold('bpftrace')}(8)."]
    page.sections["SEE ALSO"] = [f"{reference('ssllatency')}, {bold('bpftrace')}(8)"]
    return page


def header(text: str, name: str) -> tuple[str, dict[str, list[str]]]:
    """The summary, and the lines under each keyword, without their indentation."""
    comment = [line.removeprefix(" *").removeprefix(" ") for line in text.partition("/*")[2].partition("*/")[0].split("\n")]
    summary = next((line[len(name) :].strip() for line in comment if line.startswith(f"{name} ")), "")
    sections: dict[str, list[str]] = {}
    for line in comment:
        keyword = _KEYWORD.fullmatch(line)
        if keyword:
            sections[keyword[1]] = [keyword[2] or ""]
        elif sections:
            next(reversed(sections.values())).append(line)
    if not summary or "USAGE" not in sections:
        raise ValueError(f"{name} doesn't begin with a comment that has its name, a summary and USAGE")
    return summary.rstrip("."), {keyword: _dedented(*lines) for keyword, lines in sections.items()}


def _dedented(first: str, *others: str) -> list[str]:
    return "\n".join((first, *dedent("\n".join(others)).split("\n"))).strip("\n").split("\n")


def _section(keyword: str, lines: list[str]) -> list[str]:
    if keyword == "USAGE":
        return _usage(lines)
    if keyword == "PRINTS":
        return _columns(lines)
    if keyword == "SAMPLE":
        return _sample(lines)
    verb = ["Measures"] if keyword == "MEASURES" else []
    return [".PP", *verb, *filled(escape("\n".join(lines)))]


def _usage(lines: list[str]) -> list[str]:
    """The command, then its explanation."""
    command, _, words = lines[0].partition("  ")
    program, *arguments = command.split(" ")
    called = [bold(program), *(bold(word) if word.endswith(".bt") else italic(word) for word in arguments)]
    return [" ".join(called), ".PP", *filled(escape("\n".join([words, *lines[1:]])))]


def _sample(lines: list[str]) -> list[str]:
    """Output verbatim, and its explanation."""
    roff: list[str] = []
    is_output = False

    def looks(line: str) -> bool:
        nonlocal is_output
        is_output = bool(_OUTPUT.match(line)) or (is_output and len(line) < _PROSE)
        return is_output

    for output, some in groupby(lines, looks):
        text = "\n".join(some)
        roff += verbatim(text) if output else [".PP", *filled(escape(text))]
    return roff


def _columns(lines: list[str]) -> list[str]:
    """A term for each line of two columns; what is indented goes on with the line before."""
    roff = [".PP"]
    for line in lines:
        columns = _COLUMNS.fullmatch(line)
        if columns:
            roff += term(bold(columns[1]), filled(escape(columns[2])))
        else:
            roff += filled(escape(line))
    return roff
