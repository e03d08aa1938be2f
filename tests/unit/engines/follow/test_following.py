# SPDX-License-Identifier: Apache-2.0
"""The set of processes as bits, the kernel's records of mappings, and who shares links."""

from __future__ import annotations

import struct

import pytest

from ssllatency import abi
from ssllatency.engines.attach.links import links_each_process
from ssllatency.engines.attach.sites import numbered, operations_of
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.kernel import Method
from ssllatency.engines.follow.following import TargetBits, pids_of
from ssllatency.engines.follow.mappings import MappingNotice, parse_name, parse_record
from ssllatency.engines.rules import Rules
from ssllatency.probes.plan import FilePlan, OperationPlan


def test_the_set_is_read_bit_by_bit() -> None:
    bits = TargetBits()
    for pid in (1, 63, 64, 16_383, 16_384, 4_194_303):
        bits.words[pid >> 6].kin |= 1 << (pid & 63)
    bits.words[64 >> 6].members |= 0b11
    assert pids_of(bytes(bits)) == [1, 63, 64, 65, 16_383, 16_384, 4_194_303]
    assert pids_of(bytes(TargetBits())) == []


def record(path: bytes, *, inode: int = 316533, pid: int = 77, at_ns: int = 123_456_789) -> bytes:
    body = struct.pack("<IIQQQIIQQII", pid, pid + 1, 0x7F0000000000, 4096, 0, 254, 1, inode, 5, 5, 2)
    name = path + b"\0" * (8 - len(path) % 8)
    length = 8 + len(body) + len(name) + 8
    return struct.pack("<IHH", 10, 2, length) + body + name + struct.pack("<Q", at_ns)


@pytest.mark.parametrize("path", [b"/usr/lib/libssl.so.3", b"/a", b"/" + b"x" * 6, b"/" + b"x" * 7, b"/\xff"])
def test_a_record_tells_who_mapped_what_when(path: bytes) -> None:
    name = path.decode(errors="surrogateescape")
    told = MappingNotice(77, 123_456_789, name, (254, 1, 316533), 5, "7f0000000000-7f0000001000")
    assert parse_record(record(path)) == told


@pytest.mark.parametrize("path", [b"//anon", b"[vdso]", b""])
def test_what_is_no_file_is_no_mapping(path: bytes) -> None:
    assert parse_record(record(path, inode=0)) is None


@pytest.mark.parametrize("name", [b"a", b"1234567", b"12345678", b"123456789012345"])
def test_a_record_tells_who_executed_a_program_when(name: bytes) -> None:
    text = name + b"\0" * (8 - len(name) % 8)
    body = struct.pack("<II", 77, 78) + text + struct.pack("<Q", 123_456_789)
    assert parse_name(struct.pack("<IHH", 3, 1 << 13, 8 + len(body)) + body) == (77, 123_456_789)


def image(build_id: str, *pids: int, operations: tuple[str, ...] = ()) -> TracedImage:
    planned = tuple(OperationPlan(name, 0, 1, "", ()) for name in operations)
    return TracedImage(FilePlan("/lib/libssl.so.3", build_id, "", "libssl", planned, ()), "/lib/libssl.so.3", pids)


@pytest.mark.parametrize(
    ("request_", "each"),
    [
        (Request((image("a", 1, 2),), ()), True),
        (Request((image("a", *range(1, 10)),), ()), False),
        (Request((image("a", 1),), (), everyone=True), False),
        (Request((image("a", 1),), (), follow=Rules()), False),
        (Request((image("a", 1),), (), follow=Rules(), links="process"), True),
        (Request((image("a", 1),), (), follow=Rules(), childless=True), True),
        (Request((image("a", 1),), (), follow=Rules(), childless=True, links="shared"), False),
        (Request((image("a", 1),), (), follow=Rules(), childless=True, wait=True), False),
        (Request((image("a", *range(1, 10)),), (), follow=Rules(), childless=True), False),
        (Request((image("a", 1), image("a", 2)), (), follow=Rules()), True),
        (Request((image("", 1), image("", 2)), (), follow=Rules()), False),
    ],
)
def test_who_may_have_children_shares_links(monkeypatch: pytest.MonkeyPatch, request_: Request, each: bool) -> None:
    monkeypatch.setattr(kernel, "filters_whole_processes", lambda: True)
    assert links_each_process(request_, Method.MULTI) == each


def test_operations_of_later_images_have_their_numbers_from_the_start() -> None:
    images = (image("a", 1, operations=("SSL_write", "SSL_read", "SSL_free")),)
    assert numbered(images, later=False) == operations_of(images) == ["SSL_write", "SSL_read"]
    later = numbered(images, later=True)
    assert later[:2] == ["SSL_write", "SSL_read"]
    assert len(set(later)) == len(later) <= abi.Geometry.OPERATIONS
    assert {"SSL_do_handshake", "RSA_sign"} <= set(later)
    assert "SSL_free" not in later
