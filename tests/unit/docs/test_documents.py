# SPDX-License-Identifier: Apache-2.0
"""The documents against the program, the checkout and each other: options, defaults, files, links, make's targets, figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pages import DOCUMENTS, TOP, anchors, code_lines, code_spans, links, name_of, paragraphs

from install.options import shown
from install.subcommands import parsers
from ssllatency.engines.doctor import OLDEST_KERNEL
from ssllatency.model.handshakes import Label

TARGETS = ("--port", "--unit", "--comm", "--cgroup", "--container", "--pod", "--library", "--all")
OTHERS = {"--help", "--version", "--write"}  # of ssllatency itself, and of what writes tables
# Where a figure of memory is measured; and figures that are a limit, or a size of something else.
HOMES = {"docs/measured/memory.md", "docs/measured/benchmarks.md", "docs/measured/export-cost.md", "docs/use/fleet.md"}
LIMITS = {
    "docs/internals/probe-sites.md": {"5 MB", "1 GiB"},
    "docs/reference/merge.md": {"10 MB"},
    "docs/reference/trace.md": {"1 MiB", "4.5 KiB"},
    "docs/reference/load.md": {"1 MiB"},
    "docs/reference/html.md": {"1 MB"},
    "docs/reference/watch.md": {"64 MiB"},
    "docs/reference/record.md": {"13 kB", "2 kB", "10 MB"},
    "docs/use/security.md": {"4 GiB", "2 GiB"},
    "docs/reference/handshakes.md": {"4.6 GB", "141 KiB"},
    "docs/measured/benchmarks.md": set(),
}
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)


@cache
def options(subcommand: str) -> frozenset[str]:
    """The option strings of a subcommand, those that help doesn't show included."""
    return frozenset(word for action in parsers()[subcommand]._actions for word in action.option_strings)


@cache
def all_options() -> frozenset[str]:
    return frozenset().union(*map(options, parsers()))


def calls(text: str) -> Iterator[tuple[str, str]]:
    """The subcommands that code calls, each with its own words: no comment, and nothing after a load generator's name."""
    for line in (*code_lines(text), *code_spans(text)):
        command = line.partition("  #")[0].partition(" | jq")[0]
        for name, words in re.findall(r"\bssllatency ([a-z]+)\b([^;]*)", command):
            if name in parsers():
                yield name, re.split(r" (?:-- |s_time|h2load|ab|wrk)\b", words)[0]


@_DOCUMENT
def test_every_option_is_one_of_the_command(document: Path) -> None:
    """In a command that is shown, and where a code span begins with an option."""
    text = document.read_text()
    wrong = {(name, option) for name, words in calls(text) for option in _OPTION.findall(words) if option not in options(name)}
    assert wrong == set()


@_DOCUMENT
def test_every_option_that_is_spoken_of_is_there(document: Path) -> None:
    """Spans that begin with an option; an example's README has options of other programs."""
    if document.parent.parent.name == "examples":
        return
    spoken = {option for span in code_spans(document.read_text()) if span.startswith("--") for option in _OPTION.findall(span)}
    assert spoken - all_options() - OTHERS == set()


@pytest.mark.parametrize("name", parsers())
def test_every_option_is_in_its_document(name: str) -> None:
    """In the document of the subcommand's name, or else among the other commands."""
    own = next((document for document in DOCUMENTS if document.stem == name), None)
    text = own.read_text() if own else part(TOP / "docs" / "reference" / "commands.md", name)
    told = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))
    missing = [action.option_strings for action in shown(parsers()[name]) if not told & {*action.option_strings}]
    assert [words for words in missing if words not in ([], ["-h", "--help"])] == []


def part(document: Path, name: str) -> str:
    """What stands below its heading `ssllatency NAME`, up to the next heading of the same kind."""
    (found,) = re.findall(rf"^## ssllatency {name}\n(.*?)(?=^## |\Z)", document.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


@_DOCUMENT
def test_a_default_is_the_parsers(document: Path) -> None:
    """`--option N` … (DEFAULT)."""
    text = " ".join(document.read_text().split())
    defaults: dict[str, set[float]] = {}  # some commands have others
    for action in (action for parser in parsers().values() for action in parser._actions):
        if isinstance(action.default, int | float) and not isinstance(action.default, bool):
            for word in action.option_strings:
                defaults.setdefault(word, set()).add(action.default)
    for option, told in re.findall(r"`(--[a-z-]+) [A-Z]+`[^`(]*\(([\d,]+)\)", text):
        if option in defaults:
            assert int(told.replace(",", "")) in defaults[option], option


def test_a_default_that_help_tells_is_the_parsers() -> None:
    """As "(64)" at the end of an option's help."""
    told = [
        (action, found[1])
        for parser in parsers().values()
        for action in shown(parser)
        if isinstance(action.default, int) and not isinstance(action.default, bool)
        if (found := re.search(r"\((\d+)\)$", action.help or ""))
    ]
    assert told
    assert [action.option_strings for action, number in told if int(number) != action.default] == []


@_DOCUMENT
def test_where_some_targets_are_named_all_are(document: Path) -> None:
    """A synopsis, or a line that says what else can be named."""
    lines = [line.replace("ssllatency targets  ", "--all") for line in code_lines(document.read_text())]  # without any, all
    some = [line for line in lines if 1 < sum(word in line for word in TARGETS) < len(TARGETS)]
    assert some == []


@_DOCUMENT
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document.read_text()):
        path, _, anchor = link.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file.read_text()), link


