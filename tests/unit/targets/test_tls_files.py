# SPDX-License-Identifier: Apache-2.0
"""Which files of which processes are traced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import (
    MappedFile,
    Process,
    TracedFile,
    all_processes,
    file_identity,
    most_important,
    open_shared,
    tls_files,
)
from ssllatency.targets.files import MOST_MAPPED, MOST_OF_PROCESS

AddProcess = Callable[..., Path]
MapsLine = Callable[..., str]


class Recogniser:
    """Calls a file by the first word in it, remembers whom it was asked about, and fails at a file that begins with "!"."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.descriptors: list[int] = []

    def __call__(self, fd: int, path: str, root: str) -> str:
        assert root.endswith("/root")
        self.asked.append(path)
        self.descriptors.append(fd)
        text = os.read(fd, 100).decode()
        if text.startswith("!"):
            raise SsllatencyError(f"{path} is damaged.")
        return text.partition(" ")[0]


@pytest.fixture
def recognise() -> Recogniser:
    return Recogniser()


def holds(fd: int, path: str, root: str) -> bool:
    """Whether a file is worth asking the recogniser: one that begins with a blank isn't, whatever it is called."""
    assert path
    assert root.endswith("/root")
    return not os.pread(fd, 1, 0).startswith(b" ")


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


Make = Callable[[str, str], Path]


def summary(files: list[TracedFile]) -> list[tuple[str, str, int, tuple[int, ...]]]:
    return [(Path(file.path).name, file.kind, file.pid, file.pids) for file in files]


