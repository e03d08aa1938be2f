# SPDX-License-Identifier: Apache-2.0
"""Shows what would be probed in a file, or in the files that a process maps: each operation, how its function was found, the
sites with their instructions and costs, and what is missing and why. Attaches nothing; needs no root for a file."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path

from ssllatency.cli import options
from ssllatency.engines.attach.links import links_each_process
from ssllatency.engines.base import Request
from ssllatency.engines.bpf import kernel
from ssllatency.errors import SsllatencyError
from ssllatency.host.kernel import release
from ssllatency.output.page import output_page
from ssllatency.output.printing import show, tell
from ssllatency.probes import listing
from ssllatency.probes.cache.parts import HANDSHAKE, PLAN
from ssllatency.probes.costs import REFERENCE, HitCosts
from ssllatency.probes.handshake import listing as handshake_listing
from ssllatency.probes.plan import FilePlan
from ssllatency.reports.text.page import Page
from ssllatency.reports.words.marks import FAILURE
from ssllatency.stacks.registry import LIBRARIES
from ssllatency.targets import Selection, all_processes
from ssllatency.tracing import hit_costs
from ssllatency.tracing.file_facts import why_not_traced
from ssllatency.tracing.follow import childless, rules_for
from ssllatency.tracing.links.others import maps_any
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.tracing.resolve import Resolved, resolve
from ssllatency.units import counted, printable

SUMMARY = "list what would be probed, how it was found, what each site costs, and what is missing"
EXAMPLES = (
    ("ssllatency probes -p 812", "what would be probed in this process, and what each hit costs"),
    ("ssllatency probes /usr/lib/x86_64-linux-gnu/libcrypto.so.3", "the same of a file, without root"),
)
_OF_HANDSHAKES = (*(library.name for library in LIBRARIES.values() if library.called or library.lower), "static")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="libraries or executables")
    options.add_target_options(parser)
    options.add_planning_options(parser)
    parser.add_argument("--handshakes", action="store_true", help="list the sites that split handshakes into phases instead")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the plans."""
    selection = options.files_or_selection(arguments, "probes")
    return _handshakes(arguments, selection) if arguments.handshakes else _operations(arguments, selection)


def _operations(arguments: argparse.Namespace, selection: Selection) -> int:
    links = ""
    with ExitStack() as stack:
        if arguments.files:
            plans = [_plan(PlanSource(arguments), name) for name in arguments.files]
        else:
            resolved = _resolved(selection, arguments, stack)
            plans = [image.plan for image in resolved.images]
            links = _links(resolved)
    sessions = release() >= (6, 13, 0)  # by version, as asking the kernel needs privileges
    costs = _hit_costs(arguments)
    if arguments.json:
        show(json.dumps(listing.to_document(plans, sessions=sessions, costs=costs)))
    else:
        _print(listing.render(plans, sessions=sessions, costs=costs, most=output_page().most).rstrip("\n") + links)
    return 0


def _hit_costs(arguments: argparse.Namespace) -> HitCosts:
    return hit_costs.of_this_machine(keep=not arguments.no_cache) or REFERENCE


def _resolved(selection: Selection, arguments: argparse.Namespace, stack: ExitStack, *, handshakes: bool = False) -> Resolved:
    """The files that would be traced. Says which would not be, or couldn't be read."""
    resolved = resolve(selection, arguments, stack, handshakes=handshakes)
    for sentence in (*resolved.warnings, *resolved.notes):
        tell(sentence)
    return resolved


def _print(text: str) -> None:
    page = output_page()
    show(laid_out(text, page), colour=page.colour)


def laid_out(text: str, page: Page) -> str:
    """The listing in lines that fit; what isn't probed stands out."""
    lines, missing = [], False
    for line in map(printable, text.split("\n")):
        missing = line in listing.ABSENT or (missing and bool(line))
        parts = [line] if page.has_room([line]) else page.wrapped(line)
        lines += [page.marked(part, FAILURE) if missing else part for part in parts]
    return "\n".join(lines)


def _handshakes(arguments: argparse.Namespace, selection: Selection) -> int:
    with ExitStack() as stack:
        if arguments.files:
            source = PlanSource(arguments, ahead=(PLAN, HANDSHAKE))
            plans = [_handshake_plan(source, name) for name in arguments.files]
        else:
            resolved = _resolved(selection, arguments, stack, handshakes=True)
            plans = [image.plan for image in resolved.images if image.plan.kind in _OF_HANDSHAKES]
    costs = _hit_costs(arguments)
    if arguments.json:
        show(json.dumps(handshake_listing.to_document(plans, costs)))
    else:
        _print(handshake_listing.render(plans, costs, output_page().most).rstrip("\n"))
    return 0


def _handshake_plan(source: PlanSource, name: str) -> FilePlan:
    plan = source.plan(_existing(name), name)
    if plan.kind not in _OF_HANDSHAKES:
        raise SsllatencyError(f"{name} is neither libssl nor libcrypto, and contains neither.")
    return plan


def _links(resolved: Resolved) -> str:
    """Return how the probes of these processes would be attached, and which other processes would pay for them."""
    rules, alone = rules_for(resolved.selection), childless(resolved.selection)
    request = Request(resolved.images, resolved.targets, resolved.everyone, follow=rules, childless=alone)
    # By version, as asking the kernel needs privileges.
    method = kernel.Method.MULTI if release() >= (6, 6, 0) else kernel.Method.PERF
    if links_each_process(request, method):
        return f"\n\nAttached by links of their own for {_processes(resolved)}: no other process pays."
    if resolved.everyone:
        return "\n\nAttached by one link for every process that maps the files."
    return (
        f"\n\nAttached by one link; a filter in the program picks {_processes(resolved)} and all that they start. "
        f"{_others(resolved)}"
    )


def _processes(resolved: Resolved) -> str:
    return counted(len(resolved.targets), "process")


def _others(resolved: Resolved) -> str:
    """The other processes that map the files."""
    pids = {target.pid for target in resolved.targets}
    wanted = {file.identity for file in resolved.files}
    others = [process for process in all_processes() if process.pid not in pids and maps_any(process.pid, wanted)]
    if not others:
        return "No other process maps these files now."
    names = sorted({printable(process.comm) for process in others})
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return (
        f"{counted(len(others), 'other process')} ({shown}) mapping the same files would pay for the breakpoints: "
        "with --links process they pay nothing, but the first calls of new children are missed."
    )


def _existing(name: str) -> str:
    if not Path(name).exists():
        raise SsllatencyError(f"there is no file {name}.")
    return name


def _plan(source: PlanSource, name: str) -> FilePlan:
    plan = source.plan(_existing(name), name)
    if not plan.kind:
        raise SsllatencyError(why_not_traced(name))
    return plan
