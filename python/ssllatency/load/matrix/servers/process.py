# SPDX-License-Identifier: Apache-2.0
"""The servers of a matrix: nginx or openssl s_server, started on loopback with keys of our own and ended with the command, or
one that is running already.

Each has a port for every way in which a cell wants to be served (a Site). s_server runs without -www, -WWW and -HTTP, and so
serves no page.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ssllatency.data_class import dataclass
from ssllatency.host.kernel_text import kernel_text
from ssllatency.load.account import Account
from ssllatency.load.arguments import Endpoint, endpoint_of
from ssllatency.load.figures import LoadError
from ssllatency.load.matrix.plan import KEYS, NEED, NEW, NONE, Cell, Factor, ServerEntry, ServerKind, chosen, group_name
from ssllatency.load.matrix.servers.certificates import Certificate, make_certificate
from ssllatency.load.matrix.servers.nginx_configuration import PLAIN_BYTES, configuration
from ssllatency.load.matrix.servers.site import ServerSettings
from ssllatency.load.run import end_with_us

START_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 5.0
_LOOPBACK = "127.0.0.1"
_FIRST_PORT = 10000  # well-known services listen below
_OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


class MatrixServer(Protocol):
    """A server of the matrix. `pids` are traced, their children with them; empty where they must be found by the port."""

    pids: tuple[int, ...]

    def endpoint(self, site: ServerSettings) -> Endpoint:
        """The endpoint of this site."""

    def close(self) -> None:
        """Ends the server if we started it."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listens on at the moment, all different.

    They lie outside the range from which the kernel takes the ports of outgoing connections: one of those could take the port
    before the server does. LoadError where there aren't so many.
    """
    ports = _listening_range()
    with contextlib.ExitStack() as stack:
        free: list[int] = []
        for port in random.sample(ports, min(len(ports), 1000 + count)):
            if len(free) == count:
                break
            with contextlib.suppress(OSError):
                stack.enter_context(socket.socket()).bind((_LOOPBACK, port))
                free.append(port)
    if len(free) < count:
        raise LoadError(f"no {count} ports of {_LOOPBACK} are free.")
    return free


def _listening_range() -> range:
    """The larger of the ranges beside that of outgoing connections."""
    first, last = map(int, kernel_text(_OUTGOING_PORTS).split())
    below, above = range(_FIRST_PORT, first), range(last + 1, 1 << 16)
    return max(below, above, range(first, last + 1) if len(below) + len(above) < 1000 else range(0), key=len)


def site_of(cell: Cell) -> ServerSettings:
    """The site that the cell needs. h2load resumes whenever it can: for new sessions its server gives out none."""
    sessions = cell[Factor.TOOL] != "h2load" or cell[Factor.RESUMPTION] != NEW
    return ServerSettings(
        cell[Factor.KEY],
        chosen(cell[Factor.VERSION]),
        chosen(cell[Factor.CIPHER]),
        groups_of(cell),
        cell[Factor.CLIENT_CERTIFICATE],
        sessions,
    )


def groups_of(cell: Cell) -> str:
    """The list of groups that both sides are given: only the cell's group, as otherwise a client may guess another in TLS 1.3,
    which costs another round trip. In TLS 1.2 the curves of ECDSA certificates must be among the groups (RFC 8422): they come
    last."""
    group = chosen(cell[Factor.GROUP])
    if not group or cell[Factor.VERSION] == "TLSv1.3":
        return group
    curves = (cell[key].removeprefix("ECDSA-") for key in (Factor.KEY, Factor.CLIENT_KEY) if cell[key].startswith("ECDSA-"))
    once: dict[str, str] = {}
    for name in (group, *curves):
        once.setdefault(group_name(name), name)
    return ":".join(once.values())


@dataclass(frozen=True)
class CertificateFiles:
    """The certificates of servers and clients in a folder that only we can list; `clients` is a file of all clients' ones, or
    of the servers' where no client has one: a server that asks for certificates must know some."""

    folder: Path
    certificates: Mapping[str, Certificate]
    clients: Path

    @classmethod
    def make(cls, folder: Path, cells: Sequence[Cell], account: Account | None = None) -> CertificateFiles:
        """The keys that the cells need, one of each kind for a server and one for a client, whose own are the account's."""
        kinds = [("server", cell[Factor.KEY]) for cell in cells] + [("client", cell[Factor.CLIENT_KEY]) for cell in cells]
        names = dict.fromkeys(f"{side}-{kind}" for side, kind in kinds if kind in KEYS)
        certificates = {name: make_certificate(name.partition("-")[2], folder, name) for name in names}
        for name, certificate in certificates.items():
            if account and name.startswith("client-"):
                os.chown(certificate.key, account.uid, account.gid)
        clients = folder / "clients.crt"
        of_clients = [certificate for name, certificate in certificates.items() if name.startswith("client-")]
        clients.write_text("".join(certificate.certificate.read_text() for certificate in of_clients or certificates.values()))
        return cls(folder, certificates, clients)

    def server(self, kind: str) -> Certificate:
        """A server's key of this kind."""
        return self.certificates[f"server-{kind}"]

    def client(self, kind: str) -> Certificate | None:
        """A client's, None where it has none."""
        return self.certificates.get(f"client-{kind}")


def start(entry: ServerEntry, cells: Sequence[Cell], keys: CertificateFiles, folder: Path) -> MatrixServer:
    """The server of these cells. LoadError where it doesn't start. `folder` is its own; it must be closed."""
    sites = list(dict.fromkeys(map(site_of, cells)))
    if entry.kind is ServerKind.RUNNING:
        return RunningServer(entry)
    if entry.kind is ServerKind.OPENSSL:
        return SServers.start(entry, sites, keys)
    return Nginx.start(entry, sites, keys, folder, sorted({cell[Factor.PAGE] for cell in cells} - {NONE}))


