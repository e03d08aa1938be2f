# SPDX-License-Identifier: Apache-2.0
"""Cookies and library records: what user space tells the kernel side, bit by bit."""

from __future__ import annotations

import pytest

from ssllatency import abi
from ssllatency.code.machine import Cost
from ssllatency.code.values import FieldPath
from ssllatency.engines.attach.sites import cookie, library_record, operations_of, remembers_sides, sites_of
from ssllatency.engines.base import TracedImage
from ssllatency.probes.catalogue import BY_NAME, CATALOGUE
from ssllatency.probes.plan import CONSTANTS, FilePlan, Leaving, OperationPlan, Probe, Role, SslOffsets
from ssllatency.stacks.boringssl.stack import BoringSsl
from ssllatency.stacks.openssl.operations import FATAL
from ssllatency.stacks.openssl.stack import OpenSsl


def probe(role: Role, offset: int = 0x1000, **more: object) -> Probe:
    return Probe(offset, offset, role, "push rbp", Cost.EMULATED, **more)  # type: ignore[arg-type]


def field(value: int, shift: abi.Cookie, bits: int) -> int:
    return value >> shift & (1 << bits) - 1


def image(*planned: OperationPlan, path: str = "/lib/libssl.so.3") -> TracedImage:
    return TracedImage(FilePlan(path, "", "", "libssl", planned, ()), path, (1,))


def test_each_field_of_a_cookie_lies_in_its_bits() -> None:
    site = probe(Role.EXIT, stack_delta=0x1238, return_register="r12", shared=True)
    value = cookie(site, BY_NAME["SSL_read"], 0xA5, 0x5A)
    assert field(value, abi.Cookie.OPERATION, 8) == 0xA5
    assert field(value, abi.Cookie.CONVENTION, 4) == abi.Convention.SSL_IO
    assert field(value, abi.Cookie.REGISTER, 5) == 12
    assert field(value, abi.Cookie.SHARED, 1) == 1
    assert field(value, abi.Cookie.SKIP_NULL, 3) == 0
    assert field(value, abi.Cookie.SSL, 1) == 1
    assert field(value, abi.Cookie.LIBRARY, 8) == 0x5A
    assert field(value, abi.Cookie.STACK, 16) == 0x1238


@pytest.mark.parametrize(
    ("register", "number"),
    [("rax", 0), ("rcx", 1), ("rdi", 7), ("r8", 8), ("r15", 15), *((f"x{number}", number) for number in range(31))],
)
def test_a_register_has_its_own_number(register: str, number: int) -> None:
    value = cookie(probe(Role.EXIT, return_register=register), BY_NAME["RSA_sign"], 0, 0)
    assert field(value, abi.Cookie.REGISTER, 5) == number
    assert field(value, abi.Cookie.SHARED, 1) == 0


def test_a_size_query_is_skipped_and_its_exit_is_no_loss() -> None:
    value = cookie(probe(Role.EXIT, return_register="rax"), BY_NAME["ed25519_digest_sign"], 0, 0)
    assert field(value, abi.Cookie.SKIP_NULL, 3) == 2
    assert field(value, abi.Cookie.SHARED, 1) == 1
    assert field(value, abi.Cookie.SSL, 1) == 0


@pytest.mark.parametrize(
    ("more", "condition", "taken", "other"),
    [
        ({"return_register": "rbx"}, 0, abi.Exit.IN_REGISTER, abi.Exit.IN_REGISTER),
        ({"taken_value": -2, "other_value": -2}, 0, 2, 2),
        ({"condition": "jg", "taken_value": 11, "other_value": 0}, 15, 15, abi.Exit.CONSTANT),
        ({"condition": "jno", "leaving": Leaving.TAKEN, "taken_value": 1}, 1, 5, abi.Exit.GOES_ON),
        ({"condition": "je", "leaving": Leaving.OTHER, "return_register": "rax"}, 4, abi.Exit.GOES_ON, 0),
    ],
)
def test_what_an_exit_tells(more: dict[str, object], condition: int, taken: int, other: int) -> None:
    value = cookie(probe(Role.EXIT, **more), BY_NAME["SSL_read"], 0, 0)
    assert field(value, abi.Cookie.CONDITION, 4) == condition
    assert field(value, abi.Cookie.TAKEN, 4) == taken
    assert field(value, abi.Cookie.OTHER, 4) == other
    assert all(abi.Exit.GOES_ON < abi.Exit.CONSTANT + number < 16 for number in CONSTANTS)


