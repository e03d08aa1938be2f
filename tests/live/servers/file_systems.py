# SPDX-License-Identifier: Apache-2.0
"""File systems in which a file's numbers in /proc/PID/maps aren't its own, mounted while a block lasts; and who maps a file."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from tests import machine, programs

LIBRARIES = ("libssl.so.3", "libcrypto.so.3")
_SIZE = 256 << 20  # of a sparse file; mkfs.btrfs asks for 109 MiB
_MAPS = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC)
print("mapped", flush=True)
sys.stdin.read()
"""


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    """The folder, made if there is none, with what `mount` is told mounted on it. Nothing stays behind."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *words, str(folder)], check=True)
    try:
        yield folder
    finally:
        if subprocess.run(["umount", str(folder)], check=False).returncode:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def btrfs(folder: Path) -> Iterator[Path]:
    """A file system of btrfs in a file beside the folder, mounted on the folder."""
    needs_file_system("btrfs")
    programs.needed("mkfs.btrfs", "btrfs")
    image = folder.with_name(f"{folder.name}.img")
    with image.open("wb") as file:
        file.truncate(_SIZE)
    try:
        subprocess.run([programs.path("mkfs.btrfs"), "--quiet", str(image)], check=True)
        with mounted(folder, "-t", "btrfs", "-o", "loop", str(image)):
            yield folder
    finally:
        image.unlink()


def subvolume(path: Path) -> Path:
    """A new subvolume there: its first file has the inode number 257, as in each."""
    subprocess.run([programs.path("btrfs"), "--quiet", "subvolume", "create", str(path)], check=True)
    return path


@contextmanager
def overlay(folder: Path, *lower: Path, upper: Path | None = None, options: str = "xino=off") -> Iterator[Path]:
    """An overlay of these folders; `upper` is a folder with room for a file system's own beside it."""
    needs_file_system("overlay")
    parts = [f"lowerdir={':'.join(map(str, lower))}", options]
    if upper:
        work = upper.with_name(f"{upper.name}-work")
        work.mkdir(exist_ok=True)
        parts += [f"upperdir={upper}", f"workdir={work}"]
    with mounted(folder, "-t", "overlay", "overlay", "-o", ",".join(parts)):
        yield folder


def needs_file_system(name: str) -> None:
    """Skips the test where the kernel doesn't have the file system, or nothing may be mounted."""
    if os.geteuid():
        pytest.skip("only root mounts a file system")
    if not any(line.split()[-1] == name for line in Path("/proc/filesystems").read_text().splitlines()):
        pytest.skip(f"this kernel has no {name}: modprobe {name}")


def host_libraries() -> list[Path]:
    """This host's OpenSSL."""
    found = [machine.LIBRARIES / name for name in LIBRARIES]
    if not all(file.exists() for file in found):
        pytest.skip("no OpenSSL 3 where Debian has it")
    return found


def openssl_in(folder: Path) -> Path:
    """Copies of this host's OpenSSL in the folder, libssl first: where it is."""
    folder.mkdir(exist_ok=True)
    for file in host_libraries():
        shutil.copy(file, folder)
    return folder / LIBRARIES[0]


def other_build(library: Path, path: Path) -> Path:
    """A copy that does the same and has another build-id."""
    build_id = bytes.fromhex(Image.open(library).build_id)
    content = library.read_bytes()
    assert content.count(build_id) == 1
    path.write_bytes(content.replace(build_id, bytes(reversed(build_id))))
    return path


def without_build_id(library: Path) -> Path:
    """Has the library's own note tell something else: as of linkers that make no build-id."""
    build_id = bytes.fromhex(Image.open(library).build_id)
    head = struct.pack("<II", 4, len(build_id))
    note, content = head + struct.pack("<I", 3) + b"GNU\0" + build_id, library.read_bytes()
    assert content.count(note) == 1
    library.write_bytes(content.replace(note, head + struct.pack("<I", 99) + b"GNU\0" + build_id))
    assert not Image.open(library).build_id
    return library


def numbers_in_maps(pid: int, path: Path) -> set[str]:
    """Device and inode number of the file, as maps of the process has them."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {f"{words[3]} {words[4]}" for words in lines if words[-1] == str(path)}


@contextmanager
def mapping(path: Path) -> Iterator[int]:
    """A process that maps the file as code and runs none of it."""
    command = [sys.executable, "-I", "-c", _MAPS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "mapped\n"
            yield process.pid
        finally:
            process.kill()
