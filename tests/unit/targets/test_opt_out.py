# SPDX-License-Identifier: Apache-2.0
"""Opting out by a variable of the environment, as the kernel shows it, and by the host's file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import schema
from tests.waiting import wait_for

from ssllatency.errors import SsllatencyError
from ssllatency.facts import FileFacts
from ssllatency.targets import VARIABLE, all_processes, has_opted_out, listing, opt_out, opt_out_reason, read_never, survey
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
    assert opt_out_reason(7, tmp_path) == "has SSLLATENCY_OFF in its environment (user unknown)"


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
    ("user www-data", True),
    ("user 3", False),
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
    monkeypatch.setattr(opt_out, "NEVER", file)
    monkeypatch.setattr(opt_out._Read, "version", None)
    monkeypatch.setattr(opt_out._Read, "entries", ())
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


def test_the_file_is_read_again_when_it_has_changed(postgres: Path, never: Path) -> None:
    for text, expected in (("comm nginx", False), ("comm postgres", True), ("nonsense", True), ("", False)):
        never.write_text(text)
        assert has_opted_out(7, postgres) == expected, text
    never.unlink()
    assert not has_opted_out(7, postgres)


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
