# SPDX-License-Identifier: Apache-2.0
"""The man pages of ssllatency and its subcommands: from the parser, and from what docs/ says under the same name."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from markdown_it.tree import SyntaxTreeNode as Node

from install import options
from install.docs import Part, part_of, purpose
from install.page import Page, reference
from install.roff import Writer, bold, escape, filled, italic, term
from install.scripts import page_of
from install.tools import bpftrace_scripts, short_commands
from ssllatency.cli.command_line import OUTPUTS, SUBCOMMANDS, build_parser, module_of

_ON_OPTIONS = ("TARGETS", "OPTIONS")  # what docs say under these belongs to the options
_SYNOPSIS = re.compile(r"[\[(]-")
_DOCUMENTS = "Documents named here, such as benchmarks.md, are in share/doc/ssllatency/docs below the same prefix as this page."


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each subcommand."""
    subparsers = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(next(subparsers).choices)


def pages() -> list[Page]:
    """The overview, then a page for each subcommand."""
    return [_overview(), *(_page(name, parser) for name, parser in parsers().items())]


def exit_status(parser: argparse.ArgumentParser) -> list[str]:
    """The meaning of each exit status, as help shows it."""
    statuses = (parser.epilog or "").partition(". ")[0]
    rows = re.findall(r"\b(\d) ([^,]+)", statuses)
    return [line for status, words in rows for line in term(bold(status), filled(f"{escape(words)}."))]


def _link(text: str, href: str) -> str:
    stem = Path(href.partition("#")[0]).stem
    return reference(f"ssllatency-{stem}") if stem in SUBCOMMANDS else italic(text)


def _overview() -> Page:
    parser = build_parser()
    return Page(
        "ssllatency",
        (parser.description or "").rstrip("."),
        {
            "SYNOPSIS": options.synopsis(parser),
            "DESCRIPTION": [*Writer(_link).blocks(purpose()), ".PP", *filled(escape(OUTPUTS))],
            "SUBCOMMANDS": _terms({f"ssllatency-{name}": _summary(name) for name in SUBCOMMANDS}),
            "SHORT COMMANDS": _terms({short: f"the same as `ssllatency {name}`" for short, name in short_commands().items()}),
            "BPFTRACE SCRIPTS": _terms({script.name: page_of(script).summary for script in bpftrace_scripts()}),
            "OPTIONS": options.listed(_without_subcommands(parser), {}),
            "EXAMPLES": _shown(parser),
            "EXIT STATUS": exit_status(parser),
            "SEE ALSO": [f"{bold('bpftrace')}(8).", *filled(_DOCUMENTS)],
        },
    )


def _terms(pages: dict[str, str]) -> list[str]:
    """Other pages with their summaries."""
    return [line for name, summary in pages.items() for line in term(reference(name), filled(escape(summary)))]


def _summary(name: str) -> str:
    return str(module_of(name).SUMMARY)


def _without_subcommands(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    for group in parser._action_groups:
        group._group_actions = [action for action in group._group_actions if not isinstance(action, argparse._SubParsersAction)]
    return parser


def _page(name: str, parser: argparse.ArgumentParser) -> Page:
    part, writer = part_of(name), Writer(_link)
    page = Page(f"ssllatency-{name}", _summary(name))
    page.sections = {title: writer.blocks(blocks) for title, blocks in part.sections.items() if title not in _ON_OPTIONS}
    page.sections["SYNOPSIS"] = options.synopsis(parser)
    page.sections["DESCRIPTION"] = _description(parser, part, writer)
    page.sections["OPTIONS"] = _options(parser, part, writer)
    page.sections["EXAMPLES"] = _shown(parser) + _examples(part, writer) + page.sections.get("EXAMPLES", [])
    page.sections["EXIT STATUS"] = exit_status(parser)
    others = ("ssllatency", *(f"ssllatency-{other}" for other in SUBCOMMANDS if other != name))
    page.sections["SEE ALSO"] = filled(",\n".join(map(reference, others)) + f".\n{_DOCUMENTS}")
    return page


def _description(parser: argparse.ArgumentParser, part: Part, writer: Writer) -> list[str]:
    """The description in the docs, which is longer, or else the parser's."""
    blocks = [block for block in part.own if not _is_code(block)]
    return writer.blocks(blocks) or filled(escape(parser.description or ""))


def _shown(parser: argparse.ArgumentParser) -> list[str]:
    """The examples of the parser's help: what each is for, then the command."""
    lines = []
    for command, reason in getattr(parser, "examples", ()):
        lines += [
            ".PP",
            *filled(f"{escape(reason[:1].upper() + reason[1:])}:"),
            ".RS 4",
            ".EX",
            escape(command),
            ".EE",
            ".RE",
        ]
    return lines


def _examples(part: Part, writer: Writer) -> list[str]:
    """The commands that the docs show first, except the one that only shows the options."""
    return writer.blocks(block for block in part.own if _is_code(block) and not _SYNOPSIS.search(block.content))


def _is_code(block: Node) -> bool:
    return block.type in ("code_block", "fence")


def _options(parser: argparse.ArgumentParser, part: Part, writer: Writer) -> list[str]:
    """The parser's options, each explained by the docs where they do; then what else the docs say about options."""
    longer: dict[str, str] = {}
    rest: list[str] = []
    for block in (block for title in _ON_OPTIONS for block in part.sections.get(title, ())):
        items = block.children if block.type == "bullet_list" else []
        for item in items:
            option = options.explained(writer.inline(item.children[0])) if len(item.children) == 1 else None
            if option:
                longer[option[0]] = option[1][:1].upper() + option[1][1:]
            else:
                rest += [".PP", *filled(writer.inline(item.children[0])), *writer.blocks(item.children[1:])]
        if not items:
            rest += writer.blocks([block])
    return options.listed(parser, longer) + ([".SS notes", *rest] if rest else [])
