# SPDX-License-Identifier: Apache-2.0
"""The servers that are traced with nothing but the default settings, each on a CPU of its own, and the clients that keep them
busy from another one, with copies of the libraries: the client of a server runs elsewhere, and isn't slowed down by probes."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.live.servers import embedded
from tests.live.servers.nginx import Nginx, Settings, make_certificate

from bench.measuring.tracers import BenchError
from bench.measuring.works import CONNECTIONS, LOAD_S, Cpus, copied_libraries
from ssllatency.load.matrix.servers.process import free_ports

POSTGRES = Path("/usr/lib/postgresql")
SESSIONS = 8  # of PostgreSQL, each of which is a process
START_S = 15.0
COMPILED_S = 30.0  # with a twin on the same CPU
_PROGRAM, _GO_SOURCE = Path(__file__).with_name("asyncio_server.py"), Path(__file__).with_name("go_server.go")
_JAVA_SOURCE = Path(embedded.__file__).parent / "java" / "JsseServer.java"
_HAPROXY = """\
global
    nbthread 1
defaults
    mode http
    timeout client 60s
    timeout connect 60s
    timeout server 60s
frontend tls
    bind 127.0.0.1:{port} ssl crt {pair}
    http-request return status 200 content-type text/plain string "{body}"
"""


@dataclass(frozen=True)
class Served:
    """A server under load: the process to trace with those that it starts, and `answered`, which tells how much its client has
    been answered so far, in units of its own."""

    pid: int
    answered: Callable[[], float]


@contextmanager
def nginx(directory: Path, cpus: Cpus, *options: str, workers: int = 1) -> Iterator[Served]:
    """One worker or several, under wrk with these options."""
    cpu = cpus.server if workers == 1 else None
    settings = Settings(workers=workers, cpu=cpu, tickets=False, body=1024, kinds=("rsa",), reuseport=workers > 1)
    with Nginx(directory, settings) as server, under_wrk(directory, cpus, server.port["rsa"], *options):
        yield Served(server.master_pid, lambda: server.status().requests)


@contextmanager
def haproxy(directory: Path, cpus: Cpus, libraries: Path | None = None) -> Iterator[Served]:
    """A proxy that answers itself, under wrk; with the copies of libraries in that folder, if one is given."""
    [port] = free_ports(1)
    pair, configuration = make_certificate("rsa", directory), directory / "haproxy.cfg"
    both = directory / "both.pem"
    both.write_text(pair.certificate.read_text() + pair.key.read_text())
    configuration.write_text(_HAPROXY.format(port=port, pair=both, body="x" * 1024))
    command = ("haproxy", "-db", "-f", str(configuration))
    with _process(cpus, *command, libraries=libraries) as process, under_wrk(directory, cpus, port) as answered:
        yield Served(process.pid, answered)


@contextmanager
def python(directory: Path, cpus: Cpus, libraries: Path | None = None) -> Iterator[Served]:
    """A server of asyncio, under wrk; `libraries` as of haproxy."""
    [port] = free_ports(1)
    pair = make_certificate("rsa", directory)
    words = (sys.executable, str(_PROGRAM), str(port), str(pair.certificate), str(pair.key))
    with _process(cpus, *words, libraries=libraries) as process, under_wrk(directory, cpus, port) as answered:
        yield Served(process.pid, answered)


@contextmanager
def go(directory: Path, cpus: Cpus, *options: str) -> Iterator[Served]:
    """A server of Go's crypto/tls, under wrk with these options, which says itself how many requests it has answered.
    BenchError where it can't be built."""
    [port] = free_ports(1)
    pair = make_certificate("rsa", directory)
    words = (str(_built(directory)), str(port), str(pair.certificate), str(pair.key))
    with _process(cpus, *words, pipe=subprocess.PIPE) as process, under_wrk(directory, cpus, port, *options):
        yield Served(process.pid, lambda: _answered(process))


@contextmanager
def java(directory: Path, cpus: Cpus, machine: Path, *options: str) -> Iterator[Served]:
    """A server of Java's own TLS with a key on P-256 in that Java virtual machine, under wrk with these options, from when what
    runs often has been compiled. It closes each connection after one request, and says itself how many it has answered."""
    [port] = free_ports(1)
    pair = make_certificate("ecdsa", directory)
    words = (
        str(machine),
        "-Xmx128m",
        "-Djava.net.preferIPv4Stack=true",
        str(_JAVA_SOURCE),
        str(pair.certificate),
        str(pair.key),
        str(port),
    )
    with _process(cpus, *words, pipe=subprocess.PIPE) as process, under_wrk(directory, cpus, port, *options):
        time.sleep(COMPILED_S)
        yield Served(process.pid, lambda: _answered(process))


