# SPDX-License-Identifier: Apache-2.0
"""Calls that wait for the kernel, side by side, each in a thread. Without concurrent.futures: to import that takes some 20 ms,
and when links are closed for the first time, whoever hits their probes pays for these in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
_MOST_THREADS = 256


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make all of these calls, and return what each returns, in their order. What the first of them raises is raised once all
    are over. Where no more threads can be started, those that there are do more."""
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    left = iter(list(enumerate(calls)))

    def work() -> None:
        for number, call in left:
            try:
                results[number] = call()
            except BaseException as error:
                errors[number] = error

    threads = []
    with suppress(RuntimeError):
        for _ in range(min(len(calls), _MOST_THREADS) - 1):  # one is here already
            thread = Thread(target=work)
            thread.start()
            threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    try:
        if errors:
            raise errors[min(errors)]
    finally:
        errors.clear()  # it would refer to itself
    return [results[number] for number in range(len(calls))]
