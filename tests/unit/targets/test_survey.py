# SPDX-License-Identifier: Apache-2.0
"""The survey of a made-up host, as values, as a table and as a document."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests import schema

from ssllatency.errors import SsllatencyError
from ssllatency.facts import FileFacts
from ssllatency.stacks.by_name import BY_NAME
from ssllatency.stacks.registry import INSTEAD
from ssllatency.targets import (
    Process,
    Survey,
    all_processes,
    files,
    listing,
    opt_out_reason,
    read_processes,
    survey,
    tls_stacks,
)
from ssllatency.targets.survey import ProcessStack

AddProcess = Callable[..., Path]
ERLANG = "Erlang's own TLS"
JAVA = "Java's own TLS (JSSE)"
OF = {implementation.name: implementation.instead for implementation in BY_NAME}
MapsLine = Callable[..., str]

LIBSSL = FileFacts(("libssl",), "", "aa11", name="OpenSSL")
LIBCRYPTO = FileFacts(("libcrypto",), "OpenSSL 3.0.19 27 Jan 2026", "bb22", name="OpenSSL", release="3.0.19")
FACTS = {
    "libssl.so.3": LIBSSL,
    "libcrypto.so.3": LIBCRYPTO,
    "libssl.so.1.1": FileFacts(("libssl",), "", "cc33", name="OpenSSL"),
    "libcrypto.so.1.1": FileFacts(("libcrypto",), "OpenSSL 1.1.1w  11 Sep 2023", "dd44", name="OpenSSL", release="1.1.1w"),
    "node": FileFacts(("libssl", "libcrypto"), "OpenSSL 3.5.7 9 Jun 2026", "ee55", name="OpenSSL", release="3.5.7"),
    "caddy": FileFacts((), "", "ff66", (("Go crypto/tls", "go1.22.3"),)),
    "inside.so": FileFacts(("libssl", "libcrypto"), "OpenSSL 4.0.2 1 Nov 2026", "1122", name="OpenSSL", release="4.0.2"),
    "stripped.so": FileFacts((), "BoringSSL", "", (), "BoringSSL shows no names", by_debug_file=True, name="BoringSSL"),
    "rust.so": FileFacts((), "", "3344", (("rustls", "0.23.4"),)),
    "hidden": FileFacts((), "OpenSSL 3.0.2 15 Mar 2022", "", (), "OpenSSL shows no names", name="OpenSSL", release="3.0.2"),
}


class Describer:
    """Says what a file is by its name, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, fd: int, path: str, root: str) -> FileFacts:
        name = Path(path).name
        self.asked.append(name)
        assert os.fstat(fd).st_size
        assert root.endswith("/root")
        if name == "libssl-bad.so":
            raise SsllatencyError(f"{path} is damaged.")
        return FACTS.get(name, FileFacts())


@pytest.fixture
def describe() -> Describer:
    return Describer()


@pytest.fixture
def host(proc: Path, add_process: AddProcess, maps_line: MapsLine, tmp_path: Path) -> Path:
    """nginx with two workers, node, a Go server, a stripped static one, Java, one with two OpenSSLs, sshd, and a shell."""

    def lines(*names: str) -> str:
        text = ""
        for number, name in enumerate(names):
            file = tmp_path / name
            file.write_text(name)
            text += maps_line(file, start=0x7F0000000000 + 8192 * number)
        return text

    def start(pid: int, comm: str, *names: str, ppid: int = 1) -> None:
        folder = add_process(pid, ppid=ppid, comm=comm.encode(), maps=lines(comm, *names), exe=str(tmp_path / comm))
        (folder / "fd").mkdir()

    start(10, "nginx", "libssl.so.3", "libcrypto.so.3")
    start(12, "nginx", "libssl.so.3", "libcrypto.so.3", ppid=10)
    start(11, "nginx", "libssl.so.3", "libcrypto.so.3", ppid=10)
    start(20, "node")
    start(30, "caddy")
    start(40, "hidden")
    start(50, "java", "libjvm.so")
    start(60, "mixed", "libssl.so.3", "libcrypto.so.3", "libssl.so.1.1", "libcrypto.so.1.1", "libssl3.so")
    start(70, "sshd", "libcrypto.so.3")
    start(80, "bash")
    return proc


