# SPDX-License-Identifier: Apache-2.0
"""The records of `snoop` as user space reads them, and what it tells the kernel side."""

from __future__ import annotations

import ctypes
import struct

import pytest

from ssllatency import abi
from ssllatency.code.machine import Cost
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.bpf.ring import ring_size, stride_of
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions.snoop import EventKeys, events_of, events_with_whom, length_arguments
from ssllatency.model.events import Call, Caller, Returned
from ssllatency.model.handshakes import Label
from ssllatency.model.snapshot import Outcome
from ssllatency.probes.plan import FilePlan, OperationPlan, Probe, Role

OPERATIONS = ["SSL_read", "SSL_do_handshake", "ossl_ecdsa_sign_sig", "ASYNC_pause_job", "mbx_x25519_mb8"]


def record(**fields: object) -> bytes:
    """A record of the ring as the kernel lays it out."""
    body = bytes(abi.Event(**fields))[: abi.EventSize.SHORT]
    return struct.pack("<II", len(body), 0) + body


def test_a_record_is_the_struct_of_the_header() -> None:
    batch = record(
        ended_ns=1, duration_ns=2, returned=1 << 63, bytes=-1, tgid=5, tid=6, comm=b"nginx", operation=1, outcome=2, reason=2
    )
    batch += record(ended_ns=7, bytes=1 << 40, operation=0, outcome=0, reason=abi.Reason.NONE)
    assert len(batch) == 2 * stride_of(abi.EventSize.SHORT)
    first, second = events_of(batch)
    keys = EventKeys(OPERATIONS)
    assert first[:4] == (1, 2, 1 << 63, -1)
    assert keys.caller(first[4]) == Caller(5, 6, "nginx")
    assert keys.call(first[5]) == Call("SSL_do_handshake", Returned.NUMBER, Outcome.RETRY, "WANT_READ")
    assert second[:4] == (7, 0, 0, 1 << 40)
    assert keys.caller(second[4]) == Caller(0, 0, "")
    assert keys.call(second[5]) == Call("SSL_read", Returned.NUMBER, Outcome.SUCCESS, "")


@pytest.mark.parametrize(
    ("operation", "kind"), [(0, Returned.NUMBER), (2, Returned.POINTER), (3, Returned.NUMBER), (4, Returned.STATUS)]
)
def test_what_a_function_returns_is_the_catalogues_to_say(operation: int, kind: Returned) -> None:
    (event,) = events_of(record(operation=operation, outcome=abi.Outcome.FAILURE, reason=abi.Reason.UNKNOWN))
    call = EventKeys(OPERATIONS).call(event[5])
    assert (call.function, call.returned, call.reason) == (OPERATIONS[operation], kind, "unknown")


def test_a_name_that_is_no_text_is_still_shown() -> None:
    (event,) = events_of(record(comm=b"\xff\xfeserver"))
    assert EventKeys(OPERATIONS).caller(event[4]).comm.endswith("server")


@pytest.mark.parametrize(("wanted", "size"), [(1, 4096), (4096, 4096), (4097, 8192), (3 << 20, 4 << 20), (8 << 20, 8 << 20)])
def test_the_ring_is_a_power_of_two_of_whole_pages(wanted: int, size: int) -> None:
    assert ring_size(wanted) == size


def image(path: str, *kept: tuple[str, bool]) -> TracedImage:
    planned = tuple(
        OperationPlan(
            name,
            0,
            1,
            "dynamic symbol",
            (
                Probe(1, 1, Role.ENTRY, "push rbp", Cost.EMULATED, keeps_length=keeps),
                Probe(2, 2, Role.EXIT, "ret", Cost.SINGLE_STEPPED, return_register="rax"),
            ),
        )
        for name, keeps in kept
    )
    return TracedImage(FilePlan(path, "", "", "libssl", planned, ()), path, (1,))


def test_a_length_is_read_only_where_every_file_keeps_its_register() -> None:
    operations = ["SSL_read", "SSL_read_ex", "SSL_write_ex", "SSL_write_ex2"]
    one = image("/a", ("SSL_read", False), ("SSL_read_ex", True), ("SSL_write_ex", True))
    other = image("/b", ("SSL_read", False), ("SSL_read_ex", True), ("SSL_write_ex", False), ("SSL_write_ex2", True))
    assert length_arguments(Request((one, other), ()), operations) == {1: 4, 3: 5}


def test_who_shook_hands_is_told_of_calls_that_end_a_handshake_only() -> None:
    name = abi.Text(kind=abi.TextKind.SERVER_NAME, length=9)
    ctypes.memmove(name.bytes, b"a.example", 9)
    keys = EventKeys(OPERATIONS, (Label.SNI, Label.PORT), Texts(lambda: [(bytes(name), (1).to_bytes(4, "little"))]))
    known = 1 << abi.Label.SNI | 1 << abi.Label.ALPN
    batch = b"".join(
        struct.pack("<II", ctypes.sizeof(abi.Event), 0) + bytes(abi.Event(known=bits, who=(1, 0, 443, 0), operation=1))
        for bits in (known, known | 1 << abi.Label.PORT, 0)
    )
    found = [keys.whom(event[6]) for event in events_with_whom(batch)]
    assert found == [{Label.SNI: "a.example", Label.PORT: None}, {Label.SNI: "a.example", Label.PORT: "443"}, {}]
