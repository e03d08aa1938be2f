# SPDX-License-Identifier: Apache-2.0
"""What is in files, and the memory of it; the list of this machine; what is said of a process that isn't traced."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fixtures import build
from tests.measured.handshakes import Shake, handshakes_of

from ssllatency.cli.command_line import run
from ssllatency.cli.host import targets
from ssllatency.elf.image import Image
from ssllatency.errors import SsllatencyError
from ssllatency.facts import FileFacts
from ssllatency.model.certificates import CertificateFacts, Issuer, ServedCertificate
from ssllatency.model.handshakes import Label, Part
from ssllatency.targets import Process, Survey
from ssllatency.targets.sockets.listening import Listener
from ssllatency.targets.survey import ProcessStack, TlsProcess
from ssllatency.tracing import file_facts, first_look
from ssllatency.tracing.file_facts import KnownFiles, look_inside
from ssllatency.tracing.planning import findings

FOLDER = Path("/usr/lib/x86_64-linux-gnu")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def described(known: KnownFiles, path: Path, root: Path = Path("/")) -> FileFacts:
    fd = os.open(path, os.O_RDONLY)
    try:
        return known.describe(fd, str(path), str(root))
    finally:
        os.close(fd)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Survey:
    """A survey with a busy server whose worker makes the handshakes, an idle one, one that can't be traced, and no
    listener."""
    openssl, rustls = (
        ProcessStack("OpenSSL", "3.0.19", "shared", ""),
        ProcessStack("rustls", "0.23", "static", "rustls isn't traced", traceable=False),
    )
    port = (Listener(443, "::"),)
    rows = (
        TlsProcess(Process(10, 1, "idle", 1), (openssl,), listens=port),
        TlsProcess(Process(20, 1, "nginx\x1b[2J", 1), (openssl,), listens=port),
        TlsProcess(Process(21, 20, "nginx\x1b[2J", 1), (openssl,), listens=port),
        TlsProcess(Process(35, 1, "granian", 1), (rustls,), listens=port),
        TlsProcess(Process(40, 1, "curl", 1), (openssl,), listens=()),
    )
    survey = Survey(rows)
    monkeypatch.setattr(targets, "_surveyed", lambda _selection: survey)
    return survey


@pytest.mark.usefixtures("alone")
def test_alone_what_is_not_told_apart_is_no_zero(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {21: first_look.Seen(250.0, 0.0), first_look.OTHER: first_look.Seen(12.0, 0.0)}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(first_look, "look", lambda *_: first_look.FirstLook(seen))
    monkeypatch.setattr(targets, "_MOST_LOOKED_AT", 2)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run([]) == 0
    printed, said = capsys.readouterr()
    assert re.search(r"^20 \+1 +nginx\S+ +250 +0 %$", printed, re.MULTILINE)
    assert re.search(r"^10 +idle +- +-$", printed, re.MULTILINE)
    assert "12.0 handshakes a second aren't in the table" in said
    assert "aren't counted" not in said
    monkeypatch.setattr(targets, "_MOST_LOOKED_AT", 1)
    assert run([]) == 0
    assert "the handshakes of 1 of them aren't counted" in capsys.readouterr().err


def test_rows_beyond_the_bound_are_other() -> None:
    shakes = [Shake({Part.REST: 5}, {Label.PROCESS: f"nginx({pid})"}) for pid in (17, 17, 18)]
    made = handshakes_of(shakes, (Label.PROCESS,))
    folded = replace(made.groups[1], labels={}, other=True)
    seen = first_look._by_process(replace(made, groups=(made.groups[0], folded)), 2.0)
    assert seen == {17: first_look.Seen(1.0, 0.0), first_look.OTHER: first_look.Seen(0.5, 0.0)}


@pytest.mark.usefixtures("alone")
def test_alone_it_lists_and_says_what_to_type_next(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    now_s = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
    facts = CertificateFacts(
        "api.example\x1b", 1, int(now_s) - 9, int(now_s) + 3 * 86_400, "Some CA", Issuer.OTHER, "RSA-2048", "1", 900
    )
    served = ServedCertificate(443, None, facts, 2, 500, 5, now_s)

    def look(pids: list[int], arguments: argparse.Namespace, seconds: float) -> first_look.FirstLook:
        looked_at.extend(pids)
        assert (arguments.by, seconds) == ((Label.PROCESS,), 2.0)
        made = handshakes_of([Shake({Part.REST: 5})])
        return first_look.FirstLook({21: first_look.Seen(250.0, 2.5)}, replace(made, certificates=(served,)))

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(first_look, "look", look)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run([]) == 0
    printed = capsys.readouterr().out
    assert looked_at == [10, 20, 21]
    assert "\x1b" not in printed
    assert re.search(r"^20 \+1 +nginx\S+ +250 +1\.0 %$", printed, re.MULTILINE)
    assert re.search(r"^10 +idle +0 +-$", printed, re.MULTILINE)
    told = r"Certificate of api\.example\S* \(port 443\): expires in 3 days \(2026-11-26\), RSA-2048, issued by Some CA,"
    assert re.search(told, " ".join(printed.split()))
    assert re.search(r"^  ssllatency handshakes -p 20 -d 10s +# where the time of nginx", printed, re.MULTILINE)


@pytest.mark.usefixtures("alone")
def test_handshakes_and_certificates_are_listed_for_a_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = CertificateFacts("api.example", 1, 1, 2, "Some CA", Issuer.OTHER, "RSA-2048", "1", 900)
    made = replace(handshakes_of([Shake({Part.REST: 5})]), certificates=(ServedCertificate(443, None, facts, 2, 500, 5, 9.0),))
    seen = {21: first_look.Seen(50.0, 2.5), first_look.OTHER: first_look.Seen(1.5, 0.0)}
    asked: list[float] = []

    def look(_pids: list[int], _arguments: argparse.Namespace, seconds: float) -> first_look.FirstLook:
        asked.append(seconds)
        return first_look.FirstLook(seen, made, 9.5)

    monkeypatch.setattr(first_look, "look", look)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["targets", "-d", "10s", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["seen"]
    assert (asked, listed["duration_s"]) == ([10.0], 9.5)
    assert listed["processes"] == [
        {"pid": 21, "handshakes_per_second": 50.0, "failed_per_second": 2.5},
        {"pid": None, "handshakes_per_second": 1.5, "failed_per_second": 0.0},
    ]
    assert [one["port"] for one in listed["certificates"]] == [443]
    assert run(["targets", "-d", "10s"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^20 \+1 +nginx\S+ +50\.0 +5\.0 %$", printed, re.MULTILINE)
    assert "Certificate of api.example (port 443): expired" in printed
    assert "Next:" not in printed
    assert run(["targets"]) == 0
    assert "Certificate" not in capsys.readouterr().out


def test_where_nobody_listens_no_handshakes_are_counted(
    alone: Survey, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_surveyed", lambda _selection: replace(alone, processes=alone.processes[-1:]))
    assert run(["targets", "-d", "10s", "--json"]) == 0
    printed, said = capsys.readouterr()
    assert "seen" not in json.loads(printed)
    assert "no process that listens can be traced" in said


@pytest.mark.usefixtures("alone")
def test_alone_without_root_or_without_tracing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SsllatencyError("There is no process 10.")

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(first_look, "look", refuse)
    for euid, said, sudo in ((1000, "run it as root", "sudo "), (0, "There is no process 10.", "")):
        monkeypatch.setattr(os, "geteuid", lambda euid=euid: euid)
        assert run([]) == 0
        printed = capsys.readouterr()
        assert said in printed.err
        assert f"  {sudo}ssllatency handshakes -p 10 -d 10s" in printed.out


def test_alone_where_nothing_does_tls(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_surveyed", lambda _selection: Survey(()))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("No process that does TLS was found.")
    assert "  ssllatency help" in printed


def test_what_is_in_openssl() -> None:
    libssl, libcrypto = (look_inside(str(FOLDER / name), name) for name in ("libssl.so.3", "libcrypto.so.3"))
    assert libssl.libraries == ("libssl",)
    assert libcrypto.libraries == ("libcrypto",)
    assert libcrypto.version.startswith("OpenSSL 3.")
    assert all(len(facts.build_id) == 40 and not facts.obstacle and not facts.others for facts in (libssl, libcrypto))


@pytest.mark.parametrize(("name", "obstacle"), [("libssl.so.3", "its libssl is cut short or damaged"), ("server", "")])
def test_a_damaged_file_is_an_obstacle_only_where_it_is_openssl(tmp_path: Path, name: str, obstacle: str) -> None:
    (tmp_path / name).write_bytes(b"\x7fELF and nothing more")
    assert look_inside(str(tmp_path / name), f"/lib/{name}") == FileFacts(obstacle=obstacle, name="OpenSSL" if obstacle else "")


def test_a_file_is_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Path(shutil.copy((FOLDER / "libssl.so.3").resolve(), tmp_path / "libssl.so.3"))
    known = KnownFiles()
    facts = described(known, library)
    known.save()
    monkeypatch.setattr(file_facts, "look_inside", lambda *_: FileFacts(version="looked again"))
    assert described(KnownFiles(), library) == facts
    modified = library.stat().st_mtime_ns
    library.write_bytes(library.read_bytes()[:-1] + b"!")
    os.utime(library, ns=(modified, modified))  # its owner can set this back, but not the time of the inode's change
    assert described(KnownFiles(), library).version == "looked again"


HIDDEN = """
int SSL_do_handshake(void) { return 1; }
int SSL_read(void) { return 2; }
const char *where = "ssl/ssl_lib.c";
int main(void) { return SSL_do_handshake() + SSL_read() + *where; }
"""


def test_a_program_whose_names_a_debug_file_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "debug_roots", lambda _file, _path, root: ("/", root))
    (tmp_path / "hidden.c").write_text(HIDDEN)
    program, root = tmp_path / "hidden", tmp_path / "root"
    build.run("gcc", "-Wl,--build-id=sha1", "-o", program, tmp_path / "hidden.c")
    build_id = Image.open(program).build_id
    place = f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    bare = build.stripped(program, "bare")
    known = KnownFiles()
    facts = described(known, bare, root)
    assert (facts.libraries, facts.version, facts.by_debug_file) == ((), "OpenSSL", True)
    assert f"(stripped); what would help is its debug file as /{place}, or a build of bare" in facts.obstacle
    known.save()
    build.debug_file(program, root / place)
    facts = described(KnownFiles(), bare, root)
    assert (facts.libraries, facts.obstacle, facts.by_debug_file) == (("libssl",), "", True)


def test_a_program_that_no_debug_file_can_name(tmp_path: Path) -> None:
    (tmp_path / "hidden.c").write_text(HIDDEN)
    build.run("gcc", "-Wl,--build-id=none", "-s", "-o", tmp_path / "hidden", tmp_path / "hidden.c")
    assert described(KnownFiles(), tmp_path / "hidden").obstacle.endswith(
        "(stripped); what would help is a build of hidden that has its symbol table"
    )


@pytest.mark.parametrize("entry", [[], {"a": []}, {"a": {}}, {"a": {"version": 1}}, {"1:2": {"libraries": [5]}}, "text", None])
def test_an_odd_memory_is_none(entry: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_facts.store, "load", lambda *_: entry)
    assert described(KnownFiles(), FOLDER / "libssl.so.3").libraries == ("libssl",)


def test_the_list_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["targets", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ssllatency-targets/1"
    assert document["host"] == os.uname().nodename
    assert all(process["tls"] for process in document["processes"])


def test_one_process_that_does_no_tls(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["targets", "--comm", "no-such-process"]) == 1
    assert "No process is named" not in capsys.readouterr().out
    assert run(["targets", "-p", "1"]) == 0
    assert capsys.readouterr().out.startswith(("No process that does TLS was found", "PID"))


def test_a_container_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["targets", "--container", "nosuchcontainer"]) == 1
    assert "no process is in a container nosuchcontainer" in capsys.readouterr().err
