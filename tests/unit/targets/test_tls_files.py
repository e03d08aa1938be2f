# SPDX-License-Identifier: Apache-2.0
"""Which files of which processes are traced."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.targets import (
    Identity,
    MappedFile,
    Process,
    TracedFile,
    all_processes,
    descriptor_of,
    file_identity,
    files,
    most_important,
    none_found,
    open_shared,
    opened,
    process_of,
    read_processes,
    tls_files,
)
from ssllatency.targets.files import MOST_MAPPED, MOST_OF_PROCESS
from ssllatency.targets.maps import fail

AddProcess = Callable[..., Path]
MapsLine = Callable[..., str]


class Holder:
    """Says of a file that begins with a blank that it holds no TLS, whatever it is called, and fails at one that begins with
    "!". Remembers which it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.descriptors: list[int] = []

    def __call__(self, fd: int, mapping: MappedFile, root: str) -> bool:
        assert root.endswith("/root")
        self.asked.append(mapping.path)
        self.descriptors.append(fd)
        text = os.pread(fd, 100, 0).decode()
        if text.startswith("!"):
            raise SsllatencyError(f"{mapping.path} is damaged.")
        return not text.startswith(" ")


@pytest.fixture
def holds() -> Holder:
    return Holder()


Search = Callable[..., list[TracedFile]]


@pytest.fixture
def search(proc: Path, holds: Holder) -> Iterator[Search]:
    """search(processes, …): what is found of these, all by default, open until the test ends."""
    with ExitStack() as stack:

        def find(processes: Iterable[Process] = (), named: Collection[Identity] = (), **options: Any) -> list[TracedFile]:
            problem = options.get("problem", fail)
            maps = read_processes(processes or all_processes(proc), lambda _, error: problem(error), proc, named=named)
            return tls_files(maps, holds, stack, proc, named=named, **options)

        yield find


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


Make = Callable[[str, str], Path]


def summary(files: list[TracedFile]) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(Path(file.path).name, file.pid, file.pids) for file in files]


def test_each_file_once_with_all_who_map_it(
    add_process: AddProcess, maps_line: MapsLine, make: Make, holds: Holder, search: Search
) -> None:
    ssl, crypto, libc = make("libssl.so.3", "libssl"), make("libcrypto.so.3", "libcrypto"), make("libc.so.6", " libc")
    both = maps_line(ssl) + maps_line(crypto, start=0x7F1000000000) + maps_line(libc, start=0x7F2000000000)
    for pid in (30, 10, 20):
        add_process(pid, maps=both)
    add_process(40, maps=maps_line(crypto) + maps_line(libc, start=0x7F2000000000))
    found = search()
    assert summary(found) == [("libcrypto.so.3", 10, (10, 20, 30, 40)), ("libssl.so.3", 10, (10, 20, 30))]
    assert holds.asked == [str(ssl), str(crypto), str(libc)]
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
    add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search, name: str, text: str, candidate: bool
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")) + maps_line(make(name, text), start=0x7F1000000000))
    assert (name in [Path(file.path).name for file in search()]) == candidate


def test_the_executable_is_asked_about(
    add_process: AddProcess, maps_line: MapsLine, make: Make, holds: Holder, search: Search
) -> None:
    static, plain = make("node", "static"), make("helper", " plain")
    add_process(10, maps=maps_line(static), exe=f"{static} (deleted)")
    add_process(20, maps=maps_line(plain), exe=str(plain))
    assert summary(search()) == [("node", 10, (10,))]
    assert holds.asked == [str(static), str(plain)]


def test_a_file_that_the_user_named_is_found_whatever_is_in_it(
    add_process: AddProcess, maps_line: MapsLine, make: Make, holds: Holder, search: Search
) -> None:
    odd = make("netty_tcnative.so", " static")
    add_process(10, maps=maps_line(odd))
    assert summary(search(named=[file_identity(odd)])) == [("netty_tcnative.so", 10, (10,))]
    assert holds.asked == []


