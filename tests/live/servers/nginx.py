# SPDX-License-Identifier: Apache-2.0
"""An nginx of our own: loopback only, in a directory of its own, ended by its own handle.

It serves TLS on one port for each kind of certificate, and plain HTTP on a third port with nginx's own counters, which say
without any TLS call how many connections it has handled and whether all of them are over.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from ssllatency.load.matrix.servers import certificates
from ssllatency.load.matrix.servers.certificates import Certificate
from ssllatency.load.matrix.servers.process import free_ports

KEYS = {"rsa": "RSA-2048", "rsa4096": "RSA-4096", "ecdsa": "ECDSA-P-256", "ed25519": "Ed25519"}
START_TIMEOUT_S = 30.0

# What nginx sends before the body of `return 200`, with server_tokens off. The date always has 29 characters.
_HEAD = (
    "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
    "Content-Length: {length}\r\nConnection: {connection}\r\n\r\n"
)

# Every path of the build's defaults is replaced: as root, nginx would give the system's own directories to another user.
_CONFIGURATION = """\
daemon off;
worker_processes {workers};
{affinity}
worker_rlimit_nofile 65536;
pid {root}/nginx.pid;
error_log {root}/error.log {log_level};
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {root}/body;
    proxy_temp_path {root}/proxy;
    fastcgi_temp_path {root}/fastcgi;
    uwsgi_temp_path {root}/uwsgi;
    scgi_temp_path {root}/scgi;
    server_tokens off;
    default_type text/plain;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    lingering_close off;
    ssl_protocols {protocols};
    ssl_ecdh_curve {curve};
    ssl_session_cache {session_cache};
    ssl_session_tickets {tickets};
    {directives}
    server {{
        listen 127.0.0.1:{status_port};
        location = /status {{ stub_status; }}
    }}
{servers}
}}
"""
_SERVER = """\
    server {{
        listen 127.0.0.1:{port} ssl backlog=4096{reuseport};
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        location / {{ return 200 "{body}"; }}
{locations}
    }}
