# SPDX-License-Identifier: Apache-2.0
"""Opting out by a variable of the environment, as the kernel shows it, and by the host's file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests import schema
from tests.waiting import wait_for

from ssllatency.errors import SsllatencyError, TooManyOpenFiles
from ssllatency.facts import FileFacts
from ssllatency.targets import (
    VARIABLE,
    all_processes,
    has_opted_out,
    listing,
    never_notes,
    opt_out,
    opt_out_reason,
    read_never,
    survey,
)
from ssllatency.tracing.jfr.attach import open_jvm

LIBSSL = FileFacts(("libssl",), "", "aa11", name="OpenSSL")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (b"SSLLATENCY_OFF=1\0", True),
        (b"PATH=/bin\0SSLLATENCY_OFF=yes\0HOME=/\0", True),
        (b"PATH=/bin\0SSLLATENCY_OFF=1", True),  # cut off by whoever wrote it there
        (b"x" * (3 << 20) + b"\0SSLLATENCY_OFF=1\0", True),
        (b"SSLLATENCY_OFF=0\0SSLLATENCY_OFF=1\0", True),
        (b"SSLLATENCY_OFF=0\0", False),
        (b"SSLLATENCY_OFF=\0", False),
        (b"SSLLATENCY_OFF\0", False),
        (b"NO_SSLLATENCY_OFF=1\0A=SSLLATENCY_OFF=1\0", False),
        (b"ssllatency_off=1\0SSLLATENCY_OFFICE=1\0", False),
        (b"\0" * 1000 + b"\xff\xfe\0", False),
        (b"", False),
    ],
)
def test_the_variable_is_set_or_not(tmp_path: Path, environment: bytes, expected: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(environment)
    assert has_opted_out(7, tmp_path) == expected


def test_no_more_is_read_than_a_process_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(b"x" * (7 << 20) + b"\0SSLLATENCY_OFF=1\0")
    assert not has_opted_out(7, tmp_path)


def test_who_is_gone_has_not(tmp_path: Path) -> None:
    assert not has_opted_out(7, tmp_path)
    assert opt_out_reason(7, tmp_path) == ""


def test_a_real_process(spawn: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    child = spawn("/bin/cat")
    wait_for(lambda: has_opted_out(child.pid))  # type: ignore[attr-defined]  # its environment is there later than its name
    assert opt_out_reason(child.pid) == f"has SSLLATENCY_OFF in its environment (user {os.getuid()})"  # type: ignore[attr-defined]
    assert not has_opted_out(os.getpid())  # set only now, not when it was executed


def test_the_list_says_who_is_left_alone_and_by_whom(
    proc: Path, add_process: Callable[..., Path], maps_line: Callable[..., str], tmp_path: Path
) -> None:
    library = tmp_path / "libssl.so.3"
    library.write_text("libssl")
    for pid in (10, 11, 12):
        folder = add_process(pid, comm=b"nginx", maps=maps_line(library))
        (folder / "fd").mkdir()
        (folder / "status").write_text("Name:\tnginx\nUid:\t33\t33\t33\t33\n")
        (folder / "environ").write_bytes(b"" if pid == 10 else b"SSLLATENCY_OFF=1\0")
    surveyed = survey(all_processes(proc), lambda _fd, _path, _root: LIBSSL, proc)
    assert [(row[0], row[-1]) for row in listing.rows(surveyed)] == [("10", "yes"), ("11 +1", "no")]
    sentence = "Not traced in nginx (2 processes): it has SSLLATENCY_OFF in its environment (user 33)."
    assert sentence in listing.sentences(surveyed)
    document = listing.to_document(surveyed, "host")
    schema.check(document)
    reasons = {one["pid"]: one["tls"][0]["reason"] for one in document["processes"]}
    assert reasons == {10: None, 11: "it has SSLLATENCY_OFF in its environment (user 33)", 12: reasons[11]}


ENTRIES = [
    ("comm postgres", True),
    ("comm post", False),
    ("exe /usr/lib/postgresql/bin/postgres", True),
    ("exe postgres", False),
    ("unit db.service", True),
    ("unit db", True),
    ("unit databases.slice", True),
    ("unit d", False),
    ("user 33", True),
    ("user 033", True),
    ("user web", True),  # of the passwd beside the file, not of who runs this
    ("user\tweb", True),
    ("user other", False),
    ("user 3", False),
    ("comm post#gres", False),
    ("# comm postgres", False),
    ("comm nginx\n\n  comm  postgres # never", True),
]


@pytest.fixture
def postgres(tmp_path: Path) -> Path:
    """A process 7 below a /proc: the folder."""
    folder = tmp_path / "proc" / "7"
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(b"PATH=/bin\0")
    (folder / "comm").write_text("postgres\n")
    (folder / "exe").symlink_to("/usr/lib/postgresql/bin/postgres (deleted)")
    (folder / "cgroup").write_text("0::/databases.slice/db.service\n")
    (folder / "status").write_text("Name:\tpostgres\nUid:\t33\t33\t33\t33\n")
    return folder.parent


@pytest.fixture
def never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's file, which isn't there yet."""
    file = tmp_path / "never"
    (tmp_path / "passwd").write_text("root:x:0:0::/:/bin/sh\nweb:x:33:33::/:\nother:x:34:34::/:\nbroken:x\n")
    monkeypatch.setattr(opt_out, "NEVER", file)
    monkeypatch.setattr(opt_out, "_USERS", str(tmp_path / "passwd"))
    monkeypatch.setattr(opt_out._Read, "version", None)
    monkeypatch.setattr(opt_out._Read, "entries", {})
    monkeypatch.setattr(opt_out._Read, "notes", ())
    return file


