# SPDX-License-Identifier: Apache-2.0
"""Whether a handshake that begins is without TCP, as an SSL shows it that lies in the test's own memory."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from ssllatency import abi
from ssllatency.code.values import FieldPath
from ssllatency.engines.attach.sites import library_record
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.probes.plan import SslOffsets
from ssllatency.stacks.registry import stack_named
from tests.bpf.compiling import SMALL, compiled, run

# openssl/bio.h: BIO_TYPE_SOCKET, BIO_TYPE_MEM, BIO_TYPE_NULL, BIO_TYPE_BUFFER, and the first that an application gets.
SOCKET, MEMORY, NOTHING, BUFFER, OWN = 0x505, 0x401, 0x406, 0x209, 0x480
OPENSSL = SslOffsets(rbio=16, wbio=24, bio_method=8, bio_descriptor=56)
BORINGSSL = SslOffsets(rbio=24, wbio=32, boringssl=48)
FUNCTIONS = {"quic_functions": FieldPath((64,), 8)}


class TransportsProbe(ctypes.Structure):
    _fields_ = (("ssl", ctypes.c_uint64), ("without_tcp", ctypes.c_uint32), ("tells", ctypes.c_uint32))


@dataclass(frozen=True)
class Bio:
    type: int
    descriptor: int = 0


@dataclass(frozen=True)
class Ssl:
    """What it reads from and writes to, None for NULL, and the pointer at FUNCTIONS."""

    reads: Bio | None
    writes: Bio | None
    functions: int = 0


class Transports:
    """The program, loaded; what it reads is kept as long as this is."""

    def __init__(self, content: bytes) -> None:
        self._opened = BpfObject(content, "transports_probe")
        self._opened.resize_map("texts", SMALL)
        self._opened.load()
        self._probe = self._opened.live_section(".data.probe", TransportsProbe)
        self._kept: list[ctypes.Array[ctypes.c_uint64]] = []

    def close(self) -> None:
        self._opened.close()

    def ask(self, offsets: SslOffsets, ssl: Ssl, labels: dict[str, FieldPath] | None = None) -> tuple[bool, bool]:
        """Whether this SSL is without TCP, and whether its library shows that of each."""
        record = library_record(offsets, stack_named("boringssl" if offsets.boringssl else "openssl"), labels or {})
        self._opened.map("libraries", 4, ctypes.sizeof(abi.Library)).update(ctypes.c_uint32(0), record)
        words = self._words(32)
        for offset, bio in ((offsets.rbio, ssl.reads), (offsets.wbio, ssl.writes)):
            if offset is not None:
                words[offset // 8] = self._bio(bio) if bio else 0
        words[FUNCTIONS["quic_functions"].offsets[0] // 8] = ssl.functions
        self._probe.ssl = ctypes.addressof(words)
        run(self._opened.program_fd("run_transports"))
        return bool(self._probe.without_tcp), bool(self._probe.tells)

    def _bio(self, bio: Bio) -> int:
        method, words = self._words(4), self._words(16)
        method[0], words[1], words[7] = bio.type, ctypes.addressof(method), bio.descriptor
        return ctypes.addressof(words)

    def _words(self, count: int) -> ctypes.Array[ctypes.c_uint64]:
        self._kept.append((ctypes.c_uint64 * count)())
        return self._kept[-1]


@pytest.fixture(scope="module")
def transports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transports]:
    opened = Transports(compiled("transports_probe.bpf.c", tmp_path_factory.mktemp("bpf")))
    try:
        yield opened
    finally:
        opened.close()


def is_without(transports: Transports, offsets: SslOffsets, ssl: Ssl) -> bool:
    return transports.ask(offsets, ssl)[0]


@pytest.mark.parametrize("type_", [SOCKET, MEMORY, OWN, BUFFER])
def test_who_writes_somewhere_may_have_tcp(transports: Transports, type_: int) -> None:
    """A server that reads and writes its socket itself has memory or a BIO of its own on either side."""
    assert not is_without(transports, OPENSSL, Ssl(Bio(type_), Bio(type_)))


def test_who_writes_nowhere_has_none(transports: Transports) -> None:
    """As nginx and haproxy over QUIC, which hand records over through memory, and OpenSSL's own QUIC."""
    assert is_without(transports, OPENSSL, Ssl(Bio(MEMORY), Bio(NOTHING)))
    assert is_without(transports, OPENSSL, Ssl(Bio(NOTHING), Bio(NOTHING)))


def test_what_is_read_from_alone_tells_nothing(transports: Transports) -> None:
    assert not is_without(transports, OPENSSL, Ssl(Bio(NOTHING), Bio(MEMORY)))
    assert not is_without(transports, OPENSSL, Ssl(None, Bio(MEMORY)))
    assert not is_without(transports, OPENSSL, Ssl(Bio(MEMORY), None))


@pytest.mark.parametrize("offsets", [OPENSSL, BORINGSSL])
def test_who_has_no_bio_has_none(transports: Transports, offsets: SslOffsets) -> None:
    assert is_without(transports, offsets, Ssl(None, None))
    assert not is_without(transports, replace(offsets, wbio=None), Ssl(None, None))


def test_a_type_that_is_not_known_tells_nothing(transports: Transports) -> None:
    ssl = Ssl(Bio(MEMORY), Bio(NOTHING))
    assert transports.ask(replace(OPENSSL, bio_method=None), ssl) == (False, False)
    assert transports.ask(replace(OPENSSL, wbio=None), ssl) == (False, False)
    assert transports.ask(BORINGSSL, ssl) == (False, False)


def test_a_socket_of_udp_is_none_of_tcp(transports: Transports) -> None:
    left, right = socket.socketpair()
    with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket() as tcp, left, right:
        bios = [Bio(SOCKET, plain.fileno()) for plain in (udp, tcp, left)]
        assert [is_without(transports, OPENSSL, Ssl(bio, bio)) for bio in bios] == [True, False, False]


def test_who_takes_messages_by_functions_has_none(transports: Transports) -> None:
    for offsets in (OPENSSL, BORINGSSL):
        either = Bio(MEMORY)
        assert transports.ask(offsets, Ssl(either, either, 0x5555_0000_1000), FUNCTIONS) == (True, True)
        assert transports.ask(offsets, Ssl(either, either), FUNCTIONS) == (False, True)


def test_which_libraries_show_it(transports: Transports) -> None:
    ssl = Ssl(Bio(SOCKET), Bio(SOCKET))
    assert transports.ask(OPENSSL, ssl) == (False, True)
    assert transports.ask(BORINGSSL, ssl) == (False, False)