@_DOCUMENT
def test_files_that_are_named_are_there(document: Path) -> None:
    """Those of this checkout; below python/ssllatency the folder may stand alone. What is below build/ is made."""
    rooms = [path.name for path in (TOP / "python" / "ssllatency").iterdir() if path.is_dir() and path.name != "__pycache__"]
    text = re.sub(r"\]\([^)]*\)|https?:\S+", "", document.read_text())
    named = re.findall(r"(?<![\w./~-])((?:docs|tests|bpf|python|tools|bench|examples|install|deploy)/[\w./-]*\w)", text)
    inside = re.findall(rf"(?<![\w./-])((?:{'|'.join(rooms)})/[\w./]+\.py)", text)
    beside = [TOP / "python" / "ssllatency" / name for name in inside]
    missing = [name for name in named if not (TOP / name).exists() and not (TOP / "bpf" / name).exists()]
    assert missing + [str(path) for path in beside if not path.exists()] == []


@_DOCUMENT
def test_names_of_the_kernel_side_are_there(document: Path) -> None:
    named = set(re.findall(r"\b(?:ssll|SSLL)_[A-Za-z0-9_]*[A-Za-z0-9]\b", document.read_text()))
    assert named - kernel_names() == set()


@cache
def kernel_names() -> set[str]:
    sources = (file for file in (TOP / "bpf").rglob("*") if file.suffix in (".c", ".h"))
    return {name for file in sources for name in re.findall(r"\w+", file.read_text())}


def test_every_label_is_in_its_document() -> None:
    text = (TOP / "docs" / "reference" / "handshakes.md").read_text()
    assert [label.value for label in Label if f"`{label.value}`" not in text] == []


@_DOCUMENT
def test_make_has_the_targets_that_are_named(document: Path) -> None:
    rules = set(re.findall(r"^([a-z][a-z -]*):(?!=)", (TOP / "Makefile").read_text(), re.MULTILINE))
    known = {target for rule in rules for target in rule.split()}
    code = [*code_lines(document.read_text()), *code_spans(document.read_text())]
    named = {target for line in code for target in re.findall(r"(?:^|\bsudo )make ([a-z][a-z-]*)\b", line)}
    assert named - known == set()


@_DOCUMENT
def test_the_oldest_kernel_is_the_doctors(document: Path) -> None:
    found = re.findall(r"Linux (\d+\.\d+) or later", document.read_text())
    assert set(found) <= {".".join(map(str, OLDEST_KERNEL))}


@_DOCUMENT
def test_memory_is_told_where_it_is_measured(document: Path) -> None:
    """Elsewhere a figure of it would grow old: other documents link to the page."""
    name = name_of(document)
    if name in HOMES:
        return
    for paragraph in paragraphs(document.read_text()):
        figures = set(re.findall(r"\b[\d.,]*\d (?:[KMG]iB|[kMG]B)\b", paragraph)) - LIMITS.get(name, set())
        assert not figures or "memory" not in paragraph.lower(), paragraph


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """The rows of the table below a heading of the benchmark's page, by their first cell."""
    part = re.split(r"^## ", text[text.index(f"## {heading}") + 3 :], flags=re.MULTILINE)[0]
    return {row[0]: row[1:] for row in map(cells, part.splitlines()) if len(row) > 1}


def estimate(cell: str) -> str:
    """A figure of the benchmark's page without its interval."""
    return cell.partition(" (")[0].replace(",", "")


def times(row: list[str]) -> str:
    """How many times as much a request takes as without a tracer; words where the page has no figure."""
    return "not to be told from noise" if row[1].startswith("not to be told") else f"{estimate(row[3])} times"


def test_the_readmes_costs_are_the_benchmarks() -> None:
    page, readme = (TOP / "docs" / "measured" / "benchmarks.md").read_text(), (TOP / "README.md").read_text()
    pump, kept, closed = (
        rows(page, heading) for heading in ("In a TLS pump", "In one nginx worker, keep", "In one nginx worker, Conn")
    )
    names = {"empty programs at the same sites": "empty programs (the floor)", "ssllatency trace": "ssllatency"}
    told = {row[0]: row[1:] for row in map(cells, readme.splitlines()) if len(row) == 4 and row[1].startswith("+")}
    assert told
    for name, (added, keep_alive, close) in told.items():
        row = names.get(name, name)
        assert added == f"+{int(estimate(pump[row][1])) / 1000:.1f} µs"
        assert keep_alive == times(kept[row])
        assert close.partition(" (")[0] == times(closed[row])
    hit = re.search(r"program meanwhile: ([\d,]+) ns", page)
    assert hit
    assert f"where a probe hit takes {int(hit[1].replace(',', '')) / 1000:.2f} µs" in " ".join(readme.split())
