# SPDX-License-Identifier: Apache-2.0
"""Needs of a load generator's run beside the trace: who serves where it connects to, how long it may run, how it ended."""

from __future__ import annotations

import os
import socket
import time

from ssllatency.engines.source import HandshakeSource
from ssllatency.errors import SsllatencyError
from ssllatency.load.arguments import Endpoint
from ssllatency.load.run import StopReason, ToolOutput
from ssllatency.targets import Selection, all_processes, is_own, serving
from ssllatency.units import counted

_SETTLE_S, _LOOK_S = 1.0, 0.05  # how long the server may take to end what the tool has begun
_UNKNOWN_S, _LATER_S = 3600.0, 60.0  # how long a tool may run whose end isn't known, and one whose end is


def serving_there(where: Endpoint) -> Selection:
    """The processes that listen there; SsllatencyError where none on this host does."""
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise SsllatencyError(f"{where.host} can't be found: {error.strerror}.") from None
    except UnicodeError:
        raise SsllatencyError(f"{where.host} can't be found: it isn't a name of a host.") from None
    processes = {process.pid: process for process in all_processes() if process.pid != os.getpid()}
    pids, hidden = serving(where.port, addresses, processes) if any(map(is_own, addresses)) else ([], 0)
    if not pids:
        unseen = f" ({counted(hidden, 'process')} couldn't be inspected)" if hidden else ""
        raise SsllatencyError(
            f"No process on this host listens on {where.host} port {where.port}{unseen}: name the server by -p PID, --port PORT"
            " or --container ID."
        )
    # A server's workers have its socket as well, and come with it.
    return Selection(pids=tuple(pid for pid in pids if processes[pid].ppid not in pids))


def timeout_s(asked_s: float | None, whole_s: float | None) -> float:
    """The seconds that a tool may run which takes `whole_s` by itself, None where that isn't known."""
    return asked_s or (_UNKNOWN_S if whole_s is None else whole_s + _LATER_S)


def settle(session: HandshakeSource) -> None:
    """Waits until the server has ended what the tool left it with, for a while at most. Reads nothing: the next read has the
    extremes since the one before."""
    end = time.monotonic() + _SETTLE_S
    while time.monotonic() < end:
        time.sleep(_LOOK_S)
        if not session.in_flight:
            break


def complaints(output: ToolOutput, name: str) -> list[str]:
    """Return how the tool ended, and the end of what it complained of."""
    sentences = [f"{name} printed so much that {output.cut_bytes} bytes of it weren't kept."] if output.cut_bytes else []
    if output.ended is StopReason.TIMEOUT:
        sentences.append(f"{name} was ended after {output.duration_s:.0f} s: --timeout gives it longer.")
    elif output.status < 0:
        sentences.append(f"{name} was killed by signal {-output.status}.")
    elif output.status:
        sentences.append(f"{name} ended with status {output.status}.")
    return [*sentences, *(f"{name}: {line}" for line in output.stderr.splitlines()[-5:] if line.strip())]
