# SPDX-License-Identifier: Apache-2.0
"""Prints the plan for a target as a self-contained script for a host that has only bpftrace. `sh SCRIPT` runs it: it checks
that the libraries are those that it was made for, traces, and prints histograms, stats and reasons at Ctrl-C."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ssllatency import __version__
from ssllatency.cli import options
from ssllatency.cli.plan_source import PlanSource
from ssllatency.cli.resolve import Resolved, resolve
from ssllatency.engines.base import LinearRange, TracedImage
from ssllatency.engines.bpftrace_standalone import standalone
from ssllatency.engines.images import may_be_one_file
from ssllatency.errors import SsllatencyError
from ssllatency.probes.join import complete

SUMMARY = "the same plan as a bpftrace script for a host that has only bpftrace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="libraries or executables: everyone who maps them")
    options.add_target_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the script to FILE instead of standard output")
    options.add_role_option(parser)
    parser.add_argument("--hist", type=options.linear_range, default=LinearRange(), metavar="MIN:MAX:STEP",
                        help="linear histogram in microseconds (0:1000:200)")  # fmt: skip
    options.add_planning_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    selection = options.files_or_selection(arguments, "script")
    with ExitStack() as stack:
        resolved = _files(arguments) if arguments.files else _processes(resolve(selection, arguments, stack))
        text = standalone(
            resolved.images, _about(resolved), role=arguments.role, linear=arguments.hist, everyone=resolved.everyone
        )
    _write(text, arguments.output)
    return 0


def _files(arguments: argparse.Namespace) -> Resolved:
    source, planned = PlanSource(arguments), []
    for name in dict.fromkeys(map(_lasting, arguments.files)):
        if not Path(name).is_file():
            raise SsllatencyError(f"there is no file {name}.")
        planned.append((source.plan(name, name), (0,)))
    images = tuple(TracedImage(plan, plan.path, ()) for plan in complete(planned))
    return Resolved(images, (), True, (), source)


def _lasting(name: str) -> str:
    """The file's path without links, where it leads to the same file: that below a /proc/PID/root of another mount namespace,
    which is written as seen from there, leads to a file of ours, or to none."""
    with suppress(OSError, RuntimeError):  # the latter for a loop of links
        resolved = Path(name).resolve()
        if resolved.samefile(name):
            return str(resolved)
    return str(Path(name).absolute())


def _processes(resolved: Resolved) -> Resolved:
    """The same with paths that last, where the host has the files at hand."""
    everyone = resolved.everyone and not may_be_one_file(resolved.images)
    return replace(resolved, images=tuple(_at_a_path(image) for image in resolved.images), everyone=everyone)


def _at_a_path(image: TracedImage) -> TracedImage:
    opened, path = Path(image.file).stat(), image.plan.path
    for candidate in (path, *(f"/proc/{pid}/root{path}" for pid in image.pids)):
        try:
            if os.path.samestat(Path(candidate).stat(), opened):
                return replace(image, file=candidate)
        except OSError:
            continue
    raise SsllatencyError(
        f"the file that was mapped as {path} isn't there any more: restart the process, or trace it directly."
    )


def _about(resolved: Resolved) -> list[str]:
    comms = dict.fromkeys(target.comm for target in resolved.targets)
    pids = " ".join(str(target.pid) for target in resolved.targets)
    whom = "every process that maps the files" if resolved.everyone else f"{', '.join(comms)} (PID {pids})"
    made = f"Made by ssllatency {__version__} on {os.uname().nodename}, {datetime.now(UTC).isoformat(timespec='seconds')}."
    ends = [] if resolved.everyone else ["It counts these processes alone: when they have been restarted, make it anew."]
    return [f"Latency of TLS calls in {whom}.", made, *ends]


def _write(text: str, output: str | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        Path(output).write_text(text)
    except OSError as error:
        raise SsllatencyError(f"{output} can't be written: {error.strerror}.") from None
