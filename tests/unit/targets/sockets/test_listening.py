# SPDX-License-Identifier: Apache-2.0
"""The ports on which processes listen, by made-up tables and by sockets of our own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import Selection, all_processes, members, select
from ssllatency.targets.sockets import listening
from ssllatency.targets.sockets.listening import Listener, Ports, blocks, is_own, listeners, serving, serving_others

AddProcess = Callable[..., Path]
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = (
    "   {number}: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0000 100 0 0 10 0\n"
)
ANY6 = "0" * 32


def row(local: str, inode: int, state: str = "0A") -> str:
    return ROW.format(number=0, local=local, remote="00000000:0000", state=state, inode=inode)


def describe(
    folder: Path, sockets: dict[int, str], namespace: str, tcp: str, tcp6: str = "", udp: str = "", udp6: str = ""
) -> None:
    for name in ("fd", "ns", "net"):
        (folder / name).mkdir()
    for descriptor, target in sockets.items():
        (folder / "fd" / str(descriptor)).symlink_to(target)
    (folder / "ns" / "net").symlink_to(namespace)
    for name, rows in (("tcp", tcp), ("tcp6", tcp6), ("udp", udp), ("udp6", udp6)):
        (folder / "net" / name).write_text(HEAD + rows)


def test_sockets_are_looked_up_in_their_own_namespace(proc: Path, add_process: AddProcess) -> None:
    table = row("0100007F:1F90", 71) + row("00000000:01BB", 72) + row("0100007F:0016", 73)
    describe(add_process(10), {0: "/dev/null", 3: "socket:[72]", 4: "socket:[71]"}, "net:[1]", table, row(f"{ANY6}:01BB", 74))
    describe(add_process(20), {3: "socket:[74]", 5: "socket:[99]"}, "net:[1]", "")
    describe(add_process(30), {3: "socket:[71]"}, "net:[2]", row("0100007F:0001", 71))
    describe(add_process(40), {}, "net:[1]", "")
    assert listeners([10, 20, 30, 40], proc) == {
        10: (Listener(443, "0.0.0.0"), Listener(8080, "127.0.0.1")),
        20: (Listener(443, "::"),),
        30: (Listener(1, "127.0.0.1"),),
        40: (),
    }


def test_the_table_is_read_no_further_than_its_listeners(proc: Path, add_process: AddProcess) -> None:
    table = row("0100007F:0001", 71) + row("0100007F:0002", 72, state="01") + row("0100007F:0003", 73)
    describe(add_process(10), {3: "socket:[71]", 4: "socket:[72]", 5: "socket:[73]"}, "net:[1]", table)
    assert listeners([10], proc) == {10: (Listener(1, "127.0.0.1"),)}


def test_udp_sockets_that_take_datagrams_from_anybody(proc: Path, add_process: AddProcess) -> None:
    """They come in no order; those that are connected are clients'."""
    udp = row("0100007F:9C40", 81, state="01") + row("00000000:01BB", 82, state="07")
    sockets = {3: "socket:[71]", 4: "socket:[81]", 5: "socket:[82]", 6: "socket:[83]"}
    udp6 = row(f"{ANY6}:01BB", 83, state="07")
    describe(add_process(10), sockets, "net:[1]", row("00000000:01BB", 71), "", udp, udp6)
    expected = (Listener(443, "0.0.0.0"), Listener(443, "0.0.0.0", "udp"), Listener(443, "::", "udp"))
    assert listeners([10], proc) == {10: expected}
    assert Ports([443]).owners(all_processes(proc), proc).by_port == {443: {10}}


def test_a_table_of_udp_that_isnt_one_shows_nothing(proc: Path, add_process: AddProcess) -> None:
    sockets = {3: "socket:[71]", 4: "socket:[81]"}
    describe(add_process(10), sockets, "net:[1]", row("0100007F:0001", 71), udp=row("0100007F:XYZ", 81, state="07"))
    assert listeners([10], proc) == {10: (Listener(1, "127.0.0.1"),)}


@pytest.mark.parametrize("told", ["40000\t50000\n", "", "many\n"])
def test_a_clients_udp_socket_serves_nobody(tmp_path: Path, told: str) -> None:
    """It has one of the ports that the kernel gives to clients, unless the process serves that port by TCP as well."""
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text(told)
    quic, client, both = Listener(443, "::", "udp"), Listener(45000, "::", "udp"), Listener(45001, "::", "udp")
    tcp = Listener(45001, "::")
    assert serving_others([quic, client, both, tcp], tmp_path) == (quic, both, tcp)
    assert serving_others([Listener(51000, "::", "udp")], tmp_path) == (
        () if told[:1] != "4" else (Listener(51000, "::", "udp"),)
    )


