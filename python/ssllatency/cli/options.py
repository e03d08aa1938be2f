# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from ssllatency.engines import choice
from ssllatency.engines.base import MOST_NAMES, LinearRange, Side
from ssllatency.errors import SsllatencyError
from ssllatency.targets import OPTIONS, Selection
from ssllatency.units import duration_of

if TYPE_CHECKING:
    from ssllatency.model.handshakes import Label, PeerPrefix
    from ssllatency.watch.condition import Condition

E = TypeVar("E", bound=StrEnum)

EMPTY_PID = "most likely there is no PID file, as the server doesn't run or keeps it elsewhere, or pgrep found nothing"
EXPERT = "expert options"


def seconds(text: str) -> float:
    """A time above zero in seconds: 10, 0.5, 10s, 500ms, 5m, 1m30s, 1h."""
    is_plain = re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?|\.\d{1,9}", text, re.ASCII)
    value = float(text) if is_plain else (duration_of(text) or 0) / 1e9
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} isn't a number of seconds above 0, nor a time like 500ms, 10s, 5m or 1h")
    return value


def process_ids(text: str) -> list[int]:
    """PIDs, separated by commas or white space, as pgrep prints them."""
    words = re.split(r"[\s,]+", text.strip())
    if words == [""]:
        raise argparse.ArgumentTypeError(f"it is empty: {EMPTY_PID}")
    for word in words:
        if not (word.isascii() and word.isdecimal()) or not 0 < int(word) < 1 << 22:
            hint = f": --comm {word} names processes" if re.fullmatch(r"[A-Za-z][\w.-]{0,14}", word, re.ASCII) else ""
            raise argparse.ArgumentTypeError(f"{word} isn't a PID{hint}")
    return list(map(int, words))


def ports(text: str) -> list[int]:
    """Ports, separated by commas."""
    words = [word.strip() for word in named(text).split(",")]
    for word in words:
        if not (word.isascii() and word.isdecimal()) or not 0 < int(word) < 1 << 16:
            raise argparse.ArgumentTypeError(f"{word} isn't a port (1 to 65535)")
    return list(map(int, words))


def named(text: str) -> str:
    """A name that isn't empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: what should have given the name printed nothing")
    return text


def count(text: str) -> int:
    """A whole number above zero."""
    if not text.isdecimal() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text} isn't a whole number from 1 to 4096")
    return int(text)


def whole(text: str) -> int:
    """A whole number above zero."""
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 10**12:
        raise argparse.ArgumentTypeError(f"{text} isn't a whole number above 0")
    return int(text)


def duration_ns(text: str) -> int:
    """A duration with its unit, in nanoseconds."""
    value = duration_of(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"{text} isn't a duration like 200us, 1.5ms, 2s or 1m")
    return value


def linear_range(text: str) -> LinearRange:
    """MIN:MAX:STEP in microseconds."""
    parts = text.split(":")
    if len(parts) == 3 and all(part.isdecimal() for part in parts):
        minimum, maximum, step = map(int, parts)
        if minimum < maximum <= 10**9 and maximum - minimum <= 64 * step:
            try:
                return LinearRange(minimum, maximum, step)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None
    raise argparse.ArgumentTypeError(f"{text} isn't MIN:MAX:STEP in microseconds with at most 64 steps, like 0:1000:200")


def expert(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The group of the options that hardly anybody needs; help shows it last."""
    made = (group for group in parser._action_groups if group.title == EXPERT)
    return next(made, None) or parser.add_argument_group(EXPERT)


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """The options that name the targets."""
    group = parser.add_argument_group("targets (any combination of these)")
    group.add_argument(
        "-p",
        "--pid",
        type=process_ids,
        action="extend",
        default=[],
        metavar="PID,…",
        help="these processes, their children, and all that they start",
    )
    group.add_argument(
        "--port",
        type=ports,
        action="extend",
        default=[],
        metavar="PORT,…",
        help="every process that listens on this port, by TCP or, as for QUIC, by UDP, now or later, and its children",
    )
    group.add_argument("--unit", type=named, metavar="NAME", help="every process of this unit of systemd, now or later")
    group.add_argument(
        "--comm",
        type=named,
        action="append",
        default=[],
        metavar="NAME",
        help="every process of this name, those started later too",
    )
    group.add_argument("--cgroup", type=named, metavar="PATH", help="every process in this cgroup or below it, now or later")
    group.add_argument(
        "--library",
        type=named,
        action="append",
        default=[],
        metavar="FILE",
        help="every process that maps this file, now or later",
    )
    group.add_argument("--container", type=named, metavar="ID",
                       help="every process in this container, named by its ID, a prefix of the ID, or its name")  # fmt: skip
    group.add_argument("--pod", type=named, metavar="NAME",
                       help="every process in this Kubernetes pod, named by its name, NAMESPACE/NAME or UID")  # fmt: skip
    group.add_argument("--all", action="store_true", help="every process on this machine")


