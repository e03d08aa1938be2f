# SPDX-License-Identifier: Apache-2.0
"""OpenSSL linked into the program: with its symbol table, by a separate debug file, and with nothing, of which it is said what
would help. The program is the example server, which counts its own calls. And AWS-LC as Rust's programs have it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from tests import foreign, machine
from tests.fixtures import build
from tests.live.commands.handshakes import Shakes, assert_books, labels_of
from tests.live.commands.trace import PROGRAM, Trace, count, losses
from tests.live.exact.test_async import PRIVATE_KEY, assert_told_like
from tests.live.servers.jobs import TOP, AsyncServer, AsyncSettings, load

pytestmark = pytest.mark.usefixtures("tracing")

CONNECTIONS = 60
LIBRARIES = "OPENSSL_LIBS=-l:libssl.a -l:libcrypto.a -ldl"


@pytest.fixture(scope="module", params=["-static", "-pie"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server with OpenSSL in it, and with the C library or without."""
    return linked(tmp_path_factory.mktemp("program"), request.param)


def linked(folder: Path, flags: str, *more: str) -> Path:
    """The server, linked so."""
    command = ["make", "-s", "-C", TOP / "examples" / "async-server", f"OUT={folder}", LIBRARIES, f"LDFLAGS={flags}", *more]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "async-server"


def debug_place(program: Path) -> str:
    """Where its debug file lies by its build-id."""
    build_id = Image.open(program).build_id
    return f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


def assert_counted(server: AsyncServer, found: str, *, told: bool = True) -> Shakes:
    """Both commands count what the server counts, and its functions were found so, those as well that lie below the private
    key's operation if these are `told`; the handshakes."""
    listed = subprocess.run([PROGRAM, "probes", "-p", str(server.pid), "--json"], capture_output=True, check=True, timeout=60)
    [plan] = json.loads(listed.stdout)["files"]
    assert plan["kind"] == "static"
    assert {one["found"] for one in plan["operations"] if one["operation"].startswith("SSL_")} == {found}
    with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
        assert load(server, connections=CONNECTIONS, parallel=10) == CONNECTIONS
        server.wait_idle()
    final = server.stop()
    assert_told_like(trace.document, final)
    assert count(trace.document, PRIVATE_KEY[server.settings.kind]) == (CONNECTIONS if told else 0)
    assert trace.document["notes"] == []
    assert labels_of(shakes.singles, "version", "role") == [("TLSv1.3", "server")] * final["handshakes"]
    assert_books(shakes)
    return shakes


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_with_its_symbol_table(certificates: Path, program: Path, kind: str) -> None:
    with AsyncServer(certificates, AsyncSettings(kind, asynchronous=False), program=program) as server:
        assert_counted(server, "symbol table")


def test_by_its_debug_link(certificates: Path, program: Path, tmp_path: Path) -> None:
    debug = build.debug_file(program, tmp_path / "server.debug")
    server = build.with_debug_link(program, "linked", debug).rename(tmp_path / "linked")
    with AsyncServer(certificates, AsyncSettings(asynchronous=False), program=server) as running:
        assert_counted(running, f"debug file {debug}")


def test_by_its_build_id_in_its_own_root(certificates: Path, tmp_path: Path) -> None:
    program = linked(tmp_path, "-static")
    (tmp_path / "tmp").mkdir()
    debug = build.debug_file(program, tmp_path / debug_place(program))
    server = build.stripped(program, "stripped")
    with AsyncServer(certificates, AsyncSettings(asynchronous=False), root=tmp_path, program=server) as running:
        assert_counted(running, f"debug file /proc/{running.pid}/root/{debug.relative_to(tmp_path)}")


def test_stripped_openssl(certificates: Path, program: Path) -> None:
    """By the names that its functions give with the errors that they raise."""
    with AsyncServer(certificates, AsyncSettings(asynchronous=False), program=build.stripped(program, "bare")) as server:
        shakes = assert_counted(server, "errors raised")
    told = {*labels_of(shakes.ended("success"), "cipher", "group", "resumed")}
    assert told == {("TLS_AES_128_GCM_SHA256", "x25519", "no")}  # as h2load prefers
    assert all({"private_key", "key_exchange"} <= single["parts_ns"].keys() for single in shakes.ended("success"))


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_stripped_openssl_1_1_1(certificates: Path, tmp_path: Path, kind: str) -> None:
    """By the numbers of its functions that they give with the errors that they raise. It doesn't keep a handshake's group."""
    machine.needs_architecture("x86_64", "for which OpenSSL 1.1.1 was fetched")
    folder = foreign.needed(foreign.find("libssl.a-1.1-x86-64")).parent
    include = folder.parents[1] / "include"
    headers = f"OPENSSL_CFLAGS=-I{include} -I{include / folder.name}"
    program = linked(tmp_path, f"-static -L{folder}", headers)
    with AsyncServer(certificates, AsyncSettings(kind, asynchronous=False), program=build.stripped(program, "bare")) as server:
        shakes = assert_counted(server, "errors raised", told=kind == "rsa")
    assert {*labels_of(shakes.ended("success"), "cipher", "resumed")} == {("TLS_AES_128_GCM_SHA256", "no")}
    assert all({"private_key", "key_exchange"} <= single["parts_ns"].keys() for single in shakes.ended("success"))


@pytest.mark.parametrize("program", ["-static"], indirect=True)
@pytest.mark.parametrize("command", ["trace", "handshakes", "snoop", "probes"])
def test_with_nothing(certificates: Path, program: Path, command: str) -> None:
    """Not even with what tells where functions begin."""
    server = build.stripped(program, "bare")
    build.run("objcopy", "--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr", server)
    words = (
        "OpenSSL is linked into bare and shows no names of its functions (stripped), nor where these begin (no unwind tables); "
        "what would help is a build of bare that has its symbol table."
    )
    with AsyncServer(certificates, AsyncSettings(asynchronous=False), program=server) as running:
        done = subprocess.run(
            [PROGRAM, command, "-p", str(running.pid)], capture_output=True, text=True, check=False, timeout=60
        )
        listed = subprocess.run(
            [PROGRAM, "targets", "-p", str(running.pid)], capture_output=True, text=True, check=True, timeout=60
        )
        pid = running.pid
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ssllatency: bare (PID {pid}) can't be traced: {words}\n"
    assert f"Not traced in bare (PID {pid}): {words}" in " ".join(listed.stdout.split())


def test_operations_of_aws_lc_rs_are_counted(tmp_path: Path) -> None:
    """By functions of AWS-LC's names in rustls. A call that asks for a size isn't an operation; one that fails is."""
    program = build.program(tmp_path, "server", "aws_lc_rs.c")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdout.readline()
            with Trace(process.pid) as trace:
                for _ in range(CONNECTIONS):
                    process.stdin.write("\n")
                    process.stdin.flush()
                    process.stdout.readline()
        finally:
            process.kill()
    counted = {
        (name, outcome): count(trace.document, f"aws_lc_{name}", outcome)
        for name in ("EVP_DigestSign", "RSA_sign_pss_mgf1", "EVP_PKEY_derive")
        for outcome in ("success", "failure")
    }
    assert counted.pop(("EVP_PKEY_derive", "failure")) == 0
    assert set(counted.values()) == {CONNECTIONS}
    assert losses(trace.document) == {}