"""


class ServerError(RuntimeError):
    """The server did not start; the text holds its error log."""


@functools.cache
def make_certificate(kind: str, directory: Path) -> Certificate:
    """Make a certificate of a kind of KEYS in `directory`, once."""
    return certificates.make_certificate(KEYS[kind], directory, kind)


def body_length(response: int, *, connection: str = "keep-alive") -> int:
    """The length of a body whose whole response, header and all, has `response` bytes."""
    for length in range(response):
        if len(_HEAD.format(length=length, connection=connection)) + length == response:
            return length
    raise ValueError(f"no response of nginx has exactly {response} bytes")


def libssl_of(pid: int) -> str:
    """The libssl that the process maps."""
    found = re.search(r"/\S*libssl\S*", Path(f"/proc/{pid}/maps").read_text())
    assert found
    return found[0]


@dataclass(frozen=True)
class Settings:
    """How a server is set up. `exact` are lengths in bytes: the path /N answers with N bytes in all on a kept connection.

    `session_cache` and `curve` are values of nginx's directives; `cpu` pins the workers to one CPU; `body` is the number
    of bytes that any other path answers with. With `reuseport` the kernel deals connections out to all workers evenly.
    `libraries`: a folder with OpenSSL's that it is to map instead of the system's.
    """

    workers: int = 1
    protocols: str = "TLSv1.2 TLSv1.3"
    session_cache: str = "off"
    tickets: bool = True
    curve: str = "auto"
    reuseport: bool = False
    cpu: int | None = None
    body: int = 64
    exact: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ("rsa", "ecdsa")
    client_ca: Path | None = None
    log_level: str = "error"
    directives: str = ""
    libraries: Path | None = None


@dataclass(frozen=True)
class Status:
    """nginx's own counters, without the queries for them: connections that are open, that were handled
    so far, and the requests on them."""

    active: int
    handled: int
    requests: int


@dataclass
class Nginx:
    """A running nginx, from `with` to the end of the block. `port` gives the TLS port by kind of certificate.

    With `root`, another root file system, it is the nginx in there. Raises ServerError when it doesn't serve within
    START_TIMEOUT_S.
    """

    certificates: Path
    settings: Settings = field(default_factory=Settings)
    root: Path | None = None

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="ssllatency-nginx-", dir=self.root / "tmp" if self.root else None))
        self._status_queries = 0
        self.status_port, *ports = free_ports(1 + len(self.settings.kinds))
        self.port = dict(zip(self.settings.kinds, ports, strict=True))
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def master_pid(self) -> int:
        """The process to trace: its children are the workers."""
        return self._process.pid

    def worker_pids(self) -> list[int]:
        """The process ids of the workers, ascending."""
        children = Path(f"/proc/{self.master_pid}/task/{self.master_pid}/children").read_text()
        return sorted(int(pid) for pid in children.split())

    def status(self) -> Status:
        """nginx's counters now."""
        self._status_queries += 1
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/status", timeout=10) as response:
            words = response.read().decode().split()
        handled, requests = (int(word) - self._status_queries for word in words[8:10])
        return Status(int(words[2]) - 1, handled, requests)

    def wait_idle(self, timeout_s: float = 30.0) -> Status:
        """Wait until every connection is over, and say how many there were. TimeoutError when one stays open."""
        deadline = time.monotonic() + timeout_s
        while (status := self.status()).active:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nginx still has {status.active} connections open")
            time.sleep(0.02)
        return status

    def log(self) -> str:
        """Its error log so far."""
        return (self.directory / "error.log").read_text(errors="replace")

    def close(self) -> None:
        """End nginx and remove its directory. May be called twice."""
        process = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """End it, and start another one in its place."""
        self._process.terminate()
        self._process.wait(5)
        self._start()

    def _start(self) -> None:
        configuration, log = self.directory / "nginx.conf", self.directory / "error.log"
        configuration.write_text(self._configuration())
        # nginx is often in /usr/sbin only, which the PATH of an ordinary user lacks.
        program = "/usr/sbin/nginx" if self.root else shutil.which("nginx") or "/usr/sbin/nginx"
        command = ["chroot", str(self.root)] if self.root else []
        command += [program, "-p", self._inside(self.directory), "-e", self._inside(log), "-c", self._inside(configuration)]
        self._process = self._launch(command)
        self._wait_until_serving()

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        nowhere, libraries = subprocess.DEVNULL, self.settings.libraries
        environment = os.environ | ({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})
        return subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True, env=environment)

    def _wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.status_port), timeout=1).close()
                self._wait_for_workers(deadline)
                # The connection that asked whether it serves has been counted as well.
                self._status_queries = 1
                self.wait_idle()
                return
            time.sleep(0.01)
        log = self.directory / "error.log"
        raise ServerError(f"nginx did not start: {log.read_text() if log.exists() else 'it wrote no error log'}")

    def _wait_for_workers(self, deadline: float) -> None:
        while len(self.worker_pids()) < self.settings.workers and time.monotonic() < deadline:
            time.sleep(0.01)

    def _configuration(self) -> str:
        settings = self.settings
        return _CONFIGURATION.format(
            workers=settings.workers,
            affinity="" if settings.cpu is None else f"worker_cpu_affinity {1 << settings.cpu:b};",
            root=self._inside(self.directory),
            protocols=settings.protocols,
            curve=settings.curve,
            session_cache=settings.session_cache,
            tickets="on" if settings.tickets else "off",
            status_port=self.status_port,
            log_level=settings.log_level,
            directives=f"{self._client_ca()} {settings.directives}",
            servers="".join(self._server(kind) for kind in settings.kinds),
        )

    def _server(self, kind: str) -> str:
        pair = make_certificate(kind, self.certificates)
        bodies = {size: "x" * body_length(size) for size in self.settings.exact}
        locations = (f'        location = /{size} {{ return 200 "{body}"; }}' for size, body in bodies.items())
        return _SERVER.format(
            port=self.port[kind],
            reuseport=" reuseport" if self.settings.reuseport else "",
            certificate=self._copied(pair.certificate),
            key=self._copied(pair.key),
            body="x" * self.settings.body,
            locations="\n".join(locations),
        )

    def _client_ca(self) -> str:
        ca = self.settings.client_ca
        return f"ssl_verify_client optional; ssl_client_certificate {self._copied(ca)};" if ca else ""

    def _copied(self, path: Path) -> str:
        """A file that nginx is to read, as it sees it; in another root a copy."""
        if self.root is None:
            return str(path)
        copy = self.directory / f"{path.parent.name}-{path.name}"
        shutil.copy(path, copy)
        return self._inside(copy)

    def _inside(self, path: Path) -> str:
        return f"/{path.relative_to(self.root)}" if self.root else str(path)
