# SPDX-License-Identifier: Apache-2.0
"""Accept queues in words."""

from __future__ import annotations

from ssllatency.accept_queue import TOGETHER, AcceptQueue
from ssllatency.units import counted

_MOST = 5  # are named


def place(queue: AcceptQueue) -> str:
    """Return where it is: "127.0.0.1:443", "[::]:443"; sockets that are closed, or aren't told apart, have no place."""
    where = f" (network namespace {queue.network})" if queue.network else ""
    if queue.place == TOGETHER:
        return f"one of several sockets{where}"
    if not queue.address:
        return f"closed sockets{where}"
    host = f"[{queue.address}]" if ":" in queue.address else queue.address
    return f"{host}:{queue.port}{where}"


def overflows_sentence(queues: tuple[AcceptQueue, ...] | None) -> str:
    """Return which queues connections found full, and how often; "" where none was, or it isn't known."""
    full = sorted((queue for queue in queues or () if queue.overflows), key=lambda queue: -queue.overflows)
    each = [f"{place(queue)}{_limit(queue)} {counted(queue.overflows, 'time')}" for queue in full[:_MOST]]
    if len(full) > _MOST:
        each.append(f"{counted(len(full) - _MOST, 'other')} {counted(sum(queue.overflows for queue in full[_MOST:]), 'time')}")
    return f"Accept queues that were full when a connection came: {', '.join(each)}." if each else ""


def untold_sentence(untold: int) -> str:
    """Return how often queues were full of which it isn't known whose they were; "" where that is known of all."""
    times = f"Accept queues were full {counted(untold, 'more time')} when a connection came"
    why = "others' sockets dropped some as well, it takes more privileges to know, or there are too many sockets"
    return f"{times}; whether they were the traced processes' isn't known: {why}." if untold else ""


def _limit(queue: AcceptQueue) -> str:
    return "" if queue.limit is None else f" (holds {queue.limit})"
