# SPDX-License-Identifier: Apache-2.0
"""SSL_free, of an SSL whose handshake goes on and of all others."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.libbpf import BpfObject
from tests.bpf.compiling import SMALL, SMALL_TABLES, compiled, run

SSL = 0x5555_0000_1000


class FreeProbe(ctypes.Structure):
    _fields_ = (("ssl", ctypes.c_uint64),)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("free_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture
def loaded(content: bytes) -> Iterator[BpfObject]:
    with BpfObject(content, "free_probe") as opened:
        for table in SMALL_TABLES:
            opened.resize_map(table, SMALL)
        opened.load()
        opened.live_section(".data.probe", FreeProbe).ssl = SSL
        yield opened


def ended(loaded: BpfObject) -> int:
    return int(loaded.live_section(".data.handshake_counters", abi.HandshakeCounters).ended)


def threads(loaded: BpfObject) -> int:
    """How many threads something is kept of."""
    return len(list(loaded.map("threads", 4, ctypes.sizeof(abi.Thread)).items()))


def test_of_an_ssl_without_a_handshake_nothing_is_looked_at_or_kept(loaded: BpfObject) -> None:
    run(loaded.program_fd("free_ssl"))
    assert (ended(loaded), threads(loaded)) == (0, 0)


def test_a_handshake_that_goes_on_ends(loaded: BpfObject) -> None:
    run(loaded.program_fd("begin_handshake"))
    run(loaded.program_fd("free_ssl"))
    assert ended(loaded) == 1
    run(loaded.program_fd("free_ssl"))
    assert ended(loaded) == 1
