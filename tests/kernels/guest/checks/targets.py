# SPDX-License-Identifier: Apache-2.0
"""Processes other than one quiet nginx: workers that are replaced, threads, those that start later, a seccomp filter, users
other than root."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ssllatency.elf.image import Image
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.host.kernel import release, return_probes_kill
from ssllatency.model.snapshot import Outcome, Target
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings
from tests.kernels.guest.checks.leavings import changed_bytes
from tests.kernels.guest.filtered import unknown_call_ends_in
from tests.kernels.guest.servers import SETTINGS, assert_document, assert_same, certificates, connect, server
from tests.kernels.guest.ways import Refused, refusal, ways
from tests.live.clients.counted import h2load
from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import Trace, count, counted_pids, counts, losses
from tests.live.servers.nginx import Nginx, Settings, libssl_of, make_certificate
from tests.live.servers.queues import Late, felt_ns, late_server
from tests.waiting import wait_for

RELOADS = 3
_CONNECTIONS = 150
_NOBODY = 65533
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_TRACEPOINT = """
import os, struct
from ssllatency.engines.bpf import perf
number = int(open("/sys/kernel/tracing/events/sched/sched_switch/id").read())
try:
    os.close(perf.open_event(struct.pack("<IIQ", 2, 72, number).ljust(72, b"\\0"), pid=-1, cpu=0))
    print("opened")
except OSError as error:
    print(error.strerror)
"""
_THREE = "+bpf,+perfmon,+sys_ptrace"


def reloaded(*options: str) -> dict[str, Any]:
    """Every handshake is counted while nginx replaces its workers again and again."""
    with (
        Nginx(certificates(), Settings(workers=2)) as nginx,
        Trace(nginx.master_pid, options=("--by-process", *options)) as trace,
    ):
        first = set(nginx.worker_pids())
        reloads = threading.Thread(target=_reload, args=(nginx,))
        reloads.start()
        completed = 0
        while reloads.is_alive():
            completed += h2load(nginx.port["ecdsa"], _CONNECTIONS, parallel=8)
        reloads.join()
        wait_for(lambda: not first & set(nginx.worker_pids()))  # the last load is for new workers, however slow the machine is
        completed += h2load(nginx.port["ecdsa"], _CONNECTIONS, parallel=8)
        nginx.wait_idle()
    assert losses(trace.document) == {}, f"lost: {losses(trace.document)}"
    workers = counted_pids(trace.document, "SSL_do_handshake")
    assert workers - first, f"only the first workers, {first}, served"
    return assert_same({"SSL_do_handshake": count(trace.document, "SSL_do_handshake")}, {"SSL_do_handshake": completed})


def _reload(nginx: Nginx) -> None:
    for _ in range(RELOADS):
        before = set(nginx.worker_pids())
        os.kill(nginx.master_pid, signal.SIGHUP)
        wait_for(lambda before=before: len(set(nginx.worker_pids()) - before) >= nginx.settings.workers)


_THREADED = """
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def serve(plain):
    with context.wrap_socket(plain, server_side=True) as tls:
        tls.recv(100)
        tls.sendall(b"hello")
        tls.unwrap().close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