def look(proc: Path, describe: Describer) -> Survey:
    return survey(all_processes(proc), describe, proc)


def stacks_of(processes: Iterable[Process], describe: Describer, proc: Path) -> dict[Process, tuple[ProcessStack, ...]]:
    return tls_stacks(read_processes(processes, lambda *_: None, proc), describe, {}, proc)


def test_the_table(host: Path, describe: Describer) -> None:
    assert listing.rows(look(host, describe)) == [
        ("10 +2", "nginx", "", "", "OpenSSL 3.0.19", "shared", "yes"),
        ("20", "node", "", "", "OpenSSL 3.5.7", "static", "yes"),
        ("30", "caddy", "", "", "Go crypto/tls go1.22.3", "static", "no"),
        ("40", "hidden", "", "", "OpenSSL 3.0.2", "static", "no"),
        ("50", "java", "", "", "Java's own TLS (JSSE)", "shared", "no"),
        ("60", "mixed", "", "", "OpenSSL 3.0.19, 1.1.1w", "shared", "yes"),
        ("", "", "", "", "NSS", "shared", "no"),
    ]


def test_no_row_contradicts_itself(proc: Path, add_process: AddProcess, maps_line: MapsLine, tmp_path: Path) -> None:
    """One process has all of it: what is traced and what isn't, of whatever name, are rows of their own."""
    names = ("libssl.so.3", "libcrypto.so.3", "inside.so", "stripped.so", "rust.so")
    for name in names:
        (tmp_path / name).write_text(name)
    maps = "".join(maps_line(tmp_path / name, start=0x7F0000000000 + 8192 * number) for number, name in enumerate(names))
    (add_process(10, comm=b"python3", maps=maps) / "fd").mkdir()
    found = survey(all_processes(proc), Describer(), proc)
    assert [row[4:] for row in listing.rows(found)] == [
        ("OpenSSL 3.0.19, 4.0.2", "shared", "yes"),
        ("BoringSSL", "shared", "no"),
        ("rustls 0.23.4", "shared", "no"),
    ]
    assert listing.untraced(stacks_of(all_processes(proc), Describer(), proc), beside_openssl=True) == [
        "Some of the TLS of python3 (PID 10) can't be traced: BoringSSL shows no names.",
        f"rustls, which isn't traced, is mapped by python3 (PID 10) as well. {INSTEAD['rustls']}",
    ]


def test_each_file_is_asked_about_once(host: Path, describe: Describer) -> None:
    look(host, describe)
    assert len(describe.asked) == len(set(describe.asked))
    assert {"libssl.so.3", "node", "bash", "sshd", "libssl3.so", "libjvm.so"} <= set(describe.asked)


def test_the_sentences(host: Path, describe: Describer) -> None:
    assert list(listing.sentences(look(host, describe))) == [
        "Not traced in hidden (PID 40): OpenSSL shows no names.",
        "Whether a program on a Java virtual machine does TLS can't be told from outside.",
        OF[JAVA],
        OF["NSS"],
        "These map only libcrypto; TLS that they implement on top of it isn't traced: sshd (PID 70).",
    ]


def test_what_is_said_where_it_is_traced_or_not(host: Path, describe: Describer) -> None:
    processes = [process for process in all_processes(host) if process.pid in (30, 40, 50)]
    assert listing.untraced(stacks_of(processes, describe, host), beside_openssl=False) == [
        "The TLS of caddy (PID 30) is Go crypto/tls, which isn't traced.",
        "hidden (PID 40) can't be traced: OpenSSL shows no names.",
        f"The TLS of java (PID 50), if there is any, is Java's own TLS (JSSE), which isn't traced. {OF[JAVA]}",
    ]
    mixed = [process for process in all_processes(host) if process.pid in (10, 60)]
    assert listing.untraced(stacks_of(mixed, describe, host), beside_openssl=True) == [
        f"NSS, which isn't traced, is mapped by mixed (PID 60) as well. {OF['NSS']}"
    ]


