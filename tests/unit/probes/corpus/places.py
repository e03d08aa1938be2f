# SPDX-License-Identifier: Apache-2.0
"""The binaries that are on this machine: those of build/corpus, of build/foreign with its Java archives, of build/trixie and
build/rust, and the machine's own libraries. Nothing is fetched from here."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tests import foreign

CORPUS = foreign.TOP / "build" / "corpus"
_OWN = [Path("/usr/lib") / f"{machine}-linux-gnu" for machine in ("x86_64", "aarch64")]
_RUST = {"built boringssl": "boringssl", "built aws-lc": "aws-lc"}


@dataclass(frozen=True)
class Place:
    """A file that may be of the corpus. `origin` and `file` are as in the manifest."""

    path: Path
    origin: str
    file: str


def of_corpus() -> Iterator[Place]:
    """The places of the manifest: what `make corpus` has fetched, and programs by tools/for-tests/boring-servers."""
    for said in sorted(CORPUS.glob("*/origin")):
        origin = said.read_text().strip()
        for path in _elf_files(said.parent):
            yield Place(path, origin, path.relative_to(said.parent).as_posix())
    for origin, program in _programs().items():
        yield Place(program, origin, "server")


def of_machine() -> Iterator[Path]:
    """Its own libssl and libcrypto."""
    return (path for folder in _OWN for name in ("libssl.so.*", "libcrypto.so.*") for path in sorted(folder.glob(name)))


def of_setup() -> Iterator[Path]:
    """What set-up fetches and builds for other tests."""
    for own in _OWN:
        folder = foreign.TOP / "build" / "trixie" / own.relative_to("/")
        yield from (path for name in ("libssl.so.*", "libcrypto.so.*") for path in sorted(folder.glob(name)))
    yield from (path for name in foreign.NAMES if (path := foreign.find(name).path))
    if package := foreign.python_package("cryptography").path:
        yield from _elf_files(package)
    yield from _programs().values()


def some_of_corpus(most: int) -> list[Path]:
    """The smallest files that `make corpus` has fetched, of no more than so many bytes together."""
    by_size = sorted((path.stat().st_size, path) for said in CORPUS.glob("*/origin") for path in _elf_files(said.parent))
    totals = accumulate(size for size, _ in by_size)
    return [path for (_, path), total in zip(by_size, totals, strict=True) if total <= most]


@contextmanager
def of_archives() -> Iterator[list[Path]]:
    """The libraries in the Java archives of build/foreign, unpacked for as long as the block lasts."""
    folders = [folder for name in ("netty", "conscrypt") if (folder := foreign.java_archives(name).path)]
    with tempfile.TemporaryDirectory() as made:
        for folder in folders:
            for archive in sorted(folder.glob("*.jar")):
                with zipfile.ZipFile(archive) as opened:
                    libraries = [name for name in opened.namelist() if name.endswith(".so")]
                    opened.extractall(Path(made) / archive.name, libraries)
        yield list(_elf_files(Path(made)))


def is_built(path: Path) -> bool:
    """Whether it is one of the programs that are built here."""
    return path in _programs().values()


def _programs() -> dict[str, Path]:
    """By origin."""
    programs = {origin: foreign.TOP / "build" / "rust" / name for origin, name in _RUST.items()}
    return {origin: program for origin, program in programs.items() if program.is_file()}


def _elf_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path
