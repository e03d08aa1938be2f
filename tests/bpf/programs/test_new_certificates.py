# SPDX-License-Identifier: Apache-2.0
"""The certificates that the kernel hands over, from one that lies in the test's memory: each once, and none without room."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from ssllatency import abi
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.ring import Ring
from tests.bpf.compiling import SMALL, SMALL_TABLES, compiled, run

RING = 1 << 16
SMALL_RING = 1 << 12  # for less than one of them
DER = b"\x30\x81\xc8" + bytes(200)


class CertificatesProbe(ctypes.Structure):
    _fields_ = (("encoding", ctypes.c_uint64), ("signature", ctypes.c_uint64), ("number", ctypes.c_uint64))


class Encoding(ctypes.Structure):
    """OpenSSL's ASN1_ENCODING."""

    _fields_ = (("bytes", ctypes.c_void_p), ("length", ctypes.c_long), ("modified", ctypes.c_int))


class Signature(ctypes.Structure):
    """The beginning of OpenSSL's ASN1_STRING."""

    _fields_ = (("length", ctypes.c_int), ("type", ctypes.c_int), ("bytes", ctypes.c_void_p))


class Opened:
    """The programs, with room for so much."""

    def __init__(self, content: bytes, certificates: int, ring: int) -> None:
        self.object = BpfObject(content, "certificates_probe")
        for table in SMALL_TABLES:
            self.object.resize_map(table, SMALL)
        self.object.resize_map("certificates", certificates)
        self.object.resize_map("new_certificates", ring)
        self.object.load()
        self._known = self.object.map("certificates", ctypes.sizeof(abi.CertificateKey), 4)
        self._ring = Ring(self.object.map_fd("new_certificates"), ring, ctypes.sizeof(abi.Certificate))
        self._probe = self.object.live_section(".data.probe", CertificatesProbe)

    def number_of(self, signature: bytes, der: bytes = DER, modified: int = 0) -> int:
        """The number of a certificate with this signature."""
        held = ctypes.create_string_buffer(der, len(der)), ctypes.create_string_buffer(signature, len(signature))
        encoding = Encoding(ctypes.addressof(held[0]), len(der), modified)
        string = Signature(len(signature), 3, ctypes.addressof(held[1]))
        return self.number_at(ctypes.addressof(encoding), ctypes.addressof(string))

    def number_at(self, encoding: int, signature: int) -> int:
        """The number of the certificate whose ASN1_ENCODING and ASN1_STRING are said to be there."""
        self._probe.encoding, self._probe.signature = encoding, signature
        run(self.object.program_fd("run_certificates"))
        return int(self._probe.number)

    def known(self) -> list[int]:
        """The numbers that are kept."""
        return sorted(int.from_bytes(number, "little") for _, number in self._known.items())

    def handed_over(self) -> list[int]:
        """The numbers of those that came since the last time."""
        return [one.number for one in self._ring.records(abi.Certificate)]

    def close(self) -> None:
        """Frees it."""
        self._ring.close()
        self.object.close()


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled("certificates_probe.bpf.c", tmp_path_factory.mktemp("bpf"))


@pytest.fixture
def opened(content: bytes, request: pytest.FixtureRequest) -> Iterator[Opened]:
    opened = Opened(content, *request.param)
    yield opened
    opened.close()


@pytest.mark.parametrize("opened", [(8, RING)], indirect=True)
def test_each_is_handed_over_once(opened: Opened) -> None:
    assert [opened.number_of(signature) for signature in (b"a" * 64, b"b" * 64, b"a" * 64)] == [1, 2, 1]
    assert (opened.handed_over(), opened.known()) == ([1, 2], [1, 2])


@pytest.mark.parametrize("opened", [(1, RING)], indirect=True)
def test_without_room_for_its_number_it_is_not_handed_over(opened: Opened) -> None:
    assert [opened.number_of(signature) for signature in (b"a" * 64, b"b" * 64, b"b" * 64, b"a" * 64)] == [1, 0, 0, 1]
    assert (opened.handed_over(), opened.known()) == ([1], [1])


@pytest.mark.parametrize("opened", [(8, SMALL_RING)], indirect=True)
def test_without_room_in_the_ring_it_gets_no_number(opened: Opened) -> None:
    assert opened.number_of(b"a" * 64) == 0
    assert (opened.handed_over(), opened.known()) == ([], [])


@pytest.mark.parametrize("opened", [(8, RING)], indirect=True)
@pytest.mark.parametrize("der", [DER[:-1], b"\x31" + DER[1:], b"\x30\x05hello"])
def test_what_is_no_certificate_gets_no_number(opened: Opened, der: bytes) -> None:
    assert [opened.number_of(b"a" * 64, der), opened.number_of(b"a" * 64)] == [0, 1]
    assert (opened.handed_over(), opened.known()) == ([1], [1])


@pytest.mark.parametrize("opened", [(8, RING)], indirect=True)
def test_an_encoding_that_is_out_of_date_is_not_read(opened: Opened) -> None:
    """OpenSSL keeps the old bytes of a certificate that was changed, which aren't what it would send."""
    assert [opened.number_of(b"a" * 64, modified=1), opened.number_of(b"a" * 64)] == [0, 1]


# Nothing, a small number, no address that a processor has, the kernel's, the end.
NOWHERE = (0, 16, 1 << 47, 0xFFFF_8880_0000_0000, (1 << 64) - 8)


@pytest.mark.parametrize("opened", [(8, RING)], indirect=True)
def test_pointers_that_lead_nowhere_are_followed_nowhere(opened: Opened) -> None:
    """A target may have written anything there."""
    held = ctypes.create_string_buffer(DER, len(DER)), ctypes.create_string_buffer(64)
    good = Encoding(ctypes.addressof(held[0]), len(DER)), Signature(64, 3, ctypes.addressof(held[1]))
    lies: list[tuple[ctypes.Structure, ctypes.Structure]] = []
    for place in NOWHERE:
        lies += [(Encoding(place, len(DER)), good[1]), (good[0], Signature(64, 3, place))]
    lies += [(Encoding(ctypes.addressof(held[0]), length), good[1]) for length in (-1, 0, 1 << 16, 1 << 62, -(1 << 63))]
    lies += [(good[0], Signature(length, 3, ctypes.addressof(held[1]))) for length in (-1, 0, 31, 1 << 30, -(1 << 31))]
    assert {opened.number_at(*map(ctypes.addressof, pair)) for pair in lies} == {0}
    encoding, signature = map(ctypes.addressof, good)
    for place in NOWHERE:
        assert (opened.number_at(place, signature), opened.number_at(encoding, place)) == (0, 0)
    assert (opened.handed_over(), opened.known()) == ([], [])
    assert opened.number_at(encoding, signature) == 1
