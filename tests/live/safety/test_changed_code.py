# SPDX-License-Identifier: Apache-2.0
"""Code that isn't what was planned: a process that has changed it in its own memory, as a live patch or a hook does, and a
library that is overwritten while it is traced. Nobody crashes, others are counted exactly, and the report says who isn't."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.commands.trace import Document, Trace, TraceError, count
from tests.live.servers.file_systems import openssl_in, other_build
from tests.live.servers.late import Late, late
from tests.live.victims.hooked import hook_file, hook_process

pytestmark = pytest.mark.usefixtures("tracing")
TIMES = 5
HANDSHAKE = "SSL_do_handshake"


@pytest.fixture
def libssl(tmp_path: Path) -> Path:
    return openssl_in(tmp_path / "own")


@contextmanager
def served_by(libssl: Path, certificates: Path) -> Iterator[Late]:
    with late(certificates, "env", f"LD_LIBRARY_PATH={libssl.parent}") as server:
        server.do("load")
        yield server


def serve(server: Late, word: str = "serve") -> None:
    server.do(f"{word} {TIMES}", TIMES)
    assert server.process.poll() is None


def counted(document: Document, server: Late) -> int:
    rows = [row for row in document["functions"] if row["pid"] == server.process.pid]
    return count({**document, "functions": rows}, HANDSHAKE)


def options_for(by: str, libssl: Path, *servers: Late) -> tuple[tuple[int, ...], tuple[str, ...]]:
    if by == "library":
        return (), ("--library", str(libssl), "--by-process")
    return tuple(server.process.pid for server in servers), ("--by-process",)


@pytest.mark.parametrize("by", ["pid", "library", "other"])
def test_a_process_that_has_changed_the_code_goes_on(certificates: Path, libssl: Path, by: str) -> None:
    """Whether it is to be traced or not: a shared link would set its breakpoints in everyone's memory."""
    with served_by(libssl, certificates) as hooked, served_by(libssl, certificates) as plain:
        hook_process(hooked.process.pid, libssl, HANDSHAKE)
        serve(hooked)
        pids, options = options_for(by, libssl, plain, *([hooked] if by == "pid" else []))
        with Trace(*pids, options=options) as trace:
            serve(hooked)
            serve(hooked, "fork")
            serve(plain)
            serve(plain, "fork")
        serve(hooked)
    assert counted(trace.document, plain) == TIMES
    assert trace.document["losses"]["late_processes"]  # the child, however short it lived
    assert counted(trace.document, hooked) == 0
    (note,) = [note for note in trace.document["notes"] if f"(PID {hooked.process.pid})" in note]
    assert f"has changed the code of {libssl} in its own memory" in note


def test_alone_it_is_refused_and_not_harmed(certificates: Path, libssl: Path) -> None:
    with served_by(libssl, certificates) as hooked:
        hook_process(hooked.process.pid, libssl, HANDSHAKE)
        hook_process(hooked.process.pid, libssl.with_name("libcrypto.so.3"), "RSA_sign")
        with pytest.raises(TraceError, match="No other process is left to trace"), Trace(hooked.process.pid):
            pass
        serve(hooked)


@pytest.mark.parametrize("links", [(), ("--links", "process")], ids=["shared", "own"])
def test_nobody_keeps_a_library_that_is_loaded_later_from_being_traced(
    certificates: Path, tmp_path: Path, libssl: Path, links: tuple[str, ...]
) -> None:
    """Everybody may change the code of a library in their own memory: a stranger, and the first one who loads it. The others
    get probes, also where links are shared for the library that is traced already."""
    first = other_build(libssl, openssl_in(tmp_path / "first"))
    prefix = "env", f"LD_LIBRARY_PATH={libssl.parent}"
    with (
        served_by(first, certificates) as old,
        served_by(libssl, certificates) as stranger,
        late(certificates, *prefix) as hooked,
        late(certificates, *prefix) as plain,
    ):
        hook_process(stranger.process.pid, libssl, HANDSHAKE)
        pids = [server.process.pid for server in (old, hooked, plain)]
        with Trace(*pids, options=("--by-process", *links)) as trace:
            stop_and_hook(trace, hooked, libssl)
            plain.do("load")
            trace.wait_until_said(f"({plain.process.pid}) ")
            for server in (old, stranger, hooked, plain):
                serve(server)
                serve(server, "fork")
            serve(plain)
    assert counted(trace.document, old) == TIMES
    assert counted(trace.document, plain) == 2 * TIMES
    assert counted(trace.document, stranger) == counted(trace.document, hooked) == 0
    changed = [note for note in trace.document["notes"] if f"has changed the code of {libssl} in its own memory" in note]
    assert any(f"(PID {hooked.process.pid})" in note for note in changed)
    assert any(f"(PID {stranger.process.pid})" in note for note in changed) == (not links)


def stop_and_hook(trace: Trace, server: Late, libssl: Path) -> None:
    """The server loads the library, and has changed it before the tracer looks."""
    trace.send(signal.SIGSTOP)
    server.do("load")
    hook_process(server.process.pid, libssl, HANDSHAKE)
    trace.send(signal.SIGCONT)
    trace.wait_until_said(f"(PID {server.process.pid})")


def test_breakpoints_of_another_trace_are_no_change(certificates: Path, libssl: Path) -> None:
    with served_by(libssl, certificates) as server, Trace(server.process.pid) as first, Trace(server.process.pid) as second:
        serve(server)
    for trace in (first, second):
        assert count(trace.document, HANDSHAKE) == TIMES
        assert not any("changed the code" in note for note in trace.document["notes"])


@pytest.mark.parametrize("options", [(), ("--links", "process"), ("--budget", "50%")], ids=["shared", "own", "budget"])
def test_a_library_that_is_overwritten_kills_nobody_who_maps_it_then(
    certificates: Path, libssl: Path, options: tuple[str, ...]
) -> None:
    """Breakpoints are set by offsets: in the new content they would lie in the midst of other instructions."""
    with served_by(libssl, certificates) as before, Trace(options=("--library", str(libssl), *options)) as trace:
        serve(before)
        hook_file(libssl, HANDSHAKE)
        os.utime(libssl, ns=(0, 0))
        trace.wait_until_said("was overwritten while it was traced")
        with served_by(libssl, certificates) as after:
            serve(after)
        assert trace.is_running
    if not options:
        assert count(trace.document, HANDSHAKE) == TIMES
    assert any("its probes were removed" in note for note in trace.document["notes"])
