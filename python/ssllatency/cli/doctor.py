# SPDX-License-Identifier: Apache-2.0
"""Says what this machine lacks for tracing, each with the command that mends it."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ssllatency.engines import choice, doctor, trial
from ssllatency.output.printing import show
from ssllatency.probes.listing import hit_words
from ssllatency.tracing import hit_costs

SUMMARY = "what this machine lacks, each with the command that mends it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("-q", "--quiet", action="store_true", help="only what makes tracing impossible, in one sentence")


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings; 0 where this machine can trace with the default engine."""
    here = replace(doctor.this_host(), trial=trial.refusal)
    obstacle = doctor.can_trace(here)
    if arguments.quiet:
        if obstacle:
            show(obstacle)
        return int(obstacle is not None)
    for finding in doctor.findings(here):
        show(f"{_word(finding):8} {finding.name}: {finding.detail}")
        if finding.remedy:
            show(f"{'':8}   mend it with: {finding.remedy}")
    show(f"\n{_verdict(here)}")
    if obstacle is None and (costs := hit_costs.of_this_machine()):
        show(f"Nanoseconds a probe hit: {hit_words(costs)}.")
    return int(obstacle is not None)


def _word(finding: doctor.Finding) -> str:
    """What an engine other than the default one lacks doesn't prevent tracing."""
    if finding.ok:
        return "ok"
    return "MISSING" if finding.engine in ("", doctor.DEFAULT_ENGINE) else "optional"


def _verdict(here: doctor.Host) -> str:
    able = [name for name in choice.NAMES if name != choice.AUTO and not doctor.lacking(here, name)]
    if doctor.DEFAULT_ENGINE in able:
        return "This machine can trace."
    return f"This machine can trace with {able[0]} only (`ssllatency trace`)." if able else "This machine can't trace yet."
