# SPDX-License-Identifier: Apache-2.0
"""Checks what tracing needs on this machine, and prints the command that installs or enables whatever is missing."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ssllatency.engines import choice, doctor, trial
from ssllatency.output.page import output_page
from ssllatency.output.printing import show
from ssllatency.probes.listing import hit_words
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.marks import FAILURE, FINDING
from ssllatency.tracing import hit_costs
from ssllatency.units import printable

SUMMARY = "check what tracing needs, and print the command that fixes what is missing"
EXAMPLES = (("ssllatency doctor", "what this machine lacks, each with the command that fixes it"),)

_MISSING = "MISSING"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print one sentence, and only if this machine can't trace")


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings; 0 where this machine can trace with the default engine."""
    host = replace(doctor.this_host(), trial=trial.refusal)
    obstacle = doctor.can_trace(host)
    if arguments.quiet:
        if obstacle:
            show(obstacle)
        return int(obstacle is not None)
    page = output_page()
    for finding in doctor.findings(host):
        show("\n".join(finding_lines(finding, page)), colour=page.colour)
    show(f"\n{page.marked(_verdict(host), FAILURE if obstacle else FINDING)}", colour=page.colour)
    if obstacle is None and (costs := hit_costs.of_this_machine()):
        show(f"Nanoseconds a probe hit: {hit_words(costs)}.")
    return int(obstacle is not None)


def finding_lines(finding: doctor.Finding, page: Page) -> list[str]:
    """The findings, each with the command that fixes it; what prevents tracing stands out."""
    word = _word(finding)
    line = f"{word:8} {printable(f'{finding.name}: {finding.detail}')}"
    remedy = [f"{'':8}   to fix it: {printable(finding.remedy)}"] if finding.remedy else []
    return [page.marked(line, FAILURE) if word == _MISSING else line, *remedy]


def _word(finding: doctor.Finding) -> str:
    """Only what the default engine lacks prevents tracing: for other engines it is optional."""
    if finding.ok:
        return "ok"
    return _MISSING if finding.engine in ("", doctor.DEFAULT_ENGINE) else "optional"


def _verdict(host: doctor.Host) -> str:
    able = [name for name in choice.NAMES if name != choice.AUTO and not doctor.lacking(host, name)]
    if doctor.DEFAULT_ENGINE in able:
        return "This machine can trace."
    return f"This machine can trace with {able[0]} only (`ssllatency trace`)." if able else "This machine can't trace yet."