@pytest.mark.parametrize(
    ("statistics", "said"),
    [
        ("TlsCurrTxSw   \t0\nTlsCurrRxSw  \t3\nTlsTxSw  \t9\n", ""),
        ("TlsCurrTxSw   \t2\nTlsCurrRxSw  \t3\nTlsCurrTxDevice\t1\n", "3 connections of this network namespace send (kTLS)"),
        ("TlsCurrTxSw   \t1\n", "1 connection of this network namespace sends (kTLS)"),
        ("nonsense\nTlsCurrTxSw x\n", ""),
        (None, ""),
    ],
)
def test_records_that_the_kernel_makes(host: Path, describe: Describer, statistics: str | None, said: str) -> None:
    if statistics is not None:
        (host / "net").mkdir()
        (host / "net" / "tls_stat").write_text(statistics)
    sentences = [sentence for sentence in listing.sentences(look(host, describe)) if "kTLS" in sentence]
    assert len(sentences) == bool(said)
    assert all(said in sentence for sentence in sentences)


def test_erlang_is_told_by_its_virtual_machine(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, tmp_path: Path, describe: Describer
) -> None:
    """It maps libcrypto, of which its keys' operations are traced."""
    names = ("beam.smp", "libcrypto.so.3")
    for name in names:
        (tmp_path / name).write_text(name)
    maps = "".join(maps_line(tmp_path / name, start=0x7F0000000000 + 8192 * number) for number, name in enumerate(names))
    (add_process(10, comm=b"beam.smp", maps=maps) / "fd").mkdir()
    found = look(proc, describe)
    assert [row[4:] for row in listing.rows(found)] == [(ERLANG, "shared", "no")]
    assert OF[ERLANG] in listing.sentences(found)
    assert listing.untraced(stacks_of(all_processes(proc), describe, proc), beside_openssl=True) == [
        f"Erlang's own TLS, which isn't traced, is mapped by beam.smp (PID 10) as well. {OF[ERLANG]}"
    ]


def test_the_document(host: Path, describe: Describer, tmp_path: Path) -> None:
    document = listing.to_document(look(host, describe), "web1")
    assert document["schema"] == "ssllatency-targets/1"
    schema.check(document)
    assert document["libcrypto_only"] == [{"pid": 70, "comm": "sshd"}]
    first = document["processes"][0]
    assert (first["pid"], first["ppid"], first["comm"], first["container"], first["listens"]) == (10, 1, "nginx", None, [])
    assert first["tls"] == [
        {
            "implementation": "OpenSSL",
            "version": "3.0.19",
            "linked": "shared",
            "traced": True,
            "reason": None,
            "files": [
                {
                    "path": str(tmp_path / name),
                    "deleted": False,
                    "build_id": facts.build_id,
                    "libraries": list(facts.libraries),
                    "version": facts.version or None,
                    "unnamed": False,
                    "unfound": [],
                }
                for name, facts in (("libssl.so.3", LIBSSL), ("libcrypto.so.3", LIBCRYPTO))
            ],
        }
    ]


def test_containers_and_ports(host: Path, describe: Describer) -> None:
    (host / "11" / "cgroup").write_text("0::/lxc.payload.web/nginx.service\n")
    (host / "11" / "status").write_text("Name:\tnginx\nNSpid:\t11\t7\n")
    (host / "20" / "status").write_text("Name:\tnode\nNSpid:\t20\t1\n")
    (host / "20" / "fd" / "3").symlink_to("socket:[9]")
    (host / "20" / "ns").mkdir()
    (host / "20" / "ns" / "net").symlink_to("net:[1]")
    (host / "20" / "net").mkdir()
    rows = [f" {number}: 00000000:{port:04X} 0:0 0A 0:0 0:0 0 0 0 9" for number, port in enumerate((8443,))]
    (host / "20" / "net" / "tcp").write_text("\n".join(["heading", *rows]))
    rows = [row[:4] for row in listing.rows(look(host, describe))]
    assert rows[:3] == [("20", "node", "(PID 1 inside)", "8443"), ("10 +1", "nginx", "", ""), ("11", "nginx", "lxc:web", "")]
    row = next(row for row in listing.to_document(look(host, describe), "")["processes"] if row["pid"] == 11)
    assert row["container"] == {"runtime": "lxc", "id": "web", "name": None, "pod": None}
    assert row["pid_in_namespace"] == 7