def add_attaching_options(parser: argparse.ArgumentParser) -> None:
    """The options for attaching: how, where probes are allowed, and whether to wait for a target."""
    group = parser.add_argument_group("attaching")
    group.add_argument(
        "--wait",
        action="store_true",
        help="start before any process has loaded a TLS library; -d counts from the first that does",
    )
    expert(parser).add_argument("--attach", choices=("auto", "perf", "multi", "session"), default="auto",
                                help="how to attach probes (auto: the newest way that the kernel supports)")  # fmt: skip
    group.add_argument("--links", choices=("auto", "process", "shared"), default="auto",
                       help="shared: one link for all processes; process: one for each, which costs other processes nothing "
                            "but may miss a forked child's first calls")  # fmt: skip
    add_planning_options(parser)


DEFAULT_BUDGET = 0.05


def add_budget_options(parser: argparse.ArgumentParser, default: float = DEFAULT_BUDGET) -> None:
    """The options that bound what tracing may cost, and that lift the bound; `default`: the part that it may take."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--budget", type=budget, default=default, metavar="PERCENT",
                       help="the part of its own CPU time that tracing may cost a process, at most 3%% where it isn't traced: "
                            "functions and phases that would cost more are watched in windows, and estimated; whole handshakes "
                            f"are all counted, whatever that costs ({100 * default:g}%%)")  # fmt: skip
    group.add_argument("--exact", dest="budget", action="store_const", const=None,
                       help="watch everything all the time, whatever that costs the server and others")  # fmt: skip


def condition(text: str) -> Condition:
    """A condition about handshakes and functions."""
    from ssllatency.watch import grammar, metrics

    return grammar.parse(text, metrics.handshake_subjects() | metrics.function_subjects())


def add_fail_option(parser: argparse.ArgumentParser, subjects: str) -> None:
    """The option for a condition that decides about the exit status; `subjects`: "handshake" or "function"."""

    def of_run(text: str) -> Condition:
        from ssllatency.watch import grammar, metrics

        known = metrics.handshake_subjects() if subjects == "handshake" else metrics.function_subjects()
        return grammar.parse(text, known, over=False)

    example = {"handshake": "handshake p99 > 50ms", "function": "SSL_do_handshake p99 > 5ms"}[subjects]
    parser.add_argument("--fail-if", type=of_run, metavar="CONDITION",
                        help=f"end with status 3 if this holds of the whole run: '{example}'")  # fmt: skip


FAIL_STATUS = ", 3 if --fail-if holds"


def budget(text: str) -> float:
    """A percentage above 0 and below 100, with its sign or without, as a fraction."""
    match = re.fullmatch(r"(\d{1,2}(?:\.\d{1,6})?)\s?%?", text, re.ASCII)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text} isn't a percentage like 2%")
    return float(match[1]) / 100


def add_planning_options(parser: argparse.ArgumentParser) -> None:
    """The options for where probes are allowed."""
    group = expert(parser)
    group.add_argument("--no-return-probes", action="store_true", help="leave a function out rather than use a return probe")
    group.add_argument("--no-cache", action="store_true", help="make new plans instead of using those in the cache")


def add_engine_option(parser: argparse.ArgumentParser) -> None:
    """The option for the engine."""
    expert(parser).add_argument(
        "--engine",
        choices=choice.NAMES,
        default=choice.AUTO,
        help="the engine that attaches the probes (auto: the first that works)",
    )


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """The options for the duration, the interval and the format of reports."""
    parser.add_argument("-d", "--duration", type=seconds, metavar="TIME", help="stop after this time: 10 (seconds), 30s, 5m")
    parser.add_argument("-i", "--interval", type=seconds, metavar="TIME", help="print a report for each interval")
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency/1; with -i one document per line")
    add_verbose_option(parser)


def add_verbose_option(parser: argparse.ArgumentParser) -> None:
    """The option for all that is known of what tracing has cost."""
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="report in full what tracing has cost, and which processes paid")  # fmt: skip


def add_role_option(parser: argparse._ActionsContainer) -> None:
    """The option for the side of connections that counts."""
    parser.add_argument(
        "--role",
        type=member_of(Side),
        choices=list(map(str, Side)),
        default=Side.SERVER,
        help="which side of connections to count (server)",
    )


def member_of(names: type[E]) -> Callable[[str], E | str]:
    """Turns text into the member of that name; what is none is left to argparse, which names the choices."""
    return lambda text: names(text) if text in list(names) else text


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    """The options for how handshakes are grouped, split and limited. Handshakes are printed one by one only with --over,
    which is `handshakes` alone's."""
    from ssllatency.model.handshakes import Label  # not before it is needed: other commands have no handshakes

    parser.set_defaults(over=None)
    parser.add_argument("--by", type=labels, default=(), metavar="LABEL,…",
                        help=f"one row for each combination of these labels: {', '.join(Label)}")  # fmt: skip
    parser.add_argument(
        "--slowest", type=count, default=0, metavar="N", help="list the N slowest handshakes, each with its phases and waits"
    )
    parser.add_argument("--off-cpu", action="store_true", help=argparse.SUPPRESS)  # older versions asked
    add_role_option(parser)
    group = expert(parser)
    group.add_argument("--max-groups", type=count, default=64, metavar="N",
                       help='at most N rows for --by, 141 KiB of kernel memory each; the rest are counted '
                            'under "other" (64)')  # fmt: skip
    add_peer_prefix_option(parser)
    group.add_argument("--max-in-flight", type=room, default=131072, metavar="N",
                       help="keep up to N handshakes in flight for a process, 750 bytes each; beyond that the oldest are "
                            "dropped (131072)")  # fmt: skip


