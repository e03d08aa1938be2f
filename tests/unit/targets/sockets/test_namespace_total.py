# SPDX-License-Identifier: Apache-2.0
"""What the sum of a network namespace that may not be entered tells of the accept queues of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.accept_queue import TOGETHER, AcceptQueue
from ssllatency.targets.sockets import holders
from ssllatency.targets.sockets.listening import Listener, whole_table
from ssllatency.targets.sockets.namespace_total import NamespaceTotal
from ssllatency.targets.sockets.sock_diag import listen_overflows

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
OURS, LATER = 17, 18
WEB, ADMIN, STRANGER = Listener(443, "0.0.0.0"), Listener(8443, "::"), Listener(9090, "127.0.0.1")


def row(inode: int, local: str = "0100007F:01BB", state: str = "0A") -> str:
    return (
        f"   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100 0 0 10 0\n"
    )


def table_of(folder: Path, tcp: str, tcp6: str | None = None, most: int = 10) -> dict[str, Listener] | None:
    (folder / "tcp").write_text(tcp)
    if tcp6 is not None:
        (folder / "tcp6").write_text(tcp6)
    return whole_table(folder, most)


def holds(proc: Path, pid: int, *inodes: int) -> None:
    """A process with these sockets, and something else, among its descriptors."""
    folder = proc / str(pid) / "fd"
    folder.mkdir(parents=True, exist_ok=True)
    for number, inode in enumerate(inodes):
        (folder / str(number)).symlink_to(f"socket:[{inode}]")
    if not (folder / "99").is_symlink():
        (folder / "99").symlink_to("pipe:[1]")


def sockets(*listeners: Listener) -> dict[str, Listener]:
    """Those with the inode numbers from 1 on."""
    return {str(number): listener for number, listener in enumerate(listeners, 1)}


def test_sockets_that_listen_are_read_up_to_the_first_that_does_not(tmp_path: Path) -> None:
    tcp6 = row(3, "00000000000000000000000000000000:1F90") + row(4, state="01") + "what follows isn't read"
    found = table_of(tmp_path, HEADING + row(2), HEADING + tcp6)
    assert found == {"2": Listener(443, "127.0.0.1"), "3": Listener(8080, "::")}
    assert table_of(tmp_path, HEADING, HEADING) == {}
    (tmp_path / "tcp6").unlink()
    assert table_of(tmp_path, HEADING + row(2)) == {"2": Listener(443, "127.0.0.1")}


def test_more_sockets_than_are_looked_at_are_no_table(tmp_path: Path) -> None:
    assert len(table_of(tmp_path, HEADING + "".join(map(row, range(10)))) or {}) == 10
    assert table_of(tmp_path, HEADING + "".join(map(row, range(11)))) is None
    assert table_of(tmp_path, HEADING + row(1) * 100_000) is None


@pytest.mark.parametrize(
    "line",
    [
        "\n",
        "0A " * 400_000,
        row(1, "0100007F"),
        row(1, "zz:zz"),
        row(1, "01:01BB"),
        row(1, ":" * 900),
        "\0" * 5000,
        row(1)[:60],
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(OSError, match="another form"):
        table_of(tmp_path, HEADING + line)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        whole_table(tmp_path, 10)


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "", "1.5", "\u0663"])
def test_a_number_of_overflows_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    (tmp_path / "net").mkdir()
    written = tmp_path / "net" / "netstat"
    written.write_text("TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 12\n")
    assert listen_overflows(tmp_path) == 12
    written.write_text(f"TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 {number}\n")
    with pytest.raises(OSError, match="doesn't tell"):
        listen_overflows(tmp_path)
    written.write_text("TcpExt: " * 100_000)
    with pytest.raises(OSError, match="doesn't tell"):
        listen_overflows(tmp_path)


def test_what_the_sum_grows_by_is_of_whoever_alone_listens(tmp_path: Path) -> None:
    holds(tmp_path, OURS, 1)
    namespace = NamespaceTotal(5)
    namespace.take(sockets(WEB), 5, [OURS], tmp_path)
    assert [*namespace.queues] == [AcceptQueue(443, "0.0.0.0", None, 0)]
    namespace.take(sockets(WEB), 9, [OURS], tmp_path)
    assert [*namespace.queues] == [AcceptQueue(443, "0.0.0.0", None, 4)]
    assert namespace.untold == 0


def test_several_sockets_are_told_together_once_one_was_full(tmp_path: Path) -> None:
    holds(tmp_path, OURS, 1)
    holds(tmp_path, LATER, 2)
    namespace = NamespaceTotal(0)
    namespace.take(sockets(WEB, ADMIN), 0, [OURS, LATER], tmp_path)
    assert {(queue.port, queue.overflows) for queue in namespace.queues} == {(443, 0), (8443, 0)}
    namespace.take(sockets(WEB, ADMIN), 3, [OURS, LATER], tmp_path)
    assert [*namespace.queues] == [AcceptQueue(*TOGETHER, None, 3)]


def test_where_others_listen_it_is_not_known_whose(tmp_path: Path) -> None:
    """But that nobody's queue was full is."""
    holds(tmp_path, OURS, 1)
    namespace = NamespaceTotal(0)
    for overflows, untold in ((0, 0), (0, 0), (7, 7), (7, 7), (8, 8)):
        namespace.take(sockets(WEB, STRANGER), overflows, [OURS], tmp_path)
        assert ([*namespace.queues], namespace.untold) == ([AcceptQueue(443, "0.0.0.0", None, 0)], untold)


