# SPDX-License-Identifier: Apache-2.0
"""Which files a program would load as its TLS libraries, in a root that somebody else may have made."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssllatency.targets.expected import ExpectedFile, expected_files, named_files, open_expected, root_paths

PID = 77


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of process PID."""
    made = tmp_path / "root"
    (made / "usr/lib").mkdir(parents=True)
    (made / "etc").mkdir()
    process = tmp_path / "proc" / str(PID)
    (process / "ns").mkdir(parents=True)
    (process / "ns/mnt").touch()
    (process / "root").symlink_to(made)
    return made


def library(root: Path, path: str) -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\x7fELF")
    return file


def found(tmp_path: Path, *pids: int) -> list[ExpectedFile]:
    with ExitStack() as stack:
        return expected_files(pids or (PID,), stack, tmp_path / "proc")


def inodes(files: list[ExpectedFile]) -> list[int]:
    return [file.mapping.identity[2] for file in files]


def test_what_the_loaders_cache_lists_is_expected_once(root: Path, tmp_path: Path) -> None:
    libraries = [library(root, f"/usr/lib/x86_64-linux-gnu/{name}") for name in ("libssl.so.3", "libcrypto.so.3")]
    (root / "lib").symlink_to("usr/lib")
    listed = [b"libssl.so.3", b"/lib/x86_64-linux-gnu/libssl.so.3", b"/usr/lib/x86_64-linux-gnu/libssl.so.3"]
    listed += [b"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", b"/usr/lib/x86_64-linux-gnu/libz.so.1", b"/gone/libssl.so.9"]
    (root / "etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\xff\0\0" + b"\0".join(listed) + b"\0")
    files = found(tmp_path)
    assert inodes(files) == [file.stat().st_ino for file in libraries]
    assert len({file.pair for file in files}) == 1
    assert {file.root for file in files} == {str(tmp_path / "proc" / str(PID) / "root")}


def test_without_a_cache_the_usual_folders_are_looked_into(root: Path, tmp_path: Path) -> None:
    assert inodes(found(tmp_path)) == []
    file = library(root, "/usr/lib/libssl.so.3")
    assert inodes(found(tmp_path)) == [file.stat().st_ino]


def test_the_environment_and_the_executable_say_where_else(root: Path, tmp_path: Path) -> None:
    process = tmp_path / "proc" / str(PID)
    (process / "environ").write_bytes(b"HOME=/\0LD_LIBRARY_PATH=relative:/opt/own\0")
    (process / "exe").symlink_to("/opt/app/bin/server")
    files = [library(root, path) for path in ("/opt/own/libssl.so.3", "/opt/app/lib/libcrypto.so.1.1")]
    assert inodes(found(tmp_path)) == [file.stat().st_ino for file in files]


def test_versions_are_paired_with_their_own(root: Path, tmp_path: Path) -> None:
    for name in ("libssl.so.3", "libcrypto.so.3", "libssl.so.1.1", "libcrypto.so.1.1"):
        library(root, f"/usr/lib/{name}")
    pairs = [file.pair for file in found(tmp_path)]
    assert len(pairs) == 4
    assert len(set(pairs)) == 2


@pytest.mark.parametrize("way", ["absolute", "upwards"])
def test_no_link_leads_out_of_the_root(root: Path, tmp_path: Path, way: str) -> None:
    """Neither does one to a library of ours, nor one in the place of the cache."""
    ours = library(tmp_path, "/ours/libssl.so.3")
    (root / "usr/lib/libssl.so.3").symlink_to(ours if way == "absolute" else "../../../ours/libssl.so.3")
    (tmp_path / "cache").write_bytes(f"{ours}\0".encode())
    (root / "etc/ld.so.cache").symlink_to(tmp_path / "cache" if way == "absolute" else "../../cache")
    assert found(tmp_path) == []


def test_what_is_no_file_is_not_touched(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "usr/lib/libssl.so.3")
    os.mkfifo(root / "etc/ld.so.cache")
    (root / "usr/lib/libcrypto.so.3").mkdir()
    library(root, "/usr/lib/libssl.so.1.1").write_bytes(b"")  # nothing of it can be mapped
    assert found(tmp_path) == []


def test_a_cache_without_an_end_is_bounded(root: Path, tmp_path: Path) -> None:
    many = [library(root, f"/many/{number}/libssl.so.3") for number in range(40)]
    inside = ["/" + str(file.relative_to(root)) for file in many]
    (root / "etc/ld.so.cache").write_bytes("\0".join(inside).encode() + b"\0" + b"/x/libssl.so" * 100_000 + b"\0")
    assert inodes(found(tmp_path)) == [file.stat().st_ino for file in many[:16]]


def test_processes_of_one_root_share_it_and_those_that_are_gone_have_none(root: Path, tmp_path: Path) -> None:
    library(root, "/usr/lib/libssl.so.3")
    other = tmp_path / "proc/78"
    (other / "ns").mkdir(parents=True)
    (other / "ns/mnt").hardlink_to(tmp_path / "proc" / str(PID) / "ns/mnt")
    (other / "root").symlink_to(root)
    assert len(found(tmp_path, PID, 78, 79)) == 1
    assert root_paths((PID, 78, 79), tmp_path / "proc") == [str(tmp_path / "proc" / str(PID) / "root")]


def test_a_named_library_brings_what_belongs_to_it(tmp_path: Path) -> None:
    for name in ("libssl.so.3", "libcrypto.so.3", "libcrypto.so.1.1"):
        library(tmp_path, f"/{name}")
    with ExitStack() as stack:
        files = named_files(str(tmp_path / "libssl.so.3"), stack)
        assert [Path(file.mapping.path).name for file in files] == ["libssl.so.3", "libcrypto.so.3"]
        assert len({file.pair for file in files}) == 1


def test_a_file_that_is_opened_stays_open_as_long_as_its_stack(root: Path) -> None:
    library(root, "/usr/lib/libssl.so.3")
    with ExitStack() as stack:
        file = open_expected("/usr/lib/libssl.so.3", str(root), stack)
        assert file
        assert os.read(file.descriptor, 4) == b"\x7fELF"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file.descriptor)
