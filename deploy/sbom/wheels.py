# SPDX-License-Identifier: Apache-2.0
"""What wheels say of themselves, and whether a folder that was made of them holds anything else."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from deploy.sbom.spdx import Component

# Licences by SPDX's names where a wheel has another name, or where its text says more: Capstone has parts of LLVM,
# pyelftools has `construct`, which is MIT's.
LICENCES = {
    "capstone": "BSD-3-Clause AND NCSA",
    "linkify-it-py": "MIT",
    "markdown-it-py": "MIT",
    "mdit-py-plugins": "MIT",
    "mdurl": "MIT",
    "protobuf": "BSD-3-Clause",
    "pyelftools": "Unlicense AND MIT",
    "rich": "MIT",
    "textual": "MIT",
    "typing_extensions": "PSF-2.0",
}


class WrongContentsError(Exception):
    """A folder isn't what its wheels make."""


@dataclass(frozen=True)
class Wheel:
    """A wheel, and the files that it lays into a folder."""

    component: Component
    files: frozenset[str]


def read(wheel: Path) -> Wheel:
    """A wheel's name, version, licence, digest and files."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA") and name.count("/") == 1)
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    read_of_it = component(headers["Name"], headers["Version"], headers["License-Expression"], wheel.name, digest)
    return Wheel(read_of_it, frozenset(names))


def component(name: str, version: str, expression: str | None, file_name: str, sha256: str) -> Component:
    """A wheel as a component; ValueError where nothing says its licence by SPDX's name."""
    licence = LICENCES.get(name) or expression
    if not licence:
        raise ValueError(f"{file_name} names no licence by SPDX's name: add it to deploy/sbom/wheels.py")
    return Component("pypi", name.lower().replace("_", "-"), version, licence, file_name, sha256)


def contents(files: Collection[str], wheels: Sequence[Wheel]) -> list[Component]:
    """Those of the wheels that have files among these. WrongContentsError where a file is of no wheel, or two wheels have one
    name, which leaves open what lies there."""
    names = [wheel.component.name for wheel in wheels]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise WrongContentsError(f"more than one wheel of {', '.join(twice)}")
    strange = sorted(set(files).difference(*(wheel.files for wheel in wheels)))
    if strange:
        raise WrongContentsError(f"of no wheel: {', '.join(strange[:5])}{' …' if len(strange) > 5 else ''}")
    return [wheel.component for wheel in wheels if wheel.files & set(files)]


def files_below(folder: Path) -> set[str]:
    """The files in a folder by their paths from there, without what Python compiles."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def all_in(folders: Iterable[Path]) -> list[Wheel]:
    """All wheels in these folders."""
    return [read(wheel) for folder in folders for wheel in sorted(folder.glob("*.whl"))]
