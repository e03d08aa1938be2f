# SPDX-License-Identifier: Apache-2.0
"""Compares two recorded measurements: what changed beyond noise of the handshakes' time and failures, whom it affects, whose
time it is and of which part, and how each function changed."""

from __future__ import annotations

import argparse
import re

from ssllatency.cli.kept import history
from ssllatency.cli.options import seconds
from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.model.statistics.compare import compare
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.output import html, recordings
from ssllatency.output.page import output_page
from ssllatency.output.printing import show, tell
from ssllatency.reports.documents import diff as diff_document
from ssllatency.reports.rows.compared import change_words
from ssllatency.reports.text import diff as diff_text
from ssllatency.reports.text.diff_rows import subject_words

SUMMARY = "compare two recorded measurements: what changed, for whom, and which part accounts for it"
EXAMPLES = (
    ("ssllatency diff before.jsonl after.jsonl", "what changed, and whether it is more than noise"),
    ("ssllatency diff before.jsonl after.jsonl --html page.html", "the same as a page"),
    ("ssllatency diff before.jsonl after.jsonl --fail-over 10%", "for CI: exit status 3 where something got 10 % slower"),
)
STATUS = ", 3 slower than --fail-over allows"
_WORSE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    measurement = "a recording, or documents of schema ssllatency/1"
    parser.add_argument("before", metavar="BEFORE", nargs="?", help=f"{measurement}, - for standard input")
    parser.add_argument("after", metavar="AFTER", nargs="?", help=measurement)
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--json", action="store_true", help="print JSON, schema ssllatency-diff/1")
    html.add_option(outputs)
    parser.add_argument("--all-rows", action="store_true", help="show every part and function, also those that are noise")
    parser.add_argument("--fail-over", type=percentage, metavar="PERCENT",
                        help="exit with 3 if handshakes or a function got slower by more than this, beyond noise")  # fmt: skip
    history.add_options(parser).add_argument(
        "--against", metavar="TIME", type=seconds, help="compare with a period of the same length this much earlier, such as 7d"
    )


def percentage(text: str) -> float:
    """A percentage, with its sign or without, as a fraction."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s?%?", text, re.ASCII)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} isn't a percentage like 10%")
    return float(match[1]) / 100


def run(arguments: argparse.Namespace) -> int:
    """Prints the comparison."""
    before, after = _measurements(arguments)
    comparison = compare(before, after)
    if arguments.html:
        html.write(arguments.html, after, before, comparison)
    elif arguments.json:
        show(diff_document.to_json(before, after, comparison))
    else:
        page = output_page()
        show(diff_text.render(before, after, comparison, page, arguments.all_rows), end="", colour=page.colour)
    return 0 if arguments.fail_over is None else _judged(comparison, arguments.fail_over)


def _measurements(arguments: argparse.Namespace) -> tuple[Recording, Recording]:
    files = [name for name in (arguments.before, arguments.after) if name is not None]
    if history.asked(arguments):
        if files or arguments.against is None:
            raise SsllatencyError("--prometheus compares with an earlier time: --against TIME, and no files.", 2)
        return history.recording(arguments, arguments.against), history.recording(arguments)
    if arguments.against is not None or len(files) != 2:
        raise SsllatencyError("name two measurements: BEFORE and AFTER, or --prometheus URL --service NAME --against TIME.", 2)
    return recordings.read(files[0]), recordings.read(files[1])


def _judged(comparison: Comparison, threshold: float) -> int:
    """The exit status; says the reason for it on standard error."""
    worse = comparison.worse(threshold)
    for row, quantity in worse:
        subject, words = subject_words(row.subject), change_words(quantity, row.changes[quantity])
        tell(f"{subject}: {quantity} {words}, more than {100 * threshold:g} %.")
    return _WORSE if worse else 0
