# SPDX-License-Identifier: Apache-2.0
"""Chooses the engine: the one that is asked for, or the first whose requirements this machine meets."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ssllatency.data_class import dataclass
from ssllatency.engines.source import Engine
from ssllatency.errors import SsllatencyError

AUTO = "auto"
# Best first: module and class, imported when chosen, as each needs a library of its own.
_ENGINES = {
    "libbpf": ("sessions.libbpf_engine", "LibbpfEngine"),
    "bcc": ("bcc_engine", "BccEngine"),
    "bpftrace": ("bpftrace.engine", "BpftraceEngine"),
}
NAMES = (AUTO, *_ENGINES)


@dataclass(frozen=True)
class Choice:
    """The name of an engine, and why it isn't a better one: a sentence, "" where it is the one asked for or the best."""

    name: str
    why: str = ""


def choose(wanted: str, lacking: Callable[[str], str]) -> Choice:
    """The engine `wanted`, or with "auto" the first that lacks nothing.

    `lacking` says what this machine lacks for tracing by an engine, "" if nothing. SsllatencyError where none can be used.
    """
    if wanted != AUTO:
        if reason := lacking(wanted):
            raise SsllatencyError(f"This machine can't trace with {wanted}: {reason}.")
        return Choice(wanted)
    reasons: dict[str, str] = {}
    for name in _ENGINES:
        reasons[name] = lacking(name)  # a worse one is checked only where the better ones can't be used: bcc alone takes 60 MB
        if not reasons[name]:
            return Choice(name, _excuse(name, reasons))
    # Name what the best engine lacks: that is the most worth installing.
    raise SsllatencyError(f"This machine can't trace: {next(iter(reasons.values()))}.")


def _excuse(name: str, reasons: dict[str, str]) -> str:
    first = next(iter(reasons))
    return "" if name == first else f"{first} can't be used, so {name} is: {reasons[first]}."


def module(name: str) -> str:
    """The module of the engine of that name."""
    return f"ssllatency.engines.{_ENGINES[name][0]}"


def engine(name: str) -> Engine:
    """The engine of that name."""
    engine: Engine = getattr(import_module(module(name)), _ENGINES[name][1])()
    return engine
