# SPDX-License-Identifier: Apache-2.0
"""An unrelated process that maps the same libraries: whether its code holds breakpoints, and what is said of it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.probes.planner import plan_image
from ssllatency.targets import code_byte, mapped_files
from tests.live.commands.handshakes import Shakes
from tests.live.commands.snoop import Snoop
from tests.live.commands.trace import Trace, count, losses
from tests.live.servers.late import Late, connect, late
from tests.live.servers.nginx import make_certificate
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
NAME = "ssll-other"
PAYS = "other process"


@pytest.fixture
def other(certificates: Path, tmp_path: Path) -> Iterator[Late]:
    """That process: a server that isn't traced."""
    program = tmp_path / NAME
    shutil.copy(os.path.realpath(sys.executable), program)
    with late(certificates, program=str(program)) as server:
        server.do("load")
        yield server


@pytest.fixture
def server(certificates: Path) -> Iterator[Late]:
    """The server to trace, in which no probe of an earlier run is left: the kernel takes 0.1 s to remove a perf event."""
    with late(certificates) as started:
        started.do("load")
        wait_for(lambda: breakpoints(started) == 0)
        yield started


@cache
def sites(path: str) -> dict[int, int]:
    """The planned sites of a library by their offsets, and the byte that the file has there."""
    content = Path(path).read_bytes()
    planned = plan_image(Image.open(path)).operations
    return {probe.offset: content[probe.offset] for operation in planned for probe in operation.probes}


def breakpoints(process: Late) -> int:
    """How many of the sites of its libssl hold something else in the process's memory than in the file."""
    pid = process.process.pid
    (libssl,) = (file for file in mapped_files(pid) if "/libssl" in file.path)
    bytes_now = {offset: code_byte(pid, libssl, offset) for offset in sites(libssl.path)}
    assert None not in bytes_now.values()
    return sum(bytes_now[offset] != byte for offset, byte in sites(libssl.path).items())


def sentences(trace: Trace) -> list[str]:
    """What the trace says of others."""
    return [note for note in trace.document["notes"] if PAYS in note]


def test_with_links_of_its_own_no_other_process_has_a_breakpoint(server: Late, other: Late) -> None:
    with Trace(server.process.pid, options=("--links", "process")) as trace:
        assert breakpoints(server) > 0
        assert breakpoints(other) == 0
        server.do("serve 3", 3)
        other.do("serve 2", 2)
    assert count(trace.document, "SSL_do_handshake") == 3
    assert sentences(trace) == []
    assert losses(trace.document) == {}


def test_where_links_are_shared_it_is_said_at_once_who_pays(server: Late, other: Late) -> None:
    with Trace(server.process.pid) as trace:
        trace.wait_until_said(PAYS)
        assert breakpoints(server) > 0
        assert breakpoints(other) > 0
        other.do("serve 2", 2)
        server.do("serve 3", 3)
    assert breakpoints(other) == 0
    assert count(trace.document, "SSL_do_handshake") == 3
    (sentence,) = sentences(trace)
    assert sentence.startswith("The probes cost ")  # names are left out where the line has no room for them
    assert "--links process spares them" in sentence


def test_where_handshakes_are_measured_it_is_said_too(server: Late, other: Late) -> None:
    with Shakes(server.process.pid) as shakes:
        shakes.wait_until_said(PAYS)
        assert breakpoints(other) > 0
        server.do("serve 1", 1)


def test_where_calls_are_printed_it_is_said_too(server: Late, other: Late) -> None:
    with Snoop(server.process.pid) as snoop:
        wait_for(lambda: PAYS in snoop.said)
        assert breakpoints(other) > 0


def test_of_one_that_comes_later_it_is_said_then(certificates: Path, tmp_path: Path) -> None:
    """On libraries that nobody else maps."""
    copies = copied_libraries(tmp_path)
    with late(certificates, *copies) as server, late(certificates, *copies) as newcomer:
        server.do("load")
        with Trace(server.process.pid) as trace:
            server.do("serve 1", 1)
            newcomer.do("load")
            trace.wait_until_said(PAYS)
            assert breakpoints(newcomer) > 0
            name = Path(f"/proc/{newcomer.process.pid}/comm").read_text().strip()
    (sentence,) = sentences(trace)
    assert sentence.startswith("The probes cost 1 other process ")
    assert f": {name}" in sentence


def copied_libraries(folder: Path) -> tuple[str, ...]:
    """A prefix that runs a command with copies of the libraries."""
    for file in mapped_files_of_ssl():
        shutil.copy(file, folder)
    return ("env", f"LD_LIBRARY_PATH={folder}")


def mapped_files_of_ssl() -> list[str]:
    """The libssl and libcrypto that Python loads here."""
    import ssl  # noqa: F401 -- loads them

    return [file.path for file in mapped_files(os.getpid()) if "/libssl" in file.path or "/libcrypto" in file.path]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_a_server_that_can_have_no_children_costs_others_nothing(folder: Path, other: Late) -> None:
    """Without an option, and no call is missed."""
    make_certificate("ecdsa", folder)
    for file in folder.iterdir():
        file.chmod(0o644)
    user = ["setpriv", "--reuid", "64992", "--regid", "64992", "--clear-groups", "--no-new-privs"]
    try:
        with late(folder, "prlimit", "--nproc=1:1", *user) as server:
            server.do("load")
            with Trace(server.process.pid) as trace:
                assert breakpoints(server) > 0
                assert breakpoints(other) == 0
                server.do("serve 20", 20)
    finally:
        for file in folder.iterdir():
            file.unlink()
    assert count(trace.document, "SSL_do_handshake") == 20
    assert sentences(trace) == []
    assert losses(trace.document) == {}


def test_children_with_links_of_their_own_are_counted_or_late(server: Late, other: Late) -> None:
    """Each child is told of at once, and its links are closed when it has ended."""
    with Trace(server.process.pid, options=("--links", "process")) as trace:
        for _ in range(3):
            server.say("fork 2")
            trace.wait_until_said("ms after it had started")
            for _ in range(2):
                connect(server.port)
            server.hear()
        assert breakpoints(other) == 0
    assert losses(trace.document)["late_processes"] == 3
    assert 2 <= count(trace.document, "SSL_do_handshake") <= 6


def test_of_a_child_that_executes_a_program_nothing_is_missed(certificates: Path, server: Late, other: Late) -> None:
    """It has its links before the program maps a library."""
    forking = ("sh", "-c", 'read line; "$@"; true', "sh")
    with (
        late(certificates, *forking, held=True) as shell,
        Trace(server.process.pid, shell.process.pid, options=("--links", "process")) as trace,
    ):
        shell.go()
        time.sleep(1)  # for the links, as that isn't said
        shell.do("load")
        shell.do("serve 3", 3)
        assert breakpoints(other) == 0
    assert count(trace.document, "SSL_do_handshake") == 3
    assert losses(trace.document) == {}