def _built(directory: Path) -> Path:
    program = directory / "go-server"
    if not program.exists():
        build = ("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(program), str(_GO_SOURCE))
        if not shutil.which("go") or subprocess.run(build, check=False, env=os.environ | {"CGO_ENABLED": "0"}).returncode:
            raise BenchError("Go isn't installed, or can't build a server.")
    return program


def _answered(process: subprocess.Popen[bytes]) -> int:
    """How many requests a process has answered that says so for each line."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"\n")
    process.stdin.flush()
    return int(process.stdout.readline())


@contextmanager
def postgresql(directory: Path, cpus: Cpus, libraries: Path | None = None) -> Iterator[Served]:
    """A database that is asked for a constant, under pgbench; `libraries` as of haproxy. BenchError where there is none."""
    programs = max(POSTGRES.glob("*/bin"), default=None)
    if programs is None or not shutil.which("pgbench"):
        raise BenchError("there is no PostgreSQL: apt-get install postgresql.")
    [port] = free_ports(1)
    owner, pair = pwd.getpwnam("postgres"), make_certificate("rsa", directory)
    with tempfile.TemporaryDirectory(prefix="ssllatency-bench-") as folder:
        data, key = Path(folder) / "data", Path(folder) / "key.pem"
        shutil.copy(pair.key, key)
        key.chmod(0o600)
        for path in (Path(folder), key):
            os.chown(path, owner.pw_uid, owner.pw_gid)
        as_owner = ("setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups", "--")
        subprocess.run([*as_owner, programs / "initdb", "-D", data, "-A", "trust"], check=True, capture_output=True, cwd=folder)
        certificate = Path(folder) / "certificate.pem"
        shutil.copy(pair.certificate, certificate)
        certificate.chmod(0o644)
        settings = {"port": port, "ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key, "fsync": "off"}
        settings |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": folder}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = (*as_owner, str(programs / "postgres"), "-D", str(data), *words)
        copies = shutil.copytree(libraries, Path(folder) / "libraries") if libraries else None  # which its owner may read
        with (
            _process(cpus, *command, folder=folder, libraries=copies) as process,
            _pgbench(directory, cpus, port) as answered,
        ):
            yield Served(process.pid, answered)


@contextmanager
def _process(
    cpus: Cpus,
    *words: str,
    folder: str | None = None,
    pipe: int = subprocess.DEVNULL,
    libraries: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """`pipe`: what its input and its output are."""
    command = ["taskset", "-c", str(cpus.server), *words]
    environment = os.environ | ({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=folder, env=environment) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


@contextmanager
def under_wrk(directory: Path, cpus: Cpus, port: int, *options: str) -> Iterator[Callable[[], float]]:
    """What it has read is what it was answered: all answers are of one length."""
    command = [*_with_copies(directory, cpus), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LOAD_S}s", *options]
    with _load([*command, f"https://127.0.0.1:{port}/"], port) as process:
        yield lambda: _bytes_read(process.pid)


@contextmanager
def _pgbench(directory: Path, cpus: Cpus, port: int) -> Iterator[Callable[[], float]]:
    script = directory / "constant.sql"
    script.write_text("SELECT 1;\n")
    command = [*_with_copies(directory, cpus), "PGSSLMODE=require", "pgbench", "-n", "-f", str(script)]
    command += ["-c", str(SESSIONS), "-T", str(LOAD_S), "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres"]
    with _load(command, port):
        yield lambda: bytes_acknowledged(port)


def bytes_acknowledged(port: int) -> float:
    """Of those that were sent from this port on connections that are open: pgbench keeps its own, and all answers are of one
    length."""
    sockets = subprocess.run(["ss", "-tinHO", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.findall(r" bytes_acked:(\d+)", sockets)))


def _with_copies(directory: Path, cpus: Cpus) -> list[str]:
    return [*cpus.client_prefix, "env", f"LD_LIBRARY_PATH={copied_libraries(directory)}"]


@contextmanager
def _load(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    _wait_until_it_listens(port)
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            time.sleep(1)
            if process.poll() is not None:
                raise BenchError(f"the load ended at once: {' '.join(command)}.")
            yield process
        finally:
            process.kill()


def _wait_until_it_listens(port: int) -> None:
    listening = f"0100007F:{port:04X} 00000000:0000 0A"
    deadline = time.monotonic() + START_S
    while listening not in Path("/proc/net/tcp").read_text():
        if time.monotonic() > deadline:
            raise BenchError("the server did not start.")
        time.sleep(0.05)


def _bytes_read(pid: int) -> float:
    """By its read system calls so far."""
    return float(Path(f"/proc/{pid}/io").read_text().splitlines()[0].split()[1])
