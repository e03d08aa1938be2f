# SPDX-License-Identifier: Apache-2.0
"""Man pages: complete, in order, and without a warning of groff's."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests import programs
from tests.parameters import slow_except

from install import manpages, options, scripts
from install.docs import part_of
from install.roff import Writer, parse
from install.subcommands import parsers
from install.tools import TOOLS, bpftrace_scripts
from ssllatency.cli.command_line import SUBCOMMANDS

ORDER = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "FIELDS", "OVERHEAD", "CAVEATS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"]
EVERYWHERE = {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"}
MARKDOWN = r"""A *b* `c-d` **e** [f](g.md)
.not a request, 'nor this: \\fB

- `term`: a
  thing
- **other**: b: c
- OTHER: d

## Below

- note: no term
1. first

words

    code \\n 'quoted'
    .dot

| a | b |
|--|--|
| 1 | longer than the others |
"""
ROFF = r""".PP
A \fIb\fP \fBc\-d\fP \fBe\fP <f|g.md>
\&.not a request, \(aqnor this: \(rsfB
.TP
\fBterm\fP
a
thing
.TP
\fBother\fP
b: c
.TP
OTHER
d
.SS Below
.IP \(bu 2
note: no term
.IP 1. 4
first
.PP
words
.PP
.RS 4
.EX
code \(rs\(rsn \(aqquoted\(aq
\&.dot
.EE
.RE
.PP
.TS
tab(TAB);
lb lbx
l lx.
aTABT{
.ad l
b
T}
1TABT{
.ad l
longer than the others
T}
.TE
"""
SCRIPT = """#!/usr/bin/env bpftrace
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * sslthing.bt   What things are, and why.
 *
 * USAGE   bpftrace sslthing.bt [PID]     Ctrl-C ends it.
 *         Without a PID: all.
 *
 * MEASURES from here
 *         to there.
 *
 * PRINTS  @us[WHO]   microseconds
 *                    of time
 *
 * SAMPLE  @us[me]:
 *         [1, 2)   3 |@@|
 *         That is: three of them took no longer than a microsecond, or two.
 */
BEGIN { }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, as they are installed."""
    folder = tmp_path_factory.mktemp("man")
    manpages.main(folder / "man1")
    return folder


def rendered(page: Path, width: int = 80) -> str:
    """What man(1) shows, after it has said nothing on standard error."""
    environment = os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": str(width), "MAN_KEEP_FORMATTING": ""}
    command = [programs.path("man"), "--warnings=w", "-P", "cat", "-l", page]
    done = subprocess.run(command, env=environment, cwd=page.parents[1], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return re.sub(".\b", "", done.stdout)


def test_every_command_has_a_page(folder: Path) -> None:
    names = {file.stem for file in (folder / "man1").glob("*.1")}
    assert names >= {"ssllatency", *(f"ssllatency-{name}" for name in SUBCOMMANDS)}
    assert names >= {file.name for file in TOOLS.glob("ssl*")}


def test_groff_has_nothing_to_warn_of(folder: Path) -> None:
    for page in (folder / "man1").glob("*.1"):
        done = subprocess.run(
            [programs.path("groff"), "-t", "-man", "-ww", "-z", "-Tutf8", page],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name


@pytest.mark.parametrize("width", slow_except((72, 80, 120), 80))
def test_man_shows_the_sections_in_order(folder: Path, width: int) -> None:
    for name in SUBCOMMANDS:
        shown = re.findall(r"^[A-Z][A-Z ]+$", rendered(folder / "man1" / f"ssllatency-{name}.1", width), re.MULTILINE)
        assert set(shown) >= EVERYWHERE
        assert [title for title in shown if title in ORDER] == [title for title in ORDER if title in shown]


def test_every_option_is_explained(folder: Path) -> None:
    for name, parser in parsers().items():
        page = rendered(folder / "man1" / f"ssllatency-{name}.1", 200)
        shown = page[page.index("\nOPTIONS\n") : page.index("\nEXIT STATUS\n")]
        words = [word for action in options.shown(parser) for word in action.option_strings]
        assert [word for word in words if not re.search(rf"^ {{7}}(\S+, )?{word}\b", shown, re.MULTILINE)] == []
        lines = options.listed(parser, {})
        heads = [index for index, line in enumerate(lines) if line == ".TP"]
        assert len(heads) == len(options.shown(parser))
        assert [lines[index + 1] for index in heads if not lines[index + 2][0].isalpha()] == []


def test_the_documents_sections_are_there(folder: Path) -> None:
    for name in SUBCOMMANDS:
        titles = set(part_of(name).sections) - {"TARGETS"}
        page = rendered(folder / "man1" / f"ssllatency-{name}.1")
        assert [title for title in titles if f"\n{title}\n" not in page] == []
    assert {"FIELDS", "OVERHEAD", "CAVEATS"} <= set(part_of("trace").sections)


def test_a_status_of_its_own_is_on_its_page(folder: Path) -> None:
    pages = {name: rendered(folder / "man1" / f"ssllatency-{name}.1") for name in ("diff", "snoop", "trace")}
    statuses = {name: page[page.index("\nEXIT STATUS\n") : page.index("\nSEE ALSO\n")].split() for name, page in pages.items()}
    assert statuses["diff"][-5:] == ["3", "slower", "than", "--fail-over", "allows."]
    assert statuses["trace"][-4:] == ["3", "if", "--fail-if", "holds."]
    assert "3" not in statuses["snoop"]


def test_a_short_commands_page_is_that_of_its_subcommand(folder: Path) -> None:
    assert rendered(folder / "man1" / "sslsnoop.1") == rendered(folder / "man1" / "ssllatency-snoop.1")


def test_markdown_as_roff() -> None:
    writer = Writer(lambda text, href: f"<{text}|{href}>")
    text = "\n".join(writer.blocks(parse(MARKDOWN)))
    assert text + "\n" == ROFF.replace("TAB", "\t")


def test_unknown_markdown_is_not_left_out() -> None:
    with pytest.raises(ValueError, match="blockquote"):
        Writer().blocks(parse("> quoted"))


def test_the_documents_words_stand_for_an_options_help() -> None:
    parser = argparse.ArgumentParser("thing")
    parser.add_argument("--min", metavar="N", help="short")
    parser.add_argument("--max", metavar="N", help="short as well")
    item = Writer().inline(parse("- `--min N`: the long words")[0].children[0].children[0])
    found = options.explained(item)
    assert found == ("--min", "the long words")
    assert options.explained(Writer().inline(parse("`--min N` and `--max N`: both")[0])) is None
    text = "\n".join(options.listed(parser, dict([found])))
    assert "the long words" in text
    assert "Short as well." in text


def test_the_page_of_a_script(tmp_path: Path) -> None:
    file = tmp_path / "man1" / "sslthing.bt.1"
    file.parent.mkdir()
    (tmp_path / "sslthing.bt").write_text(SCRIPT)
    file.write_text(scripts.page_of(tmp_path / "sslthing.bt").write())
    page = rendered(file)
    assert "sslthing.bt - What things are, and why\n" in page
    assert "bpftrace sslthing.bt [PID]\n\n       Ctrl-C ends it.  Without a PID: all.\n" in page
    assert "       Measures from here to there.\n" in page
    assert re.search(r"^ {7}@us\[WHO\]\n {14}microseconds of time$", page, re.MULTILINE)
    assert "           [1, 2)   3 |@@|\n\n       That is: three of them" in page


def test_a_script_without_its_comment_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "sslthing.bt"
    script.write_text("BEGIN { }\n")
    with pytest.raises(ValueError, match=r"sslthing\.bt doesn't begin with a comment"):
        scripts.page_of(script)


def test_the_scripts_of_this_checkout_have_what_a_page_needs() -> None:
    pages = [scripts.page_of(script) for script in bpftrace_scripts()]
    assert [page.name for page in pages if not {"SYNOPSIS", "FIELDS", "CAVEATS", "EXAMPLES"} <= set(page.sections)] == []