@pytest.mark.parametrize(("flags", "blocking"), [("02", True), ("04002", False)])
def test_what_it_listens_on_may_block(proc: Path, add_process: AddProcess, flags: str, blocking: bool) -> None:
    """Sockets that it doesn't listen on tell nothing."""
    folder = add_process(10)
    describe(folder, {3: "socket:[71]", 4: "socket:[72]", 5: "/dev/null"}, "net:[1]", row("0100007F:0001", 71))
    (folder / "fdinfo").mkdir()
    (folder / "fdinfo" / "3").write_text(f"pos:\t0\nflags:\t{flags}\nmnt_id:\t9\n")
    (folder / "fdinfo" / "4").write_text("pos:\t0\nflags:\t02\nmnt_id:\t9\n")
    assert blocks([10, 99], proc) == blocking


_LISTENER = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print("blocks", flush=True)
input()
listener.setblocking(False)
print("does not", flush=True)
input()
"""


def test_sockets_of_a_process_block_or_not() -> None:
    """Of one that has no other socket, as this one may have."""
    command = [sys.executable, "-c", _LISTENER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "blocks\n"
        assert blocks([process.pid])
        process.stdin.write("\n")
        assert process.stdout.readline() == "does not\n"
        assert not blocks([process.pid])
        process.stdin.write("\n")


def test_unknown_where_descriptors_are_closed_to_us(
    proc: Path, add_process: AddProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_process(10)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert listeners([10, 11], proc) == {10: None, 11: None}


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_our_own_socket(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as own:
        own.bind((address, 0))
        own.listen()
        found = listeners([os.getpid()])[os.getpid()]
        assert found is not None
        assert Listener(own.getsockname()[1], address) in found


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_our_own_udp_socket(family: socket.AddressFamily, address: str) -> None:
    """Until it is connected."""
    with socket.socket(family, socket.SOCK_DGRAM) as own:
        own.bind((address, 0))
        port = own.getsockname()[1]
        assert Listener(port, address, "udp") in (listeners([os.getpid()])[os.getpid()] or ())
        assert Ports([port]).owners(all_processes()).by_port == {port: {os.getpid()}}
        own.connect((address, 9))
        assert Listener(port, address, "udp") not in (listeners([os.getpid()])[os.getpid()] or ())


def test_an_ipv4_address_on_an_ipv6_socket() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as own:
        own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        own.bind(("::ffff:127.0.0.1", 0))
        own.listen()
        assert Listener(own.getsockname()[1], "127.0.0.1") in (listeners([os.getpid()])[os.getpid()] or ())


def test_those_who_serve_a_port_in_our_namespace(proc: Path, add_process: AddProcess) -> None:
    table = row("0100007F:01BB", 71) + row("00000000:01BB", 72) + row("0200007F:01BB", 73) + row("00000000:0050", 74)
    for pid, inode in ((10, 71), (20, 72), (30, 73), (40, 74)):
        describe(add_process(pid), {3: f"socket:[{inode}]"}, "net:[1]", table)
    describe(add_process(50), {3: "socket:[71]"}, "net:[2]", table)
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "net").symlink_to("net:[1]")
    pids = [10, 20, 30, 40, 50, 60]  # 60 isn't there
    assert serving(443, {"127.0.0.1"}, pids, proc) == ([10, 20], 1)
    assert serving(80, {"192.0.2.1"}, pids, proc) == ([40], 1)
    assert serving(8443, {"127.0.0.1"}, pids, proc) == ([], 1)


SERVER, WORKER, OTHER, PROXY, HELPER = (5_000_000 + number for number in range(5))


@pytest.fixture
def served(proc: Path, add_process: AddProcess) -> Path:
    """A server on 443 with a worker that has its own socket, another one in a namespace of its own, and who only holds 8443."""
    table = row("00000000:01BB", 71) + row("00000000:01BB", 72) + row("00000000:20FB", 74)
    describe(add_process(SERVER, comm=b"nginx"), {3: "socket:[71]"}, "net:[1]", table)
    describe(add_process(WORKER, ppid=SERVER, comm=b"nginx"), {3: "socket:[72]"}, "net:[1]", table)
    describe(add_process(OTHER, comm=b"haproxy"), {3: "socket:[73]"}, "net:[2]", row("0100007F:01BB", 73))
    describe(add_process(PROXY, comm=b"docker-proxy"), {3: "socket:[74]"}, "net:[1]", table)
    add_process(HELPER, ppid=SERVER, comm=b"helper")
    return proc


def test_who_listens_on_a_port_is_selected_with_children(served: Path) -> None:
    assert [process.pid for process in select(Selection(ports=(443,)), served)] == [SERVER, WORKER, OTHER, HELPER]
    assert members(Selection(ports=(443,)), served) == dict.fromkeys((SERVER, WORKER, OTHER, HELPER), False)


@pytest.mark.parametrize(
    ("ports", "sentence"),
    [
        ((8443,), rf"docker-proxy \(PID {PROXY}\) holds port 8443 for another process"),
        ((443, 80), r"No process listens on port 80 \(1 of them couldn't be inspected\)"),
    ],
)
def test_a_port_that_nobody_serves(served: Path, ports: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(SsllatencyError, match=sentence):
        select(Selection(ports=ports), served)
    assert len(select(Selection(ports=ports), served, nobody=True)) == (4 if 443 in ports else 0)


def test_descriptors_are_read_again_only_where_who_listens_has_changed(served: Path, add_process: AddProcess) -> None:
    wanted, processes = Ports([443]), all_processes(served)
    assert wanted.owners(processes, served).by_port == {443: {SERVER, WORKER, OTHER}}
    (served / str(WORKER) / "fd" / "3").unlink()
    assert wanted.owners(processes, served).by_port == {443: {SERVER, WORKER, OTHER}}, "nothing has changed"
    table = row("00000000:01BB", 71) + row("00000000:01BB", 75)
    for pid in (SERVER, WORKER, PROXY):
        (served / str(pid) / "net" / "tcp").write_text(HEAD + table)
    describe(add_process(5_000_010, comm=b"nginx"), {3: "socket:[75]"}, "net:[1]", table)
    assert wanted.owners(all_processes(served), served).by_port == {443: {SERVER, OTHER, 5_000_010}}
    left = [process for process in all_processes(served) if process.pid != SERVER]
    assert wanted.owners(left, served).by_port == {443: {OTHER, 5_000_010}}, "one has gone"


def test_a_socket_that_is_handed_on_is_found(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As systemd hands its own to the server that it starts: it is the same socket."""
    now = [100.0]
    monkeypatch.setattr(listening.time, "monotonic", lambda: now[0])
    (served / str(OTHER) / "ns" / "net").unlink()
    (served / str(OTHER) / "ns" / "net").symlink_to("net:[1]")
    wanted = Ports([8443])
    assert wanted.owners(all_processes(served), served).by_port == {8443: set()}
    (served / str(OTHER) / "fd" / "4").symlink_to("socket:[74]")
    assert wanted.owners(all_processes(served), served).by_port == {8443: set()}
    now[0] += 1.0
    assert wanted.owners(all_processes(served), served).by_port == {8443: {OTHER}}


