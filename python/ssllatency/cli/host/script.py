# SPDX-License-Identifier: Apache-2.0
"""Prints the plan for a target as a self-contained script for a host that has only bpftrace. `sh SCRIPT` runs it: it checks
that the libraries are the ones that it was made for, traces, and prints histograms, stats and reasons at Ctrl-C."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ssllatency import __version__
from ssllatency.cli import options
from ssllatency.engines.attach.images import may_be_one_file
from ssllatency.engines.base import LinearRange, TracedImage
from ssllatency.engines.bpftrace.standalone import standalone
from ssllatency.errors import SsllatencyError
from ssllatency.output import files as output_files
from ssllatency.output.printing import show
from ssllatency.probes.join import complete
from ssllatency.safe_open import open_regular, stat_below
from ssllatency.targets import root_of
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.tracing.resolve import Resolved, resolve

SUMMARY = "print the probes as a bpftrace script, for a host that has only bpftrace"
EXAMPLES = (("ssllatency script -p 812 -o x.bt", "then, on a host that has only bpftrace: sh x.bt"),)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="libraries or executables; every process that maps them is traced"
    )
    options.add_target_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the script to FILE instead of standard output")
    options.add_role_option(parser)
    parser.add_argument("--hist", type=options.linear_range, default=LinearRange(), metavar="MIN:MAX:STEP",
                        help="range and step of the linear histogram in microseconds (0:1000:200)")  # fmt: skip
    options.add_planning_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    selection = options.files_or_selection(arguments, "script")
    with ExitStack() as stack:
        resolved = _files(arguments, stack) if arguments.files else resolve(selection, arguments, stack)
        contents = [_content(image.file) for image in resolved.images]
        resolved = _at_lasting_paths(resolved)
        text = standalone(
            resolved.images,
            contents,
            _about(resolved),
            role=arguments.role,
            linear=arguments.hist,
            everyone=resolved.everyone,
        )
    _write(text, arguments.output)
    return 0


def _files(arguments: argparse.Namespace, stack: ExitStack) -> Resolved:
    """The named files, each opened once, so that the same file is planned and hashed even if its path changes meanwhile."""
    source = PlanSource(arguments)
    opened: dict[str, str] = {}
    for name in arguments.files:
        try:
            fd = open_regular(name)
        except (OSError, ValueError):
            raise SsllatencyError(f"there is no file {name}.") from None
        stack.callback(os.close, fd)
        opened.setdefault(_lasting(name, fd), f"/proc/self/fd/{fd}")
    plans = complete([(source.plan(fd, name), (0,)) for name, fd in opened.items()])
    images = tuple(TracedImage(plan, fd, ()) for plan, fd in zip(plans, opened.values(), strict=True))
    return Resolved(images, (), True, (), source)


def _lasting(name: str, fd: int) -> str:
    """The path without links of the file that was opened as `name`, if it leads to that file. It doesn't for a path below
    /proc/PID/root of another mount namespace: that is written as seen from there."""
    with suppress(OSError, RuntimeError):  # the latter for a loop of links
        resolved = Path(name).resolve()
        if os.path.samestat(resolved.stat(), os.fstat(fd)):
            return str(resolved)
    return str(Path(name).absolute())


def _content(path: str) -> bytes:
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def _at_lasting_paths(resolved: Resolved) -> Resolved:
    """The images with paths that outlive the processes, where the host has the files."""
    everyone = resolved.everyone and (not resolved.files or not may_be_one_file(resolved.images))
    return replace(resolved, images=tuple(_at_a_path(image) for image in resolved.images), everyone=everyone)


def _at_a_path(image: TracedImage) -> TracedImage:
    opened, path = Path(image.file).stat(), image.plan.path
    for root in ("/", *map(root_of, image.pids)):
        with suppress(OSError):
            if os.path.samestat(stat_below(root, path, links=False), opened):
                return replace(image, file=path if root == "/" else f"{root}{path}")
    if not image.pids:  # named by the user, who may name it by way of links
        return replace(image, file=path)
    raise SsllatencyError(
        f"the file that was mapped as {path} isn't there any more: restart the process, or trace it directly."
    )


def _about(resolved: Resolved) -> list[str]:
    comms = dict.fromkeys(target.comm for target in resolved.targets)
    pids = " ".join(str(target.pid) for target in resolved.targets)
    whom = "every process that maps the files" if resolved.everyone else f"{', '.join(comms)} (PID {pids})"
    origin = f"Made by ssllatency {__version__} on {os.uname().nodename}, {datetime.now(UTC).isoformat(timespec='seconds')}."
    ends = [] if resolved.everyone else ["It counts only these processes: make a new one when they have been restarted."]
    return [f"Latency of TLS calls in {whom}.", origin, *ends]


def _write(text: str, output: str | None) -> None:
    if output is None:
        show(text, end="")
        return
    output_files.write(output, text)
