# SPDX-License-Identifier: Apache-2.0
"""The ports on which processes listen, by made-up tables and by sockets of our own."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.targets.listening import Listener, blocks, is_own, listeners, serving

AddProcess = Callable[..., Path]
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = (
    "   {number}: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0000 100 0 0 10 0\n"
)
ANY6 = "0" * 32


def row(local: str, inode: int, state: str = "0A") -> str:
    return ROW.format(number=0, local=local, remote="00000000:0000", state=state, inode=inode)


def describe(folder: Path, sockets: dict[int, str], namespace: str, tcp: str, tcp6: str = "") -> None:
    for name in ("fd", "ns", "net"):
        (folder / name).mkdir()
    for descriptor, target in sockets.items():
        (folder / "fd" / str(descriptor)).symlink_to(target)
    (folder / "ns" / "net").symlink_to(namespace)
    (folder / "net" / "tcp").write_text(HEAD + tcp)
    (folder / "net" / "tcp6").write_text(HEAD + tcp6)


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


@pytest.mark.parametrize(("flags", "blocking"), [("02", True), ("04002", False)])
def test_what_it_listens_on_may_block(proc: Path, add_process: AddProcess, flags: str, blocking: bool) -> None:
    """Sockets that it doesn't listen on tell nothing."""
    folder = add_process(10)
    describe(folder, {3: "socket:[71]", 4: "socket:[72]", 5: "/dev/null"}, "net:[1]", row("0100007F:0001", 71))
    (folder / "fdinfo").mkdir()
    (folder / "fdinfo" / "3").write_text(f"pos:\t0\nflags:\t{flags}\nmnt_id:\t9\n")
    (folder / "fdinfo" / "4").write_text("pos:\t0\nflags:\t02\nmnt_id:\t9\n")
    assert blocks([10, 99], proc) == blocking


def test_sockets_of_our_own_block_or_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert blocks([os.getpid()])
        listener.setblocking(False)
        assert not blocks([os.getpid()])


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


def test_our_own_addresses() -> None:
    assert is_own("127.0.0.1")
    assert is_own("::1")
    assert not is_own("192.0.2.1")  # kept for documentation by RFC 5737
    assert not is_own("2001:db8::1")