def test_each_file_once_with_all_who_map_it(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    ssl, crypto, libc = make("libssl.so.3", "libssl"), make("libcrypto.so.3", "libcrypto"), make("libc.so.6", " libc")
    both = maps_line(ssl) + maps_line(crypto, start=0x7F1000000000) + maps_line(libc, start=0x7F2000000000)
    for pid in (30, 10, 20):
        add_process(pid, maps=both)
    add_process(40, maps=maps_line(crypto) + maps_line(libc, start=0x7F2000000000))
    found = tls_files(all_processes(proc), recognise, proc, holds=holds)
    assert summary(found) == [
        ("libcrypto.so.3", "libcrypto", 10, (10, 20, 30, 40)),
        ("libssl.so.3", "libssl", 10, (10, 20, 30)),
    ]
    assert recognise.asked == [str(ssl), str(crypto)]
    assert (*found[1].device, found[1].inode) == file_identity(ssl)


@pytest.mark.parametrize(
    ("name", "text", "candidate"),
    [
        ("libssl.so.1.1", "libssl", True),
        ("_rust.abi3.so", "static", True),
        ("cygrpc.cpython-311-x86_64-linux-gnu.so", "static", True),
        ("no-name-for-a-library", "libssl", True),
        ("libssl-of-another-kind.so", " nothing", False),
        ("libc.so.6", " nothing", False),
    ],
)
def test_candidates_by_content(
    proc: Path,
    add_process: AddProcess,
    maps_line: MapsLine,
    make: Make,
    recognise: Recogniser,
    name: str,
    text: str,
    candidate: bool,
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")) + maps_line(make(name, text), start=0x7F1000000000))
    found = tls_files(all_processes(proc), recognise, proc, holds=holds)
    assert (name in [Path(path).name for path in recognise.asked]) == candidate
    assert (name in [Path(file.path).name for file in found]) == candidate


def test_the_executable_is_asked_about(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    static, plain = make("node", "static"), make("helper", " plain")
    add_process(10, maps=maps_line(static), exe=f"{static} (deleted)")
    add_process(20, maps=maps_line(plain), exe=str(plain))
    assert summary(tls_files(all_processes(proc), recognise, proc)) == [("node", "static", 10, (10,))]
    assert recognise.asked == [str(static), str(plain)]


def test_a_file_that_the_user_named_is_asked_about(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    odd = make("netty_tcnative.so", "static")
    add_process(10, maps=maps_line(odd))
    found = tls_files(all_processes(proc), recognise, proc, named=[file_identity(odd)])
    assert summary(found) == [("netty_tcnative.so", "static", 10, (10,))]


def test_descriptors_are_closed(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    damaged = maps_line(make("libssl.so.3", "!"), start=0x7F1000000000)
    add_process(10, maps=maps_line(make("libcrypto.so.3", "libcrypto")) + damaged)
    tls_files(all_processes(proc), recognise, proc, problem=lambda _: None)
    assert len(recognise.descriptors) == 2
    for fd in recognise.descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_damaged_file_stops_or_is_reported(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    damaged = maps_line(make("libssl.so.3", "!"), start=0x7F1000000000)
    add_process(10, maps=maps_line(make("libcrypto.so.3", "libcrypto")) + damaged)
    with pytest.raises(SsllatencyError, match=r"libssl\.so\.3 is damaged"):
        tls_files(all_processes(proc), recognise, proc)
    problems: list[SsllatencyError] = []
    found = tls_files(all_processes(proc), recognise, proc, problem=problems.append)
    assert [file.kind for file in found] == ["libcrypto"]
    assert len(problems) == 1


def test_another_process_serves_where_the_first_cannot_open(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    file = make("libssl.so.3", "libssl")
    add_process(10, maps=maps_line(file, path="/not/here/libssl.so.3"))
    add_process(20, maps=maps_line(file))
    assert summary(tls_files(all_processes(proc), recognise, proc)) == [("libssl.so.3", "libssl", 20, (10, 20))]


def test_a_file_that_nobody_can_open_is_a_problem(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl"), path="/not/here/libssl.so.3"))
    with pytest.raises(SsllatencyError, match=r"/not/here/libssl\.so\.3 can't be reached"):
        tls_files(all_processes(proc), recognise, proc)
    assert recognise.asked == []


@pytest.mark.parametrize("reused", [False, True], ids=["", "its inode reused"])
def test_a_file_that_was_unmapped_meanwhile_is_left_out(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser, reused: bool
) -> None:
    """A file system gives the inode of a deleted file to the next one."""
    kept, old = maps_line(make("libssl.so.3", "libssl")), make("libssl.so.2", "libssl")
    folder = add_process(10, maps=kept + maps_line(old, path="/gone/libssl.so.2"))
    later = kept + (maps_line(old, path="/gone/libssl.so.1", start=0x7A0000000000) if reused else "")
    ahead = lambda _: (folder / "maps").write_text(later)  # noqa: E731 - it is called once the maps were read
    found = tls_files(all_processes(proc), recognise, proc, ahead=ahead)
    assert summary(found) == [("libssl.so.3", "libssl", 10, (10,))]


def test_processes_that_ended_are_left_out(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")))
    processes = [*all_processes(proc), Process(11, 1, "gone", 0)]
    assert summary(tls_files(processes, recognise, proc)) == [("libssl.so.3", "libssl", 10, (10,))]


def test_no_tls_in_one_process(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    add_process(10, comm=b"sleep", maps=maps_line(make("libc.so.6", " libc")))
    with pytest.raises(SsllatencyError, match=r"sleep \(PID 10\) maps no TLS library .*process that does TLS"):
        tls_files(all_processes(proc), recognise, proc, holds=holds)


def test_no_tls_in_several_processes(proc: Path, add_process: AddProcess, recognise: Recogniser) -> None:
    for pid, comm in enumerate((b"a", b"b", b"c", b"d", b"a"), start=10):
        add_process(pid, comm=comm)
    with pytest.raises(SsllatencyError, match=r"None of the 5 processes \(a, b, c, \.\.\.\) maps a TLS library"):
        tls_files(all_processes(proc), recognise, proc)


@pytest.mark.slow
def test_a_process_that_maps_a_thousand_files_is_not_looked_through(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    names = [f"libssl-{number:04}.so" for number in range(1000)]
    files = [make(name, "libssl") for name in names]
    static, chosen = make("node", "static"), make("libssl-named.so", "libssl")
    mapped = [*files, chosen, static, make("libssl.so.1.1", "libssl")]
    maps = "".join(maps_line(file, start=0x7F0000000000 + 8192 * number) for number, file in enumerate(mapped))
    add_process(10, comm=b"greedy", maps=maps, exe=str(static))
    add_process(20, maps=maps_line(make("libssl.so.3", "libssl")))
    told: list[str] = []
    found = tls_files(all_processes(proc), recognise, proc, named=[file_identity(chosen)], tell=told.append)
    assert len(found) == MOST_OF_PROCESS + 1
    assert {"node", "libssl-named.so", "libssl.so.1.1", "libssl.so.3"} <= {Path(file.path).name for file in found}
    assert told == ["greedy (PID 10) maps more than 64 files with TLS: only that many were inspected."]


@pytest.mark.slow
def test_a_process_that_maps_thousands_of_files_is_looked_at_in_part(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    files = [make(f"part-{number:04}", " nothing") for number in range(MOST_MAPPED + 50)] + [make("libssl.so.3", "libssl")]
    maps = "".join(maps_line(file, start=0x7F0000000000 + 8192 * number) for number, file in enumerate(files))
    add_process(10, comm=b"greedy", maps=maps)
    asked: list[str] = []

    def holding(fd: int, path: str, root: str) -> bool:
        asked.append(path)
        return holds(fd, path, root)

    told: list[str] = []
    assert summary(tls_files(all_processes(proc), recognise, proc, holds=holding, tell=told.append))[0][0] == "libssl.so.3"
    assert len(asked) == MOST_MAPPED
    assert told == [f"greedy (PID 10) maps {MOST_MAPPED + 51} files as code: only {MOST_MAPPED} of them were inspected."]


def test_files_that_cannot_be_opened_are_told_of_in_one_sentence(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser, tmp_path: Path
) -> None:
    gone = [make(f"gone{number}.so", "libssl") for number in range(3)]
    maps = "".join(maps_line(file, start=0x7F1000000000 + 8192 * number) for number, file in enumerate(gone))
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")) + maps)
    for file in gone:
        file.rename(tmp_path / f"{file.name}.old")
    told: list[str] = []
    found = tls_files(all_processes(proc), recognise, proc, holds=holds, tell=told.append)
    assert [Path(file.path).name for file in found] == ["libssl.so.3"]
    [sentence] = told
    assert sentence.startswith("3 mapped files couldn't be opened, so it isn't known whether they contain TLS. The file that")


def traced(name: str, kind: str, inode: int, *pids: int) -> TracedFile:
    return TracedFile(kind, pids[0], MappedFile(f"/usr/lib/{name}", (8, 1), inode, "1000-2000", False), pids)


def test_the_most_important_files_are_kept_in_their_order() -> None:
    files = [
        traced("libcrypto.so.3", "libcrypto", 1, 10),
        traced("liba.so", "libssl", 2, 11),
        traced("libshared.so", "libcrypto", 3, 10, 11, 12),
        traced("libwanted.so", "static", 4, 13),
        traced("libssl.so.3", "libssl", 5, 10),
    ]
    for most, kept in ((5, [1, 2, 3, 4, 5]), (4, [2, 3, 4, 5]), (2, [3, 4]), (1, [4])):
        chosen, left = most_important(files, most, named=[(8, 1, 4)])
        assert [file.inode for file in chosen] == kept
        assert [file.inode for file in left] == [number for number in range(1, 6) if number not in kept]


def test_five_hundred_processes(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, recognise: Recogniser
) -> None:
    """Each with 200 mappings, 20 of them executable."""
    data = "7f0000000000-7f0000001000 r--p 00000000 fe:00 77                         /usr/lib/libssl.so.3\n" * 180
    files = [make(f"lib{number}.so", " plain") for number in range(19)] + [make("libssl.so.3", "libssl")]
    maps = data + "".join(maps_line(file, start=0x7F0000000000 + 8192 * number) for number, file in enumerate(files))
    for pid in range(1, 501):
        add_process(pid, maps=maps)
    found = tls_files(all_processes(proc), recognise, proc)
    assert len(found[0].pids) == 500


@pytest.fixture
def shared(proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make) -> TracedFile:
    """A file that two processes were found to map: each still has it under its path."""
    path = make("libssl.so.3", "ssl")
    for pid in (20, 30):
        add_process(pid, maps=maps_line(path))
    (found,) = tls_files(all_processes(proc), lambda *_: "libssl", proc)
    return found


def test_a_file_that_its_first_process_unloaded_is_opened_through_another(proc: Path, shared: TracedFile) -> None:
    assert (shared.pid, shared.pids) == (20, (20, 30))
    (proc / "20/maps").write_text("")
    with os.fdopen(open_shared(shared, proc)) as file:
        assert file.read() == "ssl"
    shutil.rmtree(proc / "20")
    os.close(open_shared(shared, proc))


def test_a_file_that_was_loaded_again_elsewhere_is_opened(proc: Path, shared: TracedFile, maps_line: MapsLine) -> None:
    moved = "7a0000000000-7a0000001000"
    (proc / "20/maps").write_text(maps_line(Path(shared.path), start=0x7A0000000000))
    held = Path(shared.path).rename(Path(shared.path).with_name("held"))
    (proc / "20/map_files" / moved).symlink_to(held)
    with os.fdopen(open_shared(shared, proc)) as file:
        assert file.read() == "ssl"


def test_a_file_that_nobody_maps_any_more_is_told(proc: Path, shared: TracedFile) -> None:
    (proc / "20/maps").write_text("")
    shutil.rmtree(proc / "30")
    with pytest.raises(SsllatencyError, match=r"^No process maps \S+/libssl\.so\.3 any more: it was unloaded"):
        open_shared(shared, proc)