def test_where_others_listened_only_at_one_of_both_readings_it_is_not_known_either(tmp_path: Path) -> None:
    holds(tmp_path, OURS, 1)
    namespace = NamespaceTotal(0)
    for table, overflows in ((sockets(WEB), 0), (sockets(WEB, STRANGER), 2), (sockets(WEB), 5), (sockets(WEB), 9)):
        namespace.take(table, overflows, [OURS], tmp_path)
    assert [*namespace.queues] == [AcceptQueue(443, "0.0.0.0", None, 4)]
    assert namespace.untold == 5


def test_overflows_where_none_of_the_processes_listens_are_nothing_of_theirs(tmp_path: Path) -> None:
    holds(tmp_path, OURS)
    namespace = NamespaceTotal(0)
    namespace.take(sockets(STRANGER), 0, [OURS], tmp_path)
    namespace.take(sockets(STRANGER), 50, [OURS], tmp_path)
    assert ([*namespace.queues], namespace.untold) == ([], 0)


def test_a_table_that_is_too_long_leaves_it_unknown(tmp_path: Path) -> None:
    holds(tmp_path, OURS, 1)
    namespace = NamespaceTotal(0)
    namespace.take(None, 0, [OURS], tmp_path)
    namespace.take(None, 4, [OURS], tmp_path)
    assert ([*namespace.queues], namespace.untold) == ([], 4)


def test_a_socket_of_a_process_that_came_later_is_theirs(tmp_path: Path) -> None:
    """Who was there is asked again where sockets have come, but not at each reading."""
    holds(tmp_path, OURS, 1)
    namespace = NamespaceTotal(0)
    namespace.take(sockets(WEB), 0, [OURS], tmp_path)
    holds(tmp_path, LATER, 2)
    namespace.take(sockets(WEB, ADMIN), 2, [OURS, LATER], tmp_path)
    assert ([*namespace.queues], namespace.untold) == ([AcceptQueue(*TOGETHER, None, 2)], 0)


def test_processes_are_asked_again_only_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(holders, "inodes_of", lambda pid, *_: asked.append(pid) or {"1"})
    namespace = NamespaceTotal(0)
    for number in range(20):
        namespace.take(sockets(WEB, *[STRANGER] * number), number, [OURS], tmp_path)
    assert asked == [OURS, OURS]


def test_descriptors_that_may_not_be_read_leave_it_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> set[str]:
        raise PermissionError

    monkeypatch.setattr(holders, "inodes_of", refuse)
    namespace = NamespaceTotal(0)
    namespace.take(sockets(WEB), 0, [OURS], tmp_path)
    namespace.take(sockets(WEB), 4, [OURS], tmp_path)
    assert ([*namespace.queues], namespace.untold) == ([], 4)