class RunningServer:
    """A server of the user's, which runs already."""

    def __init__(self, entry: ServerEntry) -> None:
        self.pids: tuple[int, ...] = (entry.pid,) if entry.pid is not None else ()
        self._endpoint = endpoint_of(entry.address)

    def endpoint(self, site: ServerSettings) -> Endpoint:
        """The endpoint, which all sites share."""
        del site
        return self._endpoint

    def close(self) -> None:
        """Does nothing: the server isn't ours."""


class Nginx:
    """An nginx with a port for each site, and one for plain HTTP by which it is seen that it serves the pages."""

    def __init__(self, process: subprocess.Popen[bytes], ports: Mapping[ServerSettings, int]) -> None:
        self._process, self._ports = process, ports
        self.pids: tuple[int, ...] = (process.pid,)

    @classmethod
    def start(
        cls, entry: ServerEntry, sites: Sequence[ServerSettings], keys: CertificateFiles, folder: Path, pages: Sequence[str]
    ) -> Nginx:
        """Starts it, and waits until it serves the pages; LoadError where it doesn't."""
        plain, *site_ports = free_ports(1 + len(sites))
        ports = dict(zip(sites, site_ports, strict=True))
        # Its workers run as another user: they read the pages, the keys are read before.
        os.chmod(folder, 0o711)  # noqa: PTH101
        _write_pages(folder / "pages", pages)
        (folder / "nginx.conf").write_text(configuration(entry, ports, plain, folder, keys.server, keys.clients))
        # It is often in /usr/sbin only, which the PATH of an ordinary user lacks.
        program = entry.program or shutil.which("nginx") or "/usr/sbin/nginx"
        command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
        server = cls(_begin(command, entry.name), ports)
        try:
            server._wait_until_serving(plain, pages, folder, entry.name)
        except BaseException:
            server.close()
            raise
        return server

    def endpoint(self, site: ServerSettings) -> Endpoint:
        """Its port."""
        return Endpoint(_LOOPBACK, self._ports[site])

    def close(self) -> None:
        """Ends it."""
        _end(self._process)

    def _wait_until_serving(self, port: int, pages: Sequence[str], folder: Path, name: str) -> None:
        if not _serves(port, self._process):
            log = folder / "error.log"
            message = " ".join(log.read_text(errors="replace").split())[-300:] if log.exists() else "it wrote no error log"
            raise LoadError(f"servers.{name}: nginx didn't start: {message}")
        for page in pages:
            if (status := _status(port, page)) != 200:
                raise LoadError(
                    f"servers.{name}: nginx answers {page} with status {status}: its workers can't read"
                    f" {folder}; set TMPDIR to a folder that all users may enter."
                )


class SServers:
    """An openssl s_server for each site. It serves one connection after the other, and no pages."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], ports: Mapping[ServerSettings, int]) -> None:
        self._processes, self._ports = processes, ports
        self.pids = tuple(process.pid for process in processes)

    @classmethod
    def start(cls, entry: ServerEntry, sites: Sequence[ServerSettings], keys: CertificateFiles) -> SServers:
        """Starts them, and waits until all listen; LoadError where one doesn't."""
        ports = dict(zip(sites, free_ports(len(sites)), strict=True))
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for site, port in ports.items():
                processes.append(_begin(_s_server(entry, site, port, keys), entry.name))
            for port, process in zip(ports.values(), processes, strict=True):
                if not _serves(port, process):
                    raise LoadError(f"servers.{entry.name}: openssl s_server didn't start: look at its options.")
        except BaseException:
            for process in processes:
                _end(process)
            raise
        return cls(processes, ports)

    def endpoint(self, site: ServerSettings) -> Endpoint:
        """Its port."""
        return Endpoint(_LOOPBACK, self._ports[site])

    def close(self) -> None:
        """Ends all of them."""
        for process in self._processes:
            _end(process)


def _s_server(entry: ServerEntry, site: ServerSettings, port: int, keys: CertificateFiles) -> list[str]:
    pair = keys.server(site.key)
    command = [entry.program or "openssl", "s_server", "-quiet", "-accept", f"{_LOOPBACK}:{port}"]
    command += ["-cert", str(pair.certificate), "-key", str(pair.key)]
    command += {"TLSv1.2": ["-tls1_2"], "TLSv1.3": ["-tls1_3"]}.get(site.version, [])
    if site.cipher:
        command += ["-ciphersuites" if site.cipher.startswith("TLS_") else "-cipher", site.cipher]
    command += ["-groups", site.groups] if site.groups else []
    if site.client_certificate != NONE:
        command += ["-Verify" if site.client_certificate == NEED else "-verify", "1", "-CAfile", str(keys.clients)]
    return [*command, *entry.options]


def _begin(command: Sequence[str], name: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # never written: s_server ends at the end of its input
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_us,
        )
    except OSError as error:
        raise LoadError(f"servers.{name}: {command[0]} can't be run: {error.strerror}.") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()


def _serves(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether it listens on its port within the time limit."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection((_LOOPBACK, port), timeout=1).close()
            return True
        time.sleep(0.01)
    return False


def _status(port: int, page: str) -> int:
    connection = http.client.HTTPConnection(_LOOPBACK, port, timeout=START_TIMEOUT_S)
    try:
        connection.request("GET", page)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _write_pages(folder: Path, pages: Sequence[str]) -> None:
    """A file for each page, of as many bytes as its name says."""
    folder.mkdir(mode=0o755)
    for page in pages:
        file = folder / (page[1:] or "index.html")
        file.write_bytes(b"x" * int(page[1:] or PLAIN_BYTES))
        file.chmod(0o644)