def test_sites_go_by_role_and_operations_by_number() -> None:
    read = OperationPlan(
        "SSL_read", 0x100, 50, "dynamic symbol", (probe(Role.ENTRY, 0x110), probe(Role.EXIT, 0x130, return_register="rax"))
    )
    shake = OperationPlan("SSL_do_handshake", 0x200, 50, "dynamic symbol", (probe(Role.RETURN, 0x200),))
    one, two = image(read), image(shake, read, path="/other")
    names = operations_of((one, two))
    assert names == ["SSL_read", "SSL_do_handshake"]
    sites = sites_of(two, names, 1)
    assert [offset for offset, _ in sites.entries] == [0x110]
    assert [offset for offset, _ in sites.exits] == [0x130]
    assert [(offset, field(value, abi.Cookie.OPERATION, 8)) for offset, value in sites.returns] == [(0x200, 1)]


def test_sites_that_free_an_ssl_are_known_by_their_operation() -> None:
    """As a program for exits has them as well. Those of errors have a cookie of another kind."""
    planned = (OperationPlan(name, 0x100, 50, "", (probe(Role.ENTRY, 0x100),)) for name in ("SSL_free", FATAL))
    sites = sites_of(image(*planned), [], 0)
    assert [field(value, abi.Cookie.OPERATION, 8) for _, value in sites.frees] == [abi.Operation.FREE]
    assert [field(value, abi.Cookie.OPERATION, 8) for _, value in sites.errors] == [0]


@pytest.mark.parametrize(
    ("names", "remembers"),
    [
        (("SSL_read", "SSL_do_handshake", "SSL_free"), True),
        (("SSL_accept", "SSL_free"), True),
        (("SSL_read", "SSL_do_handshake"), False),
        (("SSL_read", "SSL_free"), False),
    ],
)
def test_a_side_is_remembered_only_where_its_beginning_and_end_are_seen(names: tuple[str, ...], remembers: bool) -> None:
    planned = (OperationPlan(name, 0, 1, "", ()) for name in names)
    assert remembers_sides(image(*planned).plan) == remembers


def test_unknown_offsets_are_minus_one() -> None:
    record = library_record(SslOffsets(rwstate=0x28, version=0), OpenSsl())
    assert (record.rwstate, record.typed) == (0x28, 0)
    assert {record.server, record.rbio, record.wbio, record.shutdown, record.state, record.bio_flags} == {-1}
    assert (record.stack, record.holder, record.server_bits) == (abi.Stack.OPENSSL, -1, 0)
    assert library_record(SslOffsets(version=72), OpenSsl()).typed == 1


def test_boringssl_s_places() -> None:
    record = library_record(SslOffsets(rwstate=196, server=164, boringssl=48, server_bits=4), BoringSsl())
    assert record.stack == abi.Stack.BORINGSSL
    assert (record.holder, record.rwstate, record.server, record.server_bits, record.typed) == (48, 196, 164, 4, 0)


def test_the_catalogue_fits_a_cookie_and_names_nothing_twice() -> None:
    assert len(BY_NAME) == len(CATALOGUE) <= 256


def test_a_library_s_record_has_the_ways_to_labels_that_the_kernel_side_reads() -> None:
    offsets = SslOffsets(rwstate=0x28, rbio=0x10, bio_method=0, bio_descriptor=0x30)
    labels = {"version": FieldPath((8, 16), 4), "verify_result": FieldPath((24,), 8)}  # the latter isn't read there
    record = library_record(offsets, OpenSsl(), labels)
    known = {
        place.name: list(record.paths[place].offsets)[: record.paths[place].length]
        for place in abi.PlaceOf
        if _has(record, place)
    }
    assert known == {"VERSION": [8, 16], "BIO_TYPE": [0x10, 0, 0], "BIO_DESCRIPTOR": [0x10, 0x30]}
    assert record.paths[abi.PlaceOf.VERSION].size == 4
    assert record.rwstate == 0x28


def _has(record: abi.Library, place: abi.PlaceOf) -> bool:
    return place is not abi.PlaceOf.PLACES and bool(record.paths[place].length)