@pytest.mark.parametrize(("text", "expected"), ENTRIES)
def test_the_hosts_owner_names_processes(postgres: Path, never: Path, text: str, expected: bool) -> None:
    assert not has_opted_out(7, postgres)
    never.write_text(text)
    assert has_opted_out(7, postgres) == expected
    if expected:
        entry = " ".join(text.splitlines()[-1].partition("#")[0].split())
        assert opt_out_reason(7, postgres) == f"is in {never} ({entry})"
    assert not has_opted_out(8, postgres)


@pytest.mark.parametrize("name", ["\rUid:", "\x0bUid:\t0", "\x85Uid: a b"])
def test_no_name_of_a_process_poses_as_its_user(postgres: Path, never: Path, name: str) -> None:
    (postgres / "7" / "status").write_bytes(f"Name:\t{name}\nUid:\t33\t33\t33\t33\n".encode())
    (postgres / "7" / "environ").write_bytes(b"SSLLATENCY_OFF=1\0")
    assert opt_out_reason(7, postgres) == "has SSLLATENCY_OFF in its environment (user 33)"
    (postgres / "7" / "environ").write_bytes(b"")
    never.write_text("user 33")
    assert has_opted_out(7, postgres)
    never.write_text("user root")
    assert not has_opted_out(7, postgres)


def test_the_file_is_read_again_when_it_has_changed(postgres: Path, never: Path) -> None:
    for text, expected in (("comm nginx", False), ("comm postgres", True), ("nonsense", True), ("", False)):
        never.write_text(text)
        assert has_opted_out(7, postgres) == expected, text
    never.unlink()
    assert not has_opted_out(7, postgres)