def test_looking_takes_a_bounded_share_of_the_time(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sockets strangers open: a look of two seconds is the only one within twenty."""
    now_s, looks = 100.0, 0
    wanted, processes = Ports([443]), all_processes(served)
    look = listening._sockets_on

    def slow(*arguments: object) -> object:
        nonlocal now_s, looks
        now_s, looks = now_s + 2, looks + 1
        return look(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(listening, "_sockets_on", slow)
    monkeypatch.setattr(listening.time, "monotonic", lambda: now_s)
    first = wanted.owners(processes, served)
    for _ in range(17):
        now_s += 1
        assert wanted.owners(processes, served) == first
    assert looks == 1
    now_s += 2
    wanted.owners(processes, served)
    assert looks == 2


def test_a_table_is_read_once_for_all_who_share_it(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[Path] = []
    read = listening.whole_table

    def counted(folder: Path, most: int | None = None) -> dict[str, Listener] | None:
        tables.append(folder)
        return read(folder, most)

    monkeypatch.setattr(listening, "whole_table", counted)
    pids = [process.pid for process in all_processes(served)]
    blocks(pids, served)
    links = [served / str(pid) / "ns/net" for pid in pids]
    namespaces = {link.readlink() for link in links if link.is_symlink()}
    assert len(tables) == len(namespaces) < len(pids)


@pytest.mark.parametrize("table", [b"\x80\n", HEAD.encode() + row("01(0007F:1F90", 7).encode(), HEAD.encode() + b"\xff 0A\n"])
def test_a_table_of_another_form_has_no_listeners(proc: Path, add_process: AddProcess, table: bytes) -> None:
    folder = add_process(10)
    describe(folder, {3: "socket:[7]"}, "net:[1]", "")
    (folder / "net" / "tcp").write_bytes(table)
    assert listeners([10], proc) == {10: ()}
    assert not blocks([10], proc)


def test_a_port_of_our_own() -> None:
    """We are no target; who inherits the socket is."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        with pytest.raises(SsllatencyError, match=f"No process listens on port {port}"):
            select(Selection(ports=(port,)))
        own.set_inheritable(True)
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
        try:
            assert [process.pid for process in select(Selection(ports=(port,)))] == [child.pid]
        finally:
            child.kill()
            child.wait()


def test_our_own_addresses() -> None:
    assert is_own("127.0.0.1")
    assert is_own("::1")
    assert not is_own("192.0.2.1")  # kept for documentation by RFC 5737
    assert not is_own("2001:db8::1")
