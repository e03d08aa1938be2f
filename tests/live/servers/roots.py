# SPDX-License-Identifier: Apache-2.0
"""The nginx of another root, by chroot alone or in a container: mount, PID, UTS and IPC namespaces of its own, and that root as
its only file system; its haproxy, by chroot; and cgroups. Nothing stays behind: the namespaces end with the process that made
them, and cgroups are removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_3, Client
from tests.live.servers.nginx import free_ports, make_certificate
from tests.waiting import wait_for

CONFIGURATION = """
daemon off; master_process on; worker_processes 1; user root; pid /{folder}/pid; error_log /{folder}/log;
events {{ worker_connections 512; }}
http {{
    access_log off; keepalive_timeout 300s; ssl_session_cache off; ssl_session_tickets off; ssl_ecdh_curve {groups};
    client_body_temp_path /{folder}/1; proxy_temp_path /{folder}/2; fastcgi_temp_path /{folder}/3;
    uwsgi_temp_path /{folder}/4; scgi_temp_path /{folder}/5;
    server {{ listen 127.0.0.1:{port} ssl; {quic}ssl_certificate {kind}.crt; ssl_certificate_key {kind}.key;
              location / {{ return 200 "hello"; }} }}
}}
"""
# haproxy's QUIC by an OpenSSL whose own interface for it haproxy doesn't know: without early data, which makes it limited.
_HAPROXY = """
global
    limited-quic
    nbthread 2
    cluster-secret tests
    stats socket /{folder}/stats
defaults
    mode http
    timeout client 20s
frontend tls
    bind 127.0.0.1:{port} ssl crt /{folder}/both.pem alpn h2
    bind quic4@127.0.0.1:{port} ssl crt /{folder}/both.pem alpn h3 curves X25519 {words}
    http-request return status 200 content-type text/plain string hello
"""
_NAMESPACES = ("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
# As runtimes do it: the new root takes the place of the old one, which is gone for the processes within. The system calls are
# made by hand, as the new root may have no program but the server.
_PIVOT = """
import ctypes, os, sys
libc, (root, *command) = ctypes.CDLL(None, use_errno=True), sys.argv[1:]
def call(function, *arguments):
    if function(*(each.encode() if isinstance(each, str) else each for each in arguments)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(arguments))
BIND, DETACH, PIVOT_ROOT = 4096, 2, {"x86_64": 155, "aarch64": 41}[os.uname().machine]
call(libc.mount, root, root, None, BIND, None)
os.chdir(root)
call(libc.mount, "proc", "proc", "proc", 0, None)
call(libc.syscall, PIVOT_ROOT, ".", ".")
call(libc.umount2, ".", DETACH)
os.chdir("/")
os.execv(command[0], command)
"""


def in_container(root: Path, *command: str) -> list[str]:
    """The command that runs another in a container; who ends it kills it, for it waits for its child whatever it is told."""
    return [*_NAMESPACES, sys.executable, "-c", _PIVOT, str(root), *command]


def in_root(root: Path, *command: str) -> list[str]:
    """The command that runs another in the root with this machine's processes and kernel to be seen; it keeps its PID."""
    script = 'mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(root), *command]


@contextmanager
def nginx_of(
    root: Path, certificates: Path, kind: str, groups: str, *, contained: bool = False, quic: str = ""
) -> Iterator[tuple[int, int]]:
    """The PID of its master, or in a container of the process that started that, and its port; with directives for QUIC, of
    QUIC as well."""
    make_certificate(kind, certificates)
    with tempfile.TemporaryDirectory(dir=root / "tmp", prefix="ssllatency-") as made:
        folder, (port,) = f"tmp/{Path(made).name}", free_ports(1)
        for suffix in ("crt", "key"):
            shutil.copy(certificates / f"{kind}.{suffix}", made)
        words = {"folder": folder, "port": port, "kind": kind, "groups": groups}
        listens = f"listen 127.0.0.1:{port} quic; {quic} " if quic else ""
        Path(made, "nginx.conf").write_text(CONFIGURATION.format(**words, quic=listens))
        command = ["/usr/sbin/nginx", "-p", f"/{folder}", "-c", f"/{folder}/nginx.conf", "-e", f"/{folder}/log"]
        with subprocess.Popen(in_container(root, *command) if contained else ["chroot", root, *command]) as master:
            try:
                until_it_serves(Client(port, TLS_1_3))
                yield master.pid, port
            finally:
                (master.kill if contained else master.terminate)()


@contextmanager
def haproxy_of(root: Path, certificates: Path, kind: str, words: str = "") -> Iterator[tuple[int, int, Path]]:
    """Its PID, the port of TLS over TCP and of QUIC, and the socket at which it tells its statistics; `words` are more of what
    QUIC's listener has."""
    pair = make_certificate(kind, certificates)
    with tempfile.TemporaryDirectory(dir=root / "tmp", prefix="ssllatency-") as made:
        folder, (port,) = f"tmp/{Path(made).name}", free_ports(1)
        Path(made, "both.pem").write_text(pair.certificate.read_text() + pair.key.read_text())
        Path(made, "conf").write_text(_HAPROXY.format(folder=folder, port=port, words=words))
        with subprocess.Popen(["chroot", root, "/usr/sbin/haproxy", "-db", "-f", f"/{folder}/conf"]) as process:
            try:
                until_it_serves(Client(port, TLS_1_3))
                yield process.pid, port, Path(made, "stats")
            finally:
                process.terminate()


@contextmanager
def cgroup(name: str, *pids: int) -> Iterator[Path]:
    """The folder of a cgroup of that name, with these processes in it while the block lasts."""
    with future_cgroup(name) as folder:
        folder.mkdir()
        try:
            into_cgroup(folder, *pids)
            yield folder
        finally:
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):  # it has ended
                    into_cgroup(folder.parent, int(pid))


@contextmanager
def future_cgroup(name: str) -> Iterator[Path]:
    """The folder at which a cgroup of that name may be made, which is removed once its processes have ended."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    top = next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)
    if top is None or not os.access(top, os.W_OK):
        pytest.skip("no cgroup2 is mounted that can be written: mount -t cgroup2 none /sys/fs/cgroup")
    folder = top / name
    try:
        yield folder
    finally:
        if folder.exists():
            wait_for(lambda: not (folder / "cgroup.procs").read_text())
            folder.rmdir()


def into_cgroup(folder: Path, *pids: int) -> None:
    """Moves processes into the cgroup of this folder."""
    for pid in pids:
        (folder / "cgroup.procs").write_text(f"{pid}\n")


def within_cgroup(folder: Path) -> tuple[str, ...]:
    """The beginning of a command that has what follows run in the cgroup of this folder."""
    return "sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "sh"


def until_it_serves(client: Client) -> None:
    """Waits for the server of this client."""
    for _ in range(200):
        try:
            client.connect()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server didn't begin to serve")
