# SPDX-License-Identifier: Apache-2.0
"""Sources declare what they can do, and have what they declare; commands ask for that, not for classes or engines."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import ssllatency
from ssllatency.engines import choice, source
from ssllatency.engines.bpftrace.engine import BpftraceSession
from ssllatency.engines.sessions.full import FullSession
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.engines.sessions.snoop import SnoopSession
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.engines.source import Ability

SOURCES = (BpftraceSession, FullSession, HandshakeSession, SnoopSession, TraceSession)
PACKAGE = Path(ssllatency.__file__).parent
# Rooms that attach what the options ask for, of any source.
ROOMS = ("cli/live", "export", "tracing", "output")
# The modules that choose among sources by what is wanted, and the printer of calls, which takes a ring's records apart.
CHOOSE = {"tracing/handshake_sources.py", "tracing/call_sources.py", "cli/live/printers/call_printer.py"}


def members(protocol: type) -> set[str]:
    return {name for parent in protocol.__mro__ for name in vars(parent) if not name.startswith("_") and name != "abilities"}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_has_what_it_declares(kind: Any) -> None:
    protocols = {Ability.FOLLOW: source.FollowingSource, Ability.FOLLOW | Ability.HANDSHAKES: source.HandshakeSource}
    wanted = [source.Source, *(protocol for ability, protocol in protocols.items() if ability in kind.abilities)]
    for protocol in wanted:
        assert members(protocol) <= {name for name, _ in inspect.getmembers(kind)} | {"attachment"}
    assert hasattr(kind, "batches") == (Ability.CALLS in kind.abilities)


@pytest.mark.parametrize("name", [name for name in choice.NAMES if name != choice.AUTO])
def test_only_bpftrace_follows_nobody_and_keeps_no_budget(name: str) -> None:
    engine = choice.engine(name)
    assert Ability.FUNCTIONS in engine.abilities
    assert (Ability.FOLLOW | Ability.BUDGET in engine.abilities) == (name != "bpftrace")


def told_apart(text: str) -> set[str]:
    """The names of sources' classes, and of engines, by which this source tells cases apart."""
    names = {kind.__name__ for kind in SOURCES}
    told = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in names:
            told.add(node.id)
        elif isinstance(node, ast.Compare):
            sides = (side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant))
            told |= {side for side in sides if side in choice.NAMES and side != choice.AUTO}
    return told


def test_commands_ask_for_abilities() -> None:
    files = [file for room in ROOMS for file in (PACKAGE / room).rglob("*.py")]
    assert len(files) > 60
    told = {file.relative_to(PACKAGE).as_posix() for file in files if told_apart(file.read_text())}
    assert told == CHOOSE
    assert told_apart('if isinstance(session, TraceSession) or name == "bpftrace": pass') == {"TraceSession", "bpftrace"}