def test_no_name_poses_as_a_number_in_a_namespace(host: Path, describe: Describer) -> None:
    (host / "11" / "status").write_bytes(b"Name:\t\rNSpid: a b\nNSpid:\t11\t7\n")
    row = next(row for row in listing.to_document(look(host, describe), "")["processes"] if row["pid"] == 11)
    assert row["pid_in_namespace"] == 7


def test_a_defect_at_one_process_is_told_and_ends_nothing(
    host: Path, describe: Describer, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveying = sys.modules["ssllatency.targets.survey"]  # the package has a function of that name
    reason, read, refused = opt_out_reason, files.mapped_files, dict[int, str]()

    def odd_reason(pid: int, proc: Path) -> str:
        return str([][0]) if pid == 11 else reason(pid, proc)

    def odd_maps(pid: int, proc: Path) -> object:
        return int("odd") if pid == 20 else read(pid, proc)

    monkeypatch.delenv("SSLLATENCY_TRACEBACK", raising=False)
    monkeypatch.setattr(surveying, "opt_out_reason", odd_reason)
    rows = listing.to_document(look(host, describe), "")["processes"]
    (odd,) = [row for row in rows if row["pid"] == 11]
    assert "can't be asked whether it has opted out: IndexError: list index out of range" in odd["tls"][0]["reason"]
    monkeypatch.setattr(files, "mapped_files", odd_maps)
    maps = read_processes(all_processes(host), lambda process, error: refused.update({process.pid: str(error)}), host)
    assert 10 in [each.process.pid for each in maps]
    assert list(refused) == [20]
    assert "can't be inspected: ValueError" in refused[20]
    monkeypatch.setenv("SSLLATENCY_TRACEBACK", "1")
    with pytest.raises(ValueError, match="odd"):
        read_processes(all_processes(host), lambda *_: None, host)


def test_files_that_are_gone_or_damaged(proc: Path, add_process: AddProcess, maps_line: MapsLine, tmp_path: Path) -> None:
    for name in ("libssl.so.3", "libssl-bad.so", "held"):
        (tmp_path / name).write_text(name)
    held = maps_line(tmp_path / "held", path="/lib/libssl.so.3 (deleted)")
    folder = add_process(10, maps=held, comm=b"old")
    (folder / "map_files" / "7f0000000000-7f0000001000").symlink_to(tmp_path / "held")
    add_process(20, maps=maps_line(tmp_path / "libssl-bad.so") + maps_line(tmp_path / "libssl.so.3", start=0x7F1000000000))
    found = survey(all_processes(proc), Describer(), proc)
    assert [row.process.pid for row in found.processes] == [10, 20]
    sentences = list(listing.sentences(found))
    assert sentences[0] == (
        "/lib/libssl.so.3 has been replaced or deleted since old (PID 10) mapped it; the old one is what is traced."
    )
    assert sentences[-1].endswith("libssl-bad.so is damaged.")


def test_processes_that_are_closed_to_us(host: Path, describe: Describer, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == host / "20" / "maps":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    found = look(host, describe)
    assert [process.comm for process in found.closed] == ["node"]
    assert "Not permitted to inspect node (PID 20)." in list(listing.sentences(found))
    assert listing.to_document(found, "")["not_permitted"] == [{"pid": 20, "comm": "node"}]


def test_many_processes_are_named_by_number(host: Path) -> None:
    processes = all_processes(host)
    assert listing.named(processes) == "nginx (3 processes), node (PID 20), caddy (PID 30), hidden (PID 40), 4 more"