def test_users_are_those_of_the_root_that_the_file_is_of(
    postgres: Path, never: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container that sees the host's processes, the host's: the image knows other users, or none."""
    host = tmp_path / "host"
    inner = Path(str(host) + str(never))
    inner.parent.mkdir(parents=True)
    inner.write_text("user vault")
    (inner.parent / "passwd").write_text("vault:x:33:33::/:\n")
    monkeypatch.setattr(opt_out, "_ROOTS", (Path("/"), host))
    assert opt_out_reason(7, postgres).endswith("(user vault)")
    never.write_text("user vault")
    monkeypatch.setattr(opt_out._Read, "version", None)
    with pytest.raises(SsllatencyError, match=r"line 1 of .* names the user vault, who isn't in the"):
        read_never()


def test_users_are_read_once_and_the_first_of_a_name_counts(
    postgres: Path, never: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passwd").write_text("twice:x\ntwice:x:33:33::/:\ntwice:x:34:34::/:\nweb:x:40:40::/:\n")
    never.write_text("comm nginx\nuser web\nuser twice")
    text = Mock(side_effect=opt_out._text)
    monkeypatch.setattr(opt_out, "_text", text)
    assert opt_out_reason(7, postgres) == f"is in {never} (user twice)"
    users = str(tmp_path / "passwd")
    assert [each.args[1] for each in text.call_args_list] == [str(never), users]
    never.write_text("comm nginx")  # names no user
    assert opt_out_reason(7, postgres) == ""
    assert [each.args[1] for each in text.call_args_list] == [str(never), users, str(never)]


@pytest.mark.parametrize("name", ["nobody-knows", "broken", "9" * 5000])
def test_an_unknown_user_stops_it(never: Path, name: str) -> None:
    never.write_text(f"comm a\nuser {name}")
    with pytest.raises(SsllatencyError, match=r"line 2 of .* give the user's number \(id -u\)"):
        read_never()


@pytest.mark.parametrize(
    ("comm", "line"),
    [
        (b"postgres-checkpo", "comm postgres-checkpointer"),
        (b"a#b", "comm a#b # and so on"),
        (b"caf\xc3\xa9", "comm caf\u00e9"),
        (b"\xff\xfe", "comm \udcff\udcfe"),
    ],
)
def test_a_name_is_compared_as_the_kernel_keeps_it(postgres: Path, never: Path, comm: bytes, line: str) -> None:
    never.write_bytes(line.encode(errors="surrogateescape"))
    (postgres / "7" / "comm").write_bytes(comm[:15] + b"\n")
    assert has_opted_out(7, postgres)


def test_a_process_is_asked_for_each_kind_of_name_once(postgres: Path, never: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never.write_text("\n".join(f"comm a{number}\nunit b{number}" for number in range(200)))
    names = Mock(return_value=())
    monkeypatch.setattr(opt_out, "_names", names)
    assert not has_opted_out(7, postgres)
    assert [each.args[1] for each in names.call_args_list] == ["comm", "unit"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("comm a\n" * 501, "has more than 500 names, too many to compare each process with: name a unit"),
        ("#" * (257 << 10), r"can't be read \(is larger than 256 KiB\), so nobody knows"),
    ],
)
def test_a_file_that_is_too_large_stops_it(never: Path, text: str, sentence: str) -> None:
    never.write_text(text)
    with pytest.raises(SsllatencyError, match=sentence):
        read_never()


def test_what_becomes_of_the_file_during_a_run_is_said_once(postgres: Path, never: Path) -> None:
    never.write_text("comm postgres\ncomm nginx")
    assert never_notes() == ()
    never.write_text("comm postgres\nnonsense")
    (bad,) = never_notes()
    assert bad.startswith(f"line 2 of {never} isn't understood")
    assert bad.endswith("What was read before holds until this run ends, or the file is right again.")
    assert never_notes() == (bad,)
    assert has_opted_out(7, postgres)
    for text in ("comm postgres", ""):
        never.write_text(text)
        assert never_notes() == (
            bad,
            f"Lines have gone from {never} since this run began: processes that they named may get probes from then on.",
        )
    assert not has_opted_out(7, postgres)


@pytest.mark.parametrize("line", ["", "comm a", "exe /a", "unit a", "user 7"])
def test_where_no_descriptor_is_left_nobody_can_tell(
    postgres: Path, never: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has opted out mustn't be taken for one that hasn't."""
    never.write_text(line)
    assert not has_opted_out(7, postgres)
    if line:
        monkeypatch.setattr(opt_out, "has_variable", lambda *_: False)
    for call in ("open", "readlink", "read_text", "read_bytes"):
        monkeypatch.setattr(Path, call, Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    with pytest.raises(TooManyOpenFiles, match="raise the limit"):
        has_opted_out(7, postgres)


@pytest.mark.parametrize("text", ["comm", "postgres", "comm nginx\npid 7", "Comm postgres"])
def test_a_line_that_cannot_be_understood_stops_it(never: Path, text: str) -> None:
    never.write_text(text)
    with pytest.raises(SsllatencyError, match=f"line {len(text.splitlines())} of {never} isn't understood"):
        read_never()


def test_a_file_that_cannot_be_read_stops_it(never: Path) -> None:
    never.mkdir()
    with pytest.raises(SsllatencyError, match=r"can't be read \(is not a regular file\), so nobody knows"):
        read_never()


def test_a_jvm_is_not_spoken_to(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(b"SSLLATENCY_OFF=1\0")
    with pytest.raises(SsllatencyError, match=r"JVM 7 has SSLLATENCY_OFF in its environment \(user unknown\)"):
        open_jvm(7, tmp_path)