def threaded(*options: str) -> dict[str, Any]:
    """Calls are counted in threads that aren't their process's first."""
    times, pair = 10, make_certificate("ecdsa", certificates())
    command = [sys.executable, "-c", _THREADED, str(pair.certificate), str(pair.key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            port = int(process.stdout.readline())
            with Trace(process.pid, options=options) as trace:
                for _ in range(times):
                    _greet(port)
        finally:
            process.kill()
    assert losses(trace.document) == {}, f"lost: {losses(trace.document)}"
    expected = {"SSL_do_handshake": times, "ossl_ecdsa_sign": times}
    return assert_same(counts(trace.document, list(expected)), expected)


def _greet(port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain, context.wrap_socket(plain) as tls:
        tls.sendall(b"hi")
        assert tls.recv(100) == b"hello"
        tls.unwrap()


def late_to_write() -> dict[str, Any]:
    """What a server that writes its flights itself takes for that is the application's time, not the peer's."""
    late_s, times = 0.03, 3
    with late_server(certificates(), Late(write_s=late_s, pieces=1)) as (pid, port), Shakes(pid) as shakes:
        shakes.learn(lambda: felt_ns(port))
        for _ in range(times):
            felt_ns(port)
    sums = Counter[str]()
    for single in shakes.singles[-times:]:
        sums.update(single["parts_ns"])
    assert sums["wait_application"] > times * late_s * 1e9, dict(sums)
    assert sums["wait_peer_or_server"] == 0, dict(sums)
    return {part: round(sums[part] / times / 1e3) for part in ("wait_application", "wait_peer", "wall")}


def started_later() -> dict[str, Any]:
    """A server that starts while the trace waits for its name is probed without being asked for, and then counted exactly."""
    command = Trace(options=("--comm", "later-server", "--wait"))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "later-server")
        program.symlink_to("/usr/sbin/nginx")
        with command as trace, _NamedNginx(certificates(), program) as nginx:
            _wait_until_probed(nginx.worker_pids()[0])
            expected = connect(nginx)
    return assert_document(trace.document, expected, late=1)


def _wait_until_probed(pid: int) -> None:
    """Waits until all breakpoints are set: perf events come one by one, and what is called meanwhile is missed, and told so."""
    seen: list[int] = []

    def settled() -> bool:
        seen.append(changed_bytes(pid))
        time.sleep(1)
        return seen[-1] > 0 and len(set(seen[-4:])) == 1 and len(seen) >= 4

    wait_for(settled, 120.0)


class _NamedNginx(Nginx):
    """nginx under another name."""

    def __init__(self, certificates: Path, program: Path) -> None:
        super().__init__(certificates, SETTINGS)
        self._program = program

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        return super()._launch([str(self._program), *command[1:]])


def three_capabilities(*options: str) -> dict[str, Any]:
    """Nobody with the three capabilities of docs/use/privileges.md counts exactly, or is told that perf events ask for more."""
    prefix = as_nobody(f"-all,{_THREE}")

    def run() -> dict[str, Any]:
        nginx = server()
        with Trace(nginx.master_pid, options=options, prefix=prefix) as trace:
            expected = connect(nginx)
        return assert_document(trace.document, expected)

    if len(ways()) == 1 or "perf" in options:
        raise Refused(refusal(run, "as perf events, for which it asks for CAP_SYS_ADMIN"))
    return run()


def events_of_tracefs() -> dict[str, Any]:
    """Nobody with these and CAP_DAC_OVERRIDE counts exactly by perf events, which tracefs defines where the kernel asks for
    CAP_SYS_ADMIN; no definition stays."""
    prefix = as_nobody(f"-all,{_THREE},+dac_override")
    strictest, at_first = _PARANOID.read_text().strip(), _opening_a_tracepoint(prefix)
    _PARANOID.write_text("2")  # from 3 on, which Debian's kernels begin with, one may ask for CAP_SYS_ADMIN for any perf event
    opened = _opening_a_tracepoint(prefix)
    nginx = server()
    try:
        with Trace(nginx.master_pid, options=("--attach", "perf"), prefix=prefix) as trace:
            expected = connect(nginx)
    except Exception as error:
        raise AssertionError(f"{strictest}: {at_first}; 2: {opened}; {error}") from error
    finally:
        _PARANOID.write_text(strictest)
    definitions = Path("/sys/kernel/tracing/uprobe_events")
    wait_for(lambda: "ssllatency" not in definitions.read_text(), 60.0)
    facts = assert_document(trace.document, expected)
    return {**facts, "tracepoints by perf_event_paranoid": {strictest: at_first, "2": opened}}


def _opening_a_tracepoint(prefix: tuple[str, ...]) -> str:
    """What becomes of a perf event of a tracepoint: "opened", or the kernel's refusal."""
    done = subprocess.run([*prefix, sys.executable, "-c", _TRACEPOINT], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def as_nobody(capabilities: str) -> tuple[str, ...]:
    """The prefix that runs a command as a user whom no server runs as, with these capabilities, as setpriv wants them said."""
    folder = Path(tempfile.mkdtemp())
    os.chown(folder, _NOBODY, _NOBODY)
    user = ("--reuid", str(_NOBODY), "--regid", str(_NOBODY), "--clear-groups")
    limits = (word for name in ("inh-caps", "ambient-caps", "bounding-set") for word in (f"--{name}", capabilities))
    return ("setpriv", *user, *limits, "env", f"HOME={folder}", f"XDG_CACHE_HOME={folder}")


class _FilteredNginx(Nginx):
    """nginx with a seccomp filter that kills at the system calls by which later kernels handle uprobes."""

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        return super()._launch([sys.executable, "-m", "tests.kernels.guest.filtered", *command])


def filtered() -> dict[str, Any]:
    """A server under such a filter survives being traced, and all is counted."""
    fate = {name: unknown_call_ends_in(number) for name, number in (("uretprobe", 335), ("uprobe", 336))}
    with _FilteredNginx(certificates(), SETTINGS) as nginx:
        (worker,) = nginx.worker_pids()
        with Trace(nginx.master_pid) as trace:
            expected = connect(nginx)
        deadly = return_probes_kill(release(), seccomp=True, shadow_stack=False)
        if not deadly:
            return_probes_count(nginx, worker)
        assert nginx.worker_pids() == [worker], "the worker died"
    facts = assert_document(trace.document, expected)
    return {**facts, "system calls under the filter": fate, "return probes": deadly or "served"}


def return_probes_count(nginx: Nginx, worker: int, method: str = "auto") -> None:
    """Return probes on a process for all functions, where ssllatency itself takes them for few or none, count exactly."""
    path = libssl_of(worker)
    image = TracedImage(plan_image(Image.open(path), PlanSettings(prefer_return_probes=True)), path, (worker,))
    session = LibbpfEngine().attach(Request((image,), (Target(worker, "nginx", ()),), method=method))
    expected = connect(nginx)["SSL_do_handshake"]
    session.detach()
    series = session.read().series
    session.close()
    counted = sum(one.count for one in series if (one.function, one.outcome) == ("SSL_do_handshake", Outcome.SUCCESS))
    assert counted == expected, f"return probes counted {counted} of {expected} handshakes"