def add_peer_prefix_option(parser: argparse.ArgumentParser) -> None:
    """The option for what of an address tells a peer's network."""
    from ssllatency.model.handshakes import PeerPrefix

    expert(parser).add_argument("--peer-prefix", type=peer_prefix, default=PeerPrefix(), metavar="IPV4,IPV6",
                        help="prefix lengths that make a peer's network for --by peer; no other address bits are kept "
                             "(24,56)")  # fmt: skip


def labels(text: str) -> tuple[Label, ...]:
    """Labels by name, separated by commas."""
    from ssllatency.model.handshakes import Label

    try:
        return tuple(dict.fromkeys(Label(word.strip().replace("-", "_")) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} isn't a list of {', '.join(Label)}") from None


def peer_prefix(text: str) -> PeerPrefix:
    """The lengths of the networks' prefixes, of IPv4 and of IPv6."""
    from ssllatency.model.handshakes import PeerPrefix

    match = re.fullmatch(r"/?(\d{1,2}),/?(\d{1,3})", text, re.ASCII)
    if not match or not (0 < int(match[1]) <= 32 and 0 < int(match[2]) <= 128):
        raise argparse.ArgumentTypeError(f"{text} isn't two lengths of prefixes, of IPv4 and of IPv6, like 24,56")
    return PeerPrefix(int(match[1]), int(match[2]))


def who(text: str) -> tuple[Label, ...]:
    """The labels of this list, which may be any of those that tell who shook hands."""
    from ssllatency.model.handshakes import WHO

    chosen = labels(text)
    if not set(chosen) <= set(WHO):
        raise argparse.ArgumentTypeError(f"{text} isn't a list of {', '.join(WHO)}")
    return chosen


def room(text: str) -> int:
    """The option for the number of handshakes that are kept while in flight."""
    number = whole(text)
    if number > 1 << 24:
        raise argparse.ArgumentTypeError("at most 16777216 handshakes can be kept")
    return number


def selection(arguments: argparse.Namespace) -> Selection:
    """The target options as a selection. SsllatencyError for more names than can be followed."""
    comms = tuple(dict.fromkeys(arguments.comm))
    if len(comms) > MOST_NAMES:
        raise SsllatencyError(f"--comm can be given {MOST_NAMES} times at most.", 2)
    if arguments.unit is not None and arguments.cgroup is not None:
        raise SsllatencyError("--unit names a cgroup as --cgroup does: give one of them.", 2)
    return Selection(
        pids=tuple(arguments.pid),
        comms=comms,
        libraries=tuple(dict.fromkeys(arguments.library)),
        everything=arguments.all,
        container=arguments.container,
        cgroup=arguments.cgroup,
        unit=arguments.unit,
        ports=tuple(dict.fromkeys(arguments.port)),
        pod=arguments.pod,
    )


def files_or_selection(arguments: argparse.Namespace, command: str) -> Selection:
    """The target options as a selection, of a command that also takes files: targets or files must be named."""
    chosen = selection(arguments)
    if bool(arguments.files) == (chosen != Selection()):
        raise SsllatencyError(f"name either files or targets ({OPTIONS}): `ssllatency {command} --help`.", 2)
    return chosen
