# SPDX-License-Identifier: Apache-2.0
"""SSL_free, of an SSL whose handshake goes on and of all others; and whether what ends is a handshake, or a connection that
quiche made only to look into a ClientHello, as an SSL shows it that lies in the test's own memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from ssllatency import abi
from ssllatency.code.values import FieldPath
from ssllatency.engines.attach.sites import library_record
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.probes.plan import SslOffsets
from ssllatency.stacks.registry import stack_named
from tests.bpf.compiling import SMALL, SMALL_TABLES, compiled, run

# From SSL: to its functions for QUIC, to what it knows of a handshake, and to its SSL_CTX's function; and from the second.
PATHS = {
    "quic_functions": FieldPath((152,), 8),
    "in_init": FieldPath((48, 24), 8),
    "alpn_function": FieldPath((104, 16), 8),
    "quic_parameters_length": FieldPath((8, 40), 8),
}
CODE = 0x5555_0000_1000
REJECTED, PARSE_FAILED, OTHER_LIBRARY = 16 << 24 | 133, 16 << 24 | 131, 20 << 24 | 133


class EndingsProbe(ctypes.Structure):
    _fields_ = (("ssl", ctypes.c_uint64), ("end", ctypes.c_uint32), ("error", ctypes.c_uint32))


@dataclass(frozen=True)
class Ended:
    """How it ends, and what its SSL holds."""

    ending: abi.Ending = abi.Ending.FAILURE
    end: abi.End = abi.End.ERROR
    error: int = REJECTED
    server: bool = True
    under_way: bool = True
    functions: int = CODE
    chooses: int = 0
    parameters: int = 0


LOOKED_INTO = Ended()
LEFT = Ended(abi.Ending.ABANDONED, abi.End.NONE, error=0)


class Endings:
    """The programs, loaded; what they read is kept as long as this is."""

    def __init__(self, content: bytes) -> None:
        self._opened = BpfObject(content, "endings_probe")
        for table in SMALL_TABLES:
            self._opened.resize_map(table, SMALL)
        self._opened.load()
        self._probe = self._opened.live_section(".data.probe", EndingsProbe)
        self._counters = self._opened.live_section(".data.handshake_counters", abi.HandshakeCounters)
        self._kept: list[ctypes.Array[ctypes.c_uint64]] = []

    def close(self) -> None:
        self._opened.close()

    def end(self, ended: Ended, paths: dict[str, FieldPath] | None = None) -> tuple[int, int]:
        """How many inspections it counts as, and how many handshakes of servers without a socket, as any here is."""
        record = library_record(SslOffsets(boringssl=48), stack_named("boringssl"), PATHS if paths is None else paths)
        self._opened.map("libraries", 4, ctypes.sizeof(abi.Library)).update(ctypes.c_uint32(0), record)
        self._probe.ssl, self._probe.error = self._laid(ended), ended.error
        self._probe.end = ended.ending | ended.end << 8 | ended.server << 16 | 1 << 24
        before = (self._counters.inspections, self._counters.without_socket, self._counters.ended)
        run(self._opened.program_fd("end_handshake"))
        run(self._opened.program_fd("free_ssl"))  # those that failed are kept until then
        assert self._counters.ended == before[2] + 1
        return self._counters.inspections - before[0], self._counters.without_socket - before[1]

    def _laid(self, ended: Ended) -> int:
        """The address of an SSL."""
        ssl, state, context, handshake, configuration = (self._words() for _ in range(5))
        ssl[152 // 8], ssl[48 // 8], ssl[104 // 8] = ended.functions, ctypes.addressof(state), ctypes.addressof(context)
        state[24 // 8] = ctypes.addressof(handshake) if ended.under_way else 0
        context[16 // 8], handshake[8 // 8] = ended.chooses, ctypes.addressof(configuration)
        configuration[40 // 8] = ended.parameters
        return ctypes.addressof(ssl)

    def _words(self) -> ctypes.Array[ctypes.c_uint64]:
        self._kept.append((ctypes.c_uint64 * 32)())
        return self._kept[-1]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("endings_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture(scope="module")
def endings(content: bytes) -> Iterator[Endings]:
    opened = Endings(content)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def loaded(content: bytes) -> Iterator[BpfObject]:
    with BpfObject(content, "endings_probe") as opened:
        for table in SMALL_TABLES:
            opened.resize_map(table, SMALL)
        opened.load()
        opened.live_section(".data.probe", EndingsProbe).ssl = CODE
        yield opened


def ended_in(loaded: BpfObject) -> int:
    return int(loaded.live_section(".data.handshake_counters", abi.HandshakeCounters).ended)


def threads(loaded: BpfObject) -> int:
    """How many threads something is kept of."""
    return len(list(loaded.map("threads", 4, ctypes.sizeof(abi.Thread)).items()))


def test_of_an_ssl_without_a_handshake_nothing_is_looked_at_or_kept(loaded: BpfObject) -> None:
    run(loaded.program_fd("free_ssl"))
    assert (ended_in(loaded), threads(loaded)) == (0, 0)


def test_a_handshake_that_goes_on_ends(loaded: BpfObject) -> None:
    run(loaded.program_fd("begin_handshake"))
    run(loaded.program_fd("free_ssl"))
    assert ended_in(loaded) == 1
    run(loaded.program_fd("free_ssl"))
    assert ended_in(loaded) == 1


@pytest.mark.parametrize("ended", [LOOKED_INTO, LEFT])
def test_what_only_looks_into_a_client_hello_is_no_handshake(endings: Endings, ended: Ended) -> None:
    """Be it all of that, or only its beginning."""
    assert endings.end(ended) == (1, 0)


@pytest.mark.parametrize("ended", [LOOKED_INTO, LEFT])
@pytest.mark.parametrize(
    "real",
    [{"chooses": CODE}, {"parameters": 60}, {"functions": 0}, {"under_way": False}],
    ids=["chooses a protocol", "has parameters", "isn't over QUIC", "isn't under way"],
)
def test_what_could_complete_is_one(endings: Endings, ended: Ended, real: dict[str, int]) -> None:
    assert endings.end(replace(ended, **real)) == (0, 1)


@pytest.mark.parametrize("error", [0, PARSE_FAILED, OTHER_LIBRARY])
def test_a_client_hello_that_cannot_be_read_is_one_that_failed(endings: Endings, error: int) -> None:
    """It is all that comes of it."""
    assert endings.end(replace(LOOKED_INTO, error=error)) == (0, 1)


def test_what_ends_in_another_way_is_one(endings: Endings) -> None:
    assert endings.end(replace(LOOKED_INTO, ending=abi.Ending.SUCCESS, end=abi.End.NONE)) == (0, 1)
    assert endings.end(replace(LEFT, end=abi.End.TRANSPORT)) == (0, 1)
    assert endings.end(replace(LEFT, server=False)) == (0, 0)


@pytest.mark.parametrize("missing", PATHS)
@pytest.mark.parametrize("ended", [LOOKED_INTO, LEFT])
def test_where_a_place_is_not_known_it_is_one(endings: Endings, ended: Ended, missing: str) -> None:
    assert endings.end(ended, {name: path for name, path in PATHS.items() if name != missing}) == (0, 1)
