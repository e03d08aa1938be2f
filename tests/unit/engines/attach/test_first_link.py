# SPDX-License-Identifier: Apache-2.0
"""The wait ahead of the first link: a probe that nobody hits is set and removed, and nothing is left of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssllatency.engines.attach import first_link
from ssllatency.engines.bpf import kernel


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Descriptors in place of programs, which may be left open."""
    loaded: list[int] = []

    def load(_attach_type: int) -> int:
        loaded.append(os.open(os.devnull, os.O_RDONLY))
        return loaded[-1]

    monkeypatch.setattr(kernel, "load_empty_program", load)
    return loaded


def _wait_ahead(method: kernel.Method) -> None:
    before = set(threading.enumerate())
    first_link.wait_ahead(method)
    for thread in set(threading.enumerate()) - before:
        thread.join()


def _are_closed(descriptors: Sequence[int]) -> bool:
    return not any(Path(f"/proc/self/fd/{descriptor}").exists() for descriptor in descriptors)


def test_a_link_is_made_where_nobody_has_code_and_closed(programs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[int] = []

    def create_link(program: int, path: str, sites: Sequence[tuple[int, int]]) -> kernel.Link:
        assert program == programs[-1]
        assert Path(path).is_file()
        assert sites == [(0, 0)]
        links.append(os.open(os.devnull, os.O_RDONLY))
        return kernel.Link(links[-1])

    monkeypatch.setattr(kernel, "create_link", create_link)
    _wait_ahead(kernel.Method.MULTI)
    assert len(links) == 1
    assert _are_closed([*links, *programs])


def test_a_refusal_is_no_error(programs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> kernel.Link:
        raise PermissionError

    monkeypatch.setattr(kernel, "create_link", refuse)
    _wait_ahead(kernel.Method.SESSION)
    assert len(programs) == 1
    assert _are_closed(programs)


def test_perf_events_have_nothing_to_wait_for(programs: list[int]) -> None:
    _wait_ahead(kernel.Method.PERF)
    assert not programs
