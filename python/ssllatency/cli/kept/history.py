# SPDX-License-Identifier: Apache-2.0
"""The options that take a recording from Prometheus instead of a file."""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime, timedelta

from ssllatency.cli.options import named, seconds
from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.prometheus.client import TOKEN, Prometheus, Range
from ssllatency.prometheus.history import Wanted, read

_STEPS, _SHORTEST_STEP_S, _MOST_STEPS = 60, 15.0, 2000
_OPTIONS = ("service", "start", "end", "step", "match")


def add_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options; the group, for more of them."""
    group = parser.add_argument_group(
        "from Prometheus",
        "what `ssllatency export` has counted, instead of a file; TIME: a time ago (1h), 03:12, now, or RFC 3339",
    )
    group.add_argument("--prometheus", metavar="URL", help=f"the server; a bearer token is taken from {TOKEN}")
    group.add_argument("--service", metavar="NAME", type=named, help="the service, as the label of that name has it")
    group.add_argument("--from", dest="start", metavar="TIME", type=moment, help="the beginning (1h)")
    group.add_argument("--to", dest="end", metavar="TIME", type=moment, help="the end (now)")
    group.add_argument("--step", metavar="TIME", type=seconds,
                       help="the length of an interval (a sixtieth of the time, 15s at least)")  # fmt: skip
    group.add_argument("--match", metavar="CONDITIONS", type=named, help="more conditions on labels, as 'instance=~\"web.*\"'")
    return group


def moment(text: str, now_s: float | None = None) -> float:
    """A time by the Unix epoch's seconds. A time of day is the last one of the local clock."""
    now_s = time.time() if now_s is None else now_s
    if text == "now":
        return now_s
    now = datetime.fromtimestamp(now_s).astimezone()
    if re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d)?", text, re.ASCII):
        hour, minute, second = map(int, (*text.split(":"), "0")[:3])
        today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (today if today <= now else today - timedelta(days=1)).timestamp()
    try:
        return now_s - seconds(text)
    except argparse.ArgumentTypeError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text} is none of: a time ago (1h), a time of day (03:12), now, RFC 3339") from None


def asked(arguments: argparse.Namespace) -> bool:
    """Whether a recording is to come from Prometheus. SsllatencyError where options for it are given without it."""
    if arguments.prometheus:
        if arguments.service is None:
            raise SsllatencyError("--prometheus needs --service NAME; `ssllatency_targets` lists the services.", 2)
        return True
    if any(getattr(arguments, name) is not None for name in _OPTIONS):
        raise SsllatencyError("--service, --from, --to, --step and --match are for --prometheus URL.", 2)
    return False


def recording(arguments: argparse.Namespace, earlier_s: float = 0) -> Recording:
    """The recording that the options mean, or the one of the same length so much earlier."""
    now_s = time.time()
    end_s = now_s if arguments.end is None else arguments.end
    start_s = end_s - 3600 if arguments.start is None else arguments.start
    step_s = arguments.step or max(_SHORTEST_STEP_S, round((end_s - start_s) / _STEPS))
    if not start_s + step_s <= end_s:
        raise SsllatencyError("--from must be before --to, by a step at least.", 2)
    if (end_s - start_s) / step_s > _MOST_STEPS:
        raise SsllatencyError(f"--step makes more than {_MOST_STEPS} intervals of that time: take longer steps.", 2)
    over = Range(round(start_s - earlier_s, 3), round(end_s - earlier_s, 3), step_s)
    return read(Prometheus(arguments.prometheus), Wanted(arguments.service, arguments.match or ""), over)
