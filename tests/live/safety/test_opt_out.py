# SPDX-License-Identifier: Apache-2.0
"""A process whose owner has opted out: of one library file it gets no probe, in its memory no byte of code is another, and the
others that map the file are counted exactly."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.commands.trace import Document, Trace, TraceError, count
from tests.live.servers.file_systems import openssl_in
from tests.live.servers.late import Late, late
from tests.live.servers.roots import cgroup, within_cgroup
from tests.live.victims.hooked import code_bounds

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 5
HANDSHAKE = "SSL_do_handshake"
OFF = "SSLLATENCY_OFF=1"


@pytest.fixture
def libssl(tmp_path: Path) -> Path:
    return openssl_in(tmp_path / "own")


@contextmanager
def served_by(libssl: Path, certificates: Path, *environment: str, program: str = sys.executable) -> Iterator[Late]:
    with late(certificates, "env", f"LD_LIBRARY_PATH={libssl.parent}", *environment, program=program) as server:
        server.do("load")
        yield server


def code_of(pid: int, library: Path) -> bytes:
    """The library's code as the process has it, breakpoints included."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    (found,) = re.findall(rf"^([0-9a-f]+)-([0-9a-f]+) r-xp .* {re.escape(str(library))}$", maps, re.MULTILINE)
    start, end = (int(word, 16) for word in found)
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        return os.pread(memory.fileno(), end - start, start)


def counted(document: Document, server: Late) -> int:
    rows = [row for row in document["functions"] if row["pid"] == server.process.pid]
    return count({**document, "functions": rows}, HANDSHAKE)


@pytest.mark.parametrize("by", ["pid", "library", "other"])
def test_a_process_that_has_opted_out_is_not_touched(certificates: Path, libssl: Path, by: str) -> None:
    with served_by(libssl, certificates, OFF) as off, served_by(libssl, certificates) as plain:
        untouched = code_of(off.process.pid, libssl)
        assert code_of(plain.process.pid, libssl) == untouched
        pids = {"pid": (off.process.pid, plain.process.pid), "other": (plain.process.pid,), "library": ()}[by]
        options = ("--by-process", *(("--library", str(libssl)) if by == "library" else ()))
        with Trace(*pids, options=options) as trace:
            for server in (off, plain):
                server.do(f"serve {TIMES}", TIMES)
            assert code_of(off.process.pid, libssl) == untouched
            assert code_of(plain.process.pid, libssl) != untouched
            with served_by(libssl, certificates, OFF) as later:  # where the links are each process's own
                assert code_of(later.process.pid, libssl) == untouched
    assert (counted(trace.document, plain), counted(trace.document, off)) == (TIMES, 0)
    (note,) = [note for note in trace.document["notes"] if f"(PID {off.process.pid})" in note]
    assert f"has SSLLATENCY_OFF in its environment (user {os.getuid()}): no probe is set there." in note


@pytest.mark.parametrize("name", ["\rUid:", "\x0bUid: a"])
def test_no_name_that_it_has_ends_a_trace_of_all(certificates: Path, libssl: Path, tmp_path: Path, name: str) -> None:
    """Neither of one that is there, nor of one that comes later."""
    program = tmp_path / name
    program.symlink_to(sys.executable)
    with (
        served_by(libssl, certificates, OFF, program=str(program)) as off,
        served_by(libssl, certificates) as plain,
        Trace(options=("--all", "--by-process", "--links", "process")) as trace,
    ):
        untouched = code_of(off.process.pid, libssl)
        assert Path(f"/proc/{off.process.pid}/comm").read_bytes() == name.encode() + b"\n"
        with served_by(libssl, certificates, OFF, program=str(program)) as later:
            for server in (off, plain, later):
                server.do(f"serve {TIMES}", TIMES)
            assert code_of(later.process.pid, libssl) == untouched
        plain.do(f"serve {TIMES}", TIMES)
    assert [counted(trace.document, server) for server in (plain, off, later)] == [2 * TIMES, 0, 0]
    (note,) = [note for note in trace.document["notes"] if f"(PID {off.process.pid})" in note]
    assert f"has SSLLATENCY_OFF in its environment (user {os.getuid()})" in note


def test_alone_it_is_refused(certificates: Path, libssl: Path) -> None:
    with (
        served_by(libssl, certificates, OFF) as off,
        pytest.raises(TraceError, match="No other process is left to trace: restart it without SSLLATENCY_OFF"),
        Trace(off.process.pid),
    ):
        pass


@pytest.fixture
def unit() -> Iterator[Path]:
    """A group of control, as systemd makes one for a unit."""
    with cgroup(f"ssllatency-test-{os.getpid()}.service") as folder:
        yield folder


def test_whom_the_hosts_owner_names_is_not_touched(certificates: Path, libssl: Path, unit: Path, tmp_path: Path) -> None:
    """By /etc/ssllatency/never, which only this trace sees: an overlay of its own has it in /etc."""
    (tmp_path / "etc" / "ssllatency").mkdir(parents=True)
    (tmp_path / "etc" / "ssllatency" / "never").write_text(f"unit {unit.name}\n")
    script = f'mount -t overlay -o lowerdir={tmp_path}/etc:/etc overlay /etc && exec "$@"'
    with served_by(libssl, certificates, *within_cgroup(unit)) as named, served_by(libssl, certificates) as plain:
        untouched = code_of(named.process.pid, libssl)
        pids, prefix = (named.process.pid, plain.process.pid), ("unshare", "--mount", "sh", "-c", script, "sh")
        with Trace(*pids, options=("--by-process",), prefix=prefix) as trace:
            for server in (named, plain):
                server.do(f"serve {TIMES}", TIMES)
            assert code_of(named.process.pid, libssl) == untouched
    assert (counted(trace.document, plain), counted(trace.document, named)) == (TIMES, 0)
    (note,) = [note for note in trace.document["notes"] if f"(PID {named.process.pid})" in note]
    assert f"is in /etc/ssllatency/never (unit {unit.name}): no probe is set there." in note


def test_who_comes_when_all_share_the_probes_is_told_of(certificates: Path, libssl: Path) -> None:
    with served_by(libssl, certificates) as plain, Trace(plain.process.pid, options=("--links", "shared")) as trace:
        with served_by(libssl, certificates, OFF) as later:
            trace.wait_until_said(f"({later.process.pid}) has SSLLATENCY_OFF")
            later.do(f"serve {TIMES}", TIMES)
        plain.do(f"serve {TIMES}", TIMES)
    assert count(trace.document, HANDSHAKE) == TIMES
    assert any("--links process spares those that come later" in note for note in trace.document["notes"])


def test_a_traced_process_that_executes_itself_anew_opts_out(certificates: Path, libssl: Path) -> None:
    """It had links of its own, which it would keep: they are closed once it is seen."""
    held = "env", f"LD_LIBRARY_PATH={libssl.parent}", "sh", "-c", f'read -r _; exec env {OFF} "$@"', "sh"
    with served_by(libssl, certificates) as plain, late(certificates, *held, held=True) as server:
        options = ("--links", "process")
        with Trace(plain.process.pid, server.process.pid, options=options) as trace:
            server.go()
            server.do("load")
            trace.wait_until_said(f"(PID {server.process.pid}) has SSLLATENCY_OFF")
            start, end = code_bounds(libssl)
            assert code_of(server.process.pid, libssl)[: end - start] == libssl.read_bytes()[start:end]
            server.do(f"serve {TIMES}", TIMES)
            plain.do(f"serve {TIMES}", TIMES)
    assert count(trace.document, HANDSHAKE) == TIMES