def test_only_what_may_hold_tls_stays_open(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, holds: Holder
) -> None:
    damaged, plain = make("libssl.so.3", "!"), make("libc.so.6", " libc")
    lines = maps_line(damaged, start=0x7F1000000000) + maps_line(plain, start=0x7F2000000000)
    add_process(10, maps=maps_line(make("libcrypto.so.3", "libcrypto")) + lines)
    with ExitStack() as stack:
        maps = read_processes(all_processes(proc), lambda *_: None, proc)
        crypto, ssl = tls_files(maps, holds, stack, proc)
        assert [crypto.descriptor, ssl.descriptor] == holds.descriptors[:2]
        assert crypto.descriptor is not None
        assert os.pread(crypto.descriptor, 100, 0) == b"libcrypto"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(holds.descriptors[2])
    for fd in holds.descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_file_is_opened_once_while_there_is_room(
    add_process: AddProcess,
    maps_line: MapsLine,
    make: Make,
    proc: Path,
    search: Search,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "_MOST_OPEN", 1)
    both = [make(name, name) for name in ("libcrypto.so.3", "libssl.so.3")]
    add_process(10, maps="".join(maps_line(file, start=0x7F0000000000 + 8192 * at) for at, file in enumerate(both)))
    crypto, ssl = search()
    assert ssl.descriptor is None
    for file in (crypto, ssl):
        with opened(file, proc) as fd:
            assert os.pread(fd, 100, 0).decode() == Path(file.path).name
        assert (fd == file.descriptor) == (file is crypto)
        with os.fdopen(descriptor_of(file, proc)) as own:
            assert own.read() == Path(file.path).name
    with opened(ssl, proc) as fd:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_what_all_have_left_is_not_traced_though_it_is_open(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")))
    (found,) = search()
    shutil.rmtree(proc / "10")
    with pytest.raises(SsllatencyError, match="any more: it was unloaded, or its processes have ended"):
        descriptor_of(found, proc)


def test_another_process_serves_where_the_first_cannot_open(
    add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search
) -> None:
    file = make("libssl.so.3", "libssl")
    add_process(10, maps=maps_line(file, path="/not/here/libssl.so.3"))
    add_process(20, maps=maps_line(file))
    assert summary(search()) == [("libssl.so.3", 20, (10, 20))]


def test_a_file_that_nobody_can_open_is_a_problem(
    add_process: AddProcess, maps_line: MapsLine, make: Make, holds: Holder, search: Search
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl"), path="/not/here/libssl.so.3"))
    with pytest.raises(SsllatencyError, match=r"/not/here/libssl\.so\.3 can't be reached"):
        search()
    assert holds.asked == []
    problems: list[SsllatencyError] = []
    assert search(problem=problems.append) == []
    assert len(problems) == 1


@pytest.mark.parametrize("reused", [False, True], ids=["", "its inode reused"])
def test_a_file_that_was_unmapped_meanwhile_is_left_out(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, reused: bool
) -> None:
    """A file system gives the inode of a deleted file to the next one."""
    kept, old = maps_line(make("libssl.so.3", "libssl")), make("libssl.so.2", "libssl")
    folder = add_process(10, maps=kept + maps_line(old, path="/gone/libssl.so.2"))
    later = kept + (maps_line(old, path="/gone/libssl.so.1", start=0x7A0000000000) if reused else "")

    def unmap(*_: object) -> bool:
        """Called once the maps were read."""
        (folder / "maps").write_text(later)
        return True

    with ExitStack() as stack:
        maps = read_processes(all_processes(proc), lambda *_: None, proc)
        assert summary(tls_files(maps, unmap, stack, proc)) == [("libssl.so.3", 10, (10,))]


def test_processes_that_ended_are_left_out(
    proc: Path, add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search
) -> None:
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")))
    assert summary(search([*all_processes(proc), Process(11, 1, "gone", 0)])) == [("libssl.so.3", 10, (10,))]


@pytest.mark.parametrize(
    ("comms", "said"),
    [
        (["sleep"], r"sleep \(PID 10\) maps no TLS library .*process that does TLS"),
        (["a", "b", "c", "d", "a"], r"None of the 5 processes \(a, b, c, \.\.\.\) maps a TLS library"),
    ],
)
def test_no_tls_is_said_in_a_sentence(comms: list[str], said: str) -> None:
    assert re.match(said, none_found([Process(pid, 1, comm, 0) for pid, comm in enumerate(comms, start=10)]))


@pytest.mark.slow
def test_a_process_that_maps_a_thousand_files_is_not_looked_through(
    add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search
) -> None:
    names = [f"libssl-{number:04}.so" for number in range(1000)]
    many = [make(name, "libssl") for name in names]
    static, chosen = make("node", "static"), make("libssl-named.so", "libssl")
    mapped = [*many, chosen, static, make("libssl.so.1.1", "libssl")]
    maps = "".join(maps_line(file, start=0x7F0000000000 + 8192 * number) for number, file in enumerate(mapped))
    add_process(10, comm=b"greedy", maps=maps, exe=str(static))
    add_process(20, maps=maps_line(make("libssl.so.3", "libssl")))
    told: list[str] = []
    found = search(named=[file_identity(chosen)], tell=told.append)
    assert len(found) == MOST_OF_PROCESS + 1
    assert {"node", "libssl-named.so", "libssl.so.1.1", "libssl.so.3"} <= {Path(file.path).name for file in found}
    assert told == ["greedy (PID 10) maps more than 64 files with TLS: only that many were inspected."]


@pytest.mark.slow
def test_a_process_that_maps_thousands_of_files_is_looked_at_in_part(
    add_process: AddProcess, maps_line: MapsLine, make: Make, holds: Holder, search: Search
) -> None:
    many = [make(f"part-{number:04}", " nothing") for number in range(MOST_MAPPED + 50)] + [make("libssl.so.3", "libssl")]
    maps = "".join(maps_line(file, start=0x7F0000000000 + 8192 * number) for number, file in enumerate(many))
    add_process(10, comm=b"greedy", maps=maps)
    told: list[str] = []
    assert summary(search(tell=told.append))[0][0] == "libssl.so.3"
    assert len(holds.asked) == MOST_MAPPED
    assert told == [f"greedy (PID 10) maps {MOST_MAPPED + 51} files as code: only {MOST_MAPPED} of them were inspected."]


def test_of_the_maps_of_a_process_no_more_is_kept_than_is_looked_at(add_process: AddProcess, proc: Path) -> None:
    """Anybody can map tens of thousands of files in each of many processes, and would have this one keep them all."""
    lines = (
        f"{at:x}-{at + 4096:x} r-xp 0 08:01 {number + 1} /{number}/libbotan-2.so.19\n"
        for number, at in enumerate(range(0x7F0000000000, 0x7F0000000000 + 3 * MOST_MAPPED * 8192, 8192))
    )
    add_process(10, maps="".join(lines))
    process = process_of(10, proc)
    assert process
    [kept] = read_processes([process], lambda *_: None, proc)
    assert (kept.number, len(kept.candidates)) == (3 * MOST_MAPPED, MOST_MAPPED)
    assert [each.name for each in kept.untraced] == ["Botan"]
    assert sum(len(value) for value in vars(kept).values() if isinstance(value, tuple)) == MOST_MAPPED + 1


def test_files_that_cannot_be_opened_are_told_of_in_one_sentence(
    add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search, tmp_path: Path
) -> None:
    gone = [make(f"gone{number}.so", "libssl") for number in range(3)]
    maps = "".join(maps_line(file, start=0x7F1000000000 + 8192 * number) for number, file in enumerate(gone))
    add_process(10, maps=maps_line(make("libssl.so.3", "libssl")) + maps)
    for file in gone:
        file.rename(tmp_path / f"{file.name}.old")
    told: list[str] = []
    assert [Path(file.path).name for file in search(tell=told.append)] == ["libssl.so.3"]
    [sentence] = told
    assert sentence.startswith("3 mapped files couldn't be opened, so it isn't known whether they contain TLS. The file that")


def traced(name: str, kind: str, inode: int, *pids: int) -> TracedFile:
    return TracedFile(kind, pids[0], MappedFile(f"/usr/lib/{name}", (8, 1), inode, "1000-2000", False), pids)


def test_the_most_important_files_are_kept_in_their_order() -> None:
    five = [
        traced("libcrypto.so.3", "libcrypto", 1, 10),
        traced("liba.so", "libssl", 2, 11),
        traced("libshared.so", "libcrypto", 3, 10, 11, 12),
        traced("libwanted.so", "static", 4, 13),
        traced("libssl.so.3", "libssl", 5, 10),
    ]
    for most, kept in ((5, [1, 2, 3, 4, 5]), (4, [2, 3, 4, 5]), (2, [3, 4]), (1, [4])):
        chosen, left = most_important(five, most, named=[(8, 1, 4)])
        assert [file.inode for file in chosen] == kept
        assert [file.inode for file in left] == [number for number in range(1, 6) if number not in kept]


def test_five_hundred_processes(add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search) -> None:
    """Each with 200 mappings, 20 of them executable."""
    data = "7f0000000000-7f0000001000 r--p 00000000 fe:00 77                         /usr/lib/libssl.so.3\n" * 180
    mapped = [make(f"lib{number}.so", " plain") for number in range(19)] + [make("libssl.so.3", "libssl")]
    maps = data + "".join(maps_line(file, start=0x7F0000000000 + 8192 * number) for number, file in enumerate(mapped))
    for pid in range(1, 501):
        add_process(pid, maps=maps)
    (found,) = search()
    assert len(found.pids) == 500


@pytest.fixture
def shared(add_process: AddProcess, maps_line: MapsLine, make: Make, search: Search) -> TracedFile:
    """A file that two processes were found to map: each still has it under its path."""
    path = make("libssl.so.3", "ssl")
    for pid in (20, 30):
        add_process(pid, maps=maps_line(path))
    (found,) = search()
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
