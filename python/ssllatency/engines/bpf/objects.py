# SPDX-License-Identifier: Apache-2.0
"""The folder of the BPF objects: inside the package when installed, in a checkout otherwise."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import ssllatency
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.errors import SsllatencyError
from ssllatency.host import kernel

_MACHINE = re.compile(rb"registers of ([a-z0-9-]+)\0")  # bpf/common/programs.bpf.h; an object that reads none has none


def _of_package(name: str) -> Path:
    return Path(ssllatency.__file__).parent / name


def _of_checkout(name: str) -> Path:
    return Path(__file__).resolve().parents[4] / name


def sources_path() -> Path:
    """The folder of the C sources, which bcc compiles."""
    packaged = _of_package("bpf")
    return packaged if packaged.exists() else _of_checkout("bpf")


def object_path(name: str = "ssllatency") -> Path:
    """The file of the object that is compiled from bpf/NAME.bpf.c. A package has those of every machine."""
    file = f"{name}.bpf.o"
    packaged = _of_package(f"{os.uname().machine}/{file}")
    return packaged if packaged.exists() else _of_checkout("build") / file


def is_outdated(path: Path) -> bool:
    """Return whether the sources of the object at this path were changed since it was built: of a checkout, as a package comes
    with its objects."""
    if _of_package("bpf").exists():
        return False
    folder, built_s = sources_path(), path.stat().st_mtime
    source = folder / f"{path.name.removesuffix('.o')}.c"
    return _headers_changed_s(folder) > built_s or (source.exists() and source.stat().st_mtime > built_s)


@cache
def _headers_changed_s(folder: Path) -> float:
    """Return when the last of the headers was changed. They are many, and a command opens several objects."""
    headers = (header for header in folder.rglob("*.h") if header.exists())  # an editor's lock may be a link to nothing
    return max((header.stat().st_mtime for header in headers), default=0.0)


def open_object(name: str) -> BpfObject:
    """The object, opened and not yet loaded; SsllatencyError where it isn't there, or is of other sources or for another
    processor."""
    path = object_path(name)
    try:
        content = path.read_bytes()
    except OSError:
        raise SsllatencyError(f"the BPF object {path} is missing: build it with `make all`.") from None
    if is_outdated(path):  # its maps may have other sizes than this package takes them to have
        raise SsllatencyError(f"the BPF object {path} is older than its sources: build it with `make bpf`.")
    built_for = _MACHINE.search(content)
    if built_for and built_for[1].decode() != kernel.machine():
        raise SsllatencyError(f"the BPF object {path} is for {built_for[1].decode()}: build it here with `make clean all`.")
    return BpfObject(content, name)
