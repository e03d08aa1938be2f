# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands share, and how their values are read."""

from __future__ import annotations

import argparse
import re

from ssllatency.engines import choice
from ssllatency.engines.base import MOST_NAMES, LinearRange, Role
from ssllatency.errors import SsllatencyError
from ssllatency.model.handshakes import Label
from ssllatency.targets import Selection

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A time above zero in seconds: 10, 0.5, 10s, 500ms, 5m, 1h."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?|\.\d{1,9})(ms|s|m|h|)", text, re.ASCII)
    value = float(found[1]) * _UNITS_S[found[2]] if found else 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} isn't a number of seconds above 0, nor a time like 500ms, 10s, 5m or 1h")
    return value


def process_ids(text: str) -> list[int]:
    """PIDs, separated by commas or white space, as pgrep prints them."""
    words = re.split(r"[\s,]+", text.strip())
    if words == [""]:
        raise argparse.ArgumentTypeError("it is empty: is the server running, and its PID file where you look for it?")
    for word in words:
        if not (word.isascii() and word.isdecimal()) or not 0 < int(word) < 1 << 22:
            hint = f": --comm {word} names processes" if re.fullmatch(r"[A-Za-z][\w.-]{0,14}", word, re.ASCII) else ""
            raise argparse.ArgumentTypeError(f"{word} isn't a PID{hint}")
    return list(map(int, words))


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
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)(ns|us|ms|s)", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} isn't a duration like 200us, 1.5ms or 2s")
    return round(float(found[1]) * _UNITS_NS[found[2]])


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


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """The options that name the targets."""
    group = parser.add_argument_group("targets (several add up)")
    group.add_argument(
        "-p",
        "--pid",
        type=process_ids,
        action="extend",
        default=[],
        metavar="PID,…",
        help="processes and their children, now or later",
    )
    group.add_argument("--comm", action="append", default=[], metavar="NAME", help="all processes of this name, now or later")
    group.add_argument("--cgroup", metavar="PATH", help="all processes of this cgroup and of those below it, now or later")
    group.add_argument(
        "--library", action="append", default=[], metavar="FILE", help="everyone who maps this file, now or later"
    )
    group.add_argument(
        "--container", metavar="ID", help="all processes in this container: its ID, the beginning of it, or its name"
    )
    group.add_argument("--all", action="store_true", help="every process of this machine")


def add_attaching_options(parser: argparse.ArgumentParser) -> None:
    """The options for attaching: how, where probes are allowed, and whether to wait for a target."""
    group = parser.add_argument_group("attaching")
    group.add_argument(
        "--wait",
        action="store_true",
        help="begin though no process or TLS library is there yet; -d counts from the first arrival",
    )
    group.add_argument("--attach", choices=("auto", "perf", "multi", "session"), default="auto",
                       help="how probes are attached (auto: the newest way that the kernel has)")  # fmt: skip
    group.add_argument("--links", choices=("auto", "process", "shared"), default="auto",
                       help="process: a link a process: costs others nothing, misses first calls of children")  # fmt: skip
    add_planning_options(parser)


def add_planning_options(parser: argparse.ArgumentParser) -> None:
    """The options for where probes are allowed."""
    group = parser.add_argument_group("probe sites")
    group.add_argument("--no-return-probes", action="store_true", help="leave a function out rather than use a return probe")
    group.add_argument("--no-cache", action="store_true", help="plan anew instead of taking a plan from the cache")


def add_engine_option(parser: argparse.ArgumentParser) -> None:
    """The options for the way of attaching."""
    parser.add_argument(
        "--engine", choices=choice.NAMES, default=choice.AUTO, help="what probes are attached by (auto: the first that works)"
    )


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """The options for the duration, the interval and the format of reports."""
    parser.add_argument("-d", "--duration", type=seconds, metavar="TIME", help="stop after so long: 10, 30s, 5m")
    parser.add_argument("-i", "--interval", type=seconds, metavar="TIME", help="a report of each interval")
    parser.add_argument("--json", action="store_true", help="print JSON, schema ssllatency/1; with -i one document a line")


def add_role_option(parser: argparse._ActionsContainer) -> None:
    """The option for the side of connections that counts."""
    parser.add_argument("--role", type=Role, choices=list(Role), default=Role.SERVER, help="which SSL objects count (server)")


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    """The options for what is measured of handshakes and how much of it is kept; single handshakes are printed only with
    --over."""
    parser.set_defaults(over=None)
    parser.add_argument("--by", type=labels, default=(), metavar="LABEL,…",
                        help=f"a row for each combination of these: {', '.join(Label)}")  # fmt: skip
    parser.add_argument("--slowest", type=count, default=0, metavar="N", help="the N slowest one by one, with their splits")
    parser.add_argument("--off-cpu", action="store_true", help="split the time in calls into on and off the processor")
    add_role_option(parser)
    parser.add_argument("--max-groups", type=count, default=64, metavar="N",
                        help='how many rows --by makes, the others count under "other" (64)')  # fmt: skip
    parser.add_argument("--max-in-flight", type=room, default=131072, metavar="N",
                        help="room for so many of a process, 360 bytes each; beyond, the oldest drop (131072)")  # fmt: skip


def labels(text: str) -> tuple[Label, ...]:
    """Labels by name, separated by commas."""
    try:
        return tuple(dict.fromkeys(Label(word.strip().replace("-", "_")) for word in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} isn't a list of {', '.join(Label)}") from None


def room(text: str) -> int:
    """The option for the number of handshakes that can be in flight."""
    number = whole(text)
    if number > 1 << 24:
        raise argparse.ArgumentTypeError("there can be room for at most 16777216 handshakes")
    return number


def selection(arguments: argparse.Namespace) -> Selection:
    """The target options as a selection. SsllatencyError for more names than can be followed."""
    comms = tuple(dict.fromkeys(arguments.comm))
    if len(comms) > MOST_NAMES:
        raise SsllatencyError(f"--comm can be given {MOST_NAMES} times at most.", 2)
    libraries = tuple(dict.fromkeys(arguments.library))
    return Selection(tuple(arguments.pid), comms, libraries, arguments.all, arguments.container, arguments.cgroup)


def files_or_selection(arguments: argparse.Namespace, command: str) -> Selection:
    """The same for a command that also takes files: targets or files must be named."""
    found = selection(arguments)
    if bool(arguments.files) == (found != Selection()):
        targets = "-p, --comm, --cgroup, --container, --library, --all"
        raise SsllatencyError(f"name either files or targets ({targets}): `ssllatency {command} --help`.", 2)
    return found
