# SPDX-License-Identifier: Apache-2.0
"""Plans of real Go executables: those of tools/for-tests/setup-go, which also builds others that are read here then, and the
OpenTelemetry Collector of tools/for-tests/setup-collector, a large one."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.stacks.go.body import calls_to
from ssllatency.stacks.go.plan import FunctionPlan, plan
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.stack import Go
from ssllatency.stacks.go.traced_functions import CHOOSERS, FUNCTIONS, SERVER_HANDSHAKE, Shape
from ssllatency.stacks.implementations import tls_inside

TOP = Path(__file__).resolve().parents[4]
BUILT = TOP / "build" / "go"
COLLECTOR = TOP / "build/collector/collector/usr/bin/collector"
NEEDED = ("1.18.10-amd64", "1.18.10-arm64", "1.27.3-amd64-pie", "local-arm64")
OTHERS = sorted({path.name.removesuffix(".made") for path in BUILT.glob("*.made") if path.name[:5] != "mode-"} - {*NEEDED})
# Fields of a connection; they move in nearly every version.
OFFSETS = {
    18: {"isClient": 16, "vers": 64, "didResume": 88, "cipherSuite": 90, "peerCertificates": 144, "serverName": 192},
    21: {"isClient": 16, "quic": 32, "vers": 72, "didResume": 97, "cipherSuite": 98, "serverName": 224},
    24: {"isClient": 16, "quic": 32, "vers": 72, "didResume": 97, "cipherSuite": 100, "curveID": 102, "peerCertificates": 152},
    26: {"isClient": 16, "quic": 32, "vers": 72, "didResume": 97, "cipherSuite": 100, "curveID": 102, "serverName": 208},
    27: {"isClient": 16, "quic": 32, "vers": 72, "didResume": 97, "cipherSuite": 100, "curveID": 102, "serverName": 232},
}  # fmt: skip
# What the linker leaves out of programs that don't call it.
NOT_ALWAYS = {"runtime.Goexit", "crypto/mldsa.(*PrivateKey).Sign"}


@cache
def program(name: str) -> Program:
    """The executable called `name`."""
    path = COLLECTOR if name == "collector" else BUILT / name
    if not path.is_file():
        missing = path.parent / f"{name}.missing"
        reason = missing.read_text().strip() if missing.is_file() else f"run tools/for-tests/setup-go {name}"
        pytest.skip(
            f"{name} isn't here: {reason}" if name != "collector" else "no collector: run tools/for-tests/setup-collector"
        )
    return Program(Image.open(path))


@cache
def plans(name: str) -> dict[str, FunctionPlan]:
    """The plans of its functions by their names."""
    return {found.traced.name: found for found in plan(program(name))}


@pytest.fixture(params=[*NEEDED, *OTHERS, "collector"])
def name(request: pytest.FixtureRequest) -> str:
    """The name of an executable."""
    return str(request.param)


def minor_of(name: str) -> int:
    minor = program(name).build_info.minor
    assert minor is not None
    return minor


def test_its_version_is_the_one_that_built_it(name: str) -> None:
    version = program(name).build_info.version
    assert version.startswith("go1.")
    assert name.split("-")[0] in ("local", "collector", "caddy", "coredns", "oauth2", "openssl", version.removeprefix("go"))


def test_its_functions_lie_in_its_code_one_behind_the_other(name: str) -> None:
    read = program(name)
    functions = list(read.functions)
    assert len(functions) > 3000
    assert all(before.address + before.size == after.address for before, after in pairwise(functions))
    assert all(read.image.executable(function.address) for function in functions if function.size)
    assert {"runtime.morestack_noctxt", "main.main", SERVER_HANDSHAKE} <= {function.name for function in functions}


def test_all_functions_that_this_version_has_are_planned(name: str) -> None:
    found = plans(name)
    assert set(found) == {function.name for function in FUNCTIONS if function.exists_in(minor_of(name))}
    assert {function for function, planned in found.items() if planned.obstacle} <= NOT_ALWAYS
    for function, planned in found.items():
        if planned.obstacle:
            continue
        assert planned.inlined_into == (), function
        within = planned.traced.shape in (Shape.CALL, Shape.CLOSURES, Shape.METHOD)
        assert (planned.entry is None) == within, function
        assert bool(planned.exits) == (planned.traced.shape is Shape.SPAN), function
        assert bool(planned.calls) == within, function


@pytest.mark.parametrize("function", ["Read", "Write"])
def test_most_reads_and_writes_end_at_what_they_defer(name: str, function: str) -> None:
    """All that come as far as to take their lock. On aarch64 a `ret` is emulated as it is."""
    planned = plans(name)[f"crypto/tls.(*Conn).{function}"]
    if program(name).image.machine == "aarch64":
        assert planned.deferred is None
        return
    assert planned.deferred is not None
    assert len(planned.deferred.returns) >= 4
    assert len(planned.exits) <= 3
    called = program(name).functions.at(planned.deferred.code.address)
    assert called is not None
    assert called.name.startswith((f"{planned.traced.name}.func", f"{planned.traced.name}.deferwrap"))


@pytest.mark.slow
def test_only_those_whose_branches_are_sites_choose_a_certificate(name: str) -> None:
    """Of all functions that the program has."""
    read = program(name)
    (chooses,) = read.functions.named("crypto/tls.(*Config).getCertificate")
    called = b"\xe8" if read.image.machine == "x86-64" else b""
    callers = set()
    for function in read.functions:
        code = read.image.code(function.address, function.size) if function.size else b""
        if called in code and any(calls_to(read.image.machine, code, chooses.address - function.address)):
            callers.add(function.name)
    assert callers == {caller.name for caller in CHOOSERS}


def test_each_call_of_a_callback_is_found_and_no_other_closure(name: str) -> None:
    """As many as the sources have, for either machine."""
    callers = {function: found for function, found in plans(name).items() if found.traced.shape is Shape.CLOSURES}
    calls = {function.rpartition(".(")[2]: len(found.calls) for function, found in callers.items()}
    several = {"*serverHandshakeStateTLS13).readClientCertificate", "*Conn).verifyServerCertificate"}
    if minor_of(name) >= 25:
        several.add("*Conn).readClientHello")
    assert {function for function, number in calls.items() if number == 2} == several
    assert set(calls.values()) == {1, 2}


def test_entries_of_new_functions_are_pushes_and_of_older_ones_checks(name: str) -> None:
    machine, minor = program(name).image.machine, minor_of(name)
    spans = [planned for planned in plans(name).values() if planned.exits]
    entries = [planned.entry for planned in spans if planned.entry]
    pushes = [entry for entry in entries if program(name).image.code(entry.address, 1) == b"\x55"]
    if machine == "x86-64" and minor >= 21:
        assert pushes == entries
        assert not any(entry.not_taken for entry in entries)
    else:
        assert not pushes
        assert all(entry.not_taken for entry in entries)


def test_functions_that_are_inlined_are_named_with_their_hosts(name: str) -> None:
    hosts = program(name).inlining.hosts("crypto/tls.(*Conn).HandshakeContext")
    assert {"crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write"} <= set(hosts)


def test_the_fields_of_a_connection_are_where_its_compiler_put_them(name: str) -> None:
    types = program(name).types
    conn = types.find("crypto/tls", "Conn")
    assert conn is not None
    fields = {field: place.offset for field, place in types.fields(conn).items()}
    assert len(fields) > 30
    assert all(offset < types.size(conn) for offset in fields.values())
    expected = OFFSETS.get(minor_of(name), {})
    assert {field: fields[field] for field in expected} == expected
    pointer = types.pointer_to(conn)
    assert pointer is not None
    assert types.name(pointer) == "*tls.Conn"
    for package, struct, field, offset in (
        ("net", "netFD", "pfd", 0),
        ("internal/poll", "FD", "Sysfd", 16),
        ("net", "OpError", "Err", 64),
    ):
        type_ = types.find(package, struct)
        assert type_ is not None
        assert types.fields(type_)[field].offset == offset


def test_the_errors_of_a_handshake_have_their_itabs(name: str) -> None:
    errors = program(name).types.errors
    assert {"*net.OpError", "tls.alert", "*tls.permanentError", "tls.RecordHeaderError", "*errors.errorString"} <= set(errors)
    assert len(set(errors.values())) == len(errors)


def test_a_deadline_that_has_passed_is_known_by_its_error(name: str) -> None:
    errors = program(name).types.errors
    distance = errors["*poll.DeadlineExceededError"] - errors["*net.OpError"]
    assert {"client": 16, "deadline": distance}.items() <= Go().connection(program(name).image).items()


def test_functions_are_those_of_the_symbol_table() -> None:
    read = program("local-arm64")
    compared = 0
    for function in read.functions:
        symbol = read.image.own_function(function.name)
        if symbol and len(read.functions.named(function.name)) == 1:
            assert symbol.address == function.address
            assert 0 <= function.size - symbol.size < 64, "padding follows"
            compared += 1
    assert compared > 3000


def test_it_is_recognised_as_a_program_with_tls(name: str) -> None:
    version = program(name).build_info.version
    assert tls_inside(program(name).image).traceable == ("Go crypto/tls", version)
