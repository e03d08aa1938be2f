# SPDX-License-Identifier: Apache-2.0
"""The binaries whose plans are kept, by build-id: what each is, where it comes from, and which file has what is expected of it.

`binaries.txt` is made by `make corpus WRITE=1`; binaries whose plans are alike to the letter share a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.unit.probes.corpus import text

from ssllatency.elf.image import ElfError, Image
from ssllatency.probes.contents import file_facts
from ssllatency.stacks.implementations import library_version

FOLDER = Path(__file__).resolve().parent
PLANS = FOLDER / "plans"
BINARIES = FOLDER / "binaries.txt"
_HEAD = """\
# The binaries of the corpus, made by `make corpus WRITE=1`: build-id (sha256: where there is none), plan, version of the TLS
# library, where it comes from, name of the file. No binary is kept here.
"""


@dataclass(frozen=True)
class Binary:
    """One of them. `plan` is the name of its file below plans/, `origin` as in sources.txt, with the version."""

    identity: str
    plan: str
    version: str
    origin: str
    file: str

    @property
    def line(self) -> str:
        return "\t".join((self.identity, self.plan, self.version or "-", self.origin, self.file))

    @property
    def expected(self) -> str:
        """The text that is expected of it."""
        return (PLANS / f"{self.plan}.txt").read_text()

    @property
    def family(self) -> tuple[str, str]:
        """What another build of the same thing has in common with it, beside the kind and the machine: the package, or any of
        Debian's, and the library's version as far as a release may not change what is in it."""
        kind, *words = self.origin.split()
        package = re.sub(r":[^:]*Final.*|:\d.*", "", words[0])
        return ("Debian" if kind == "Debian" else package, series(self.version))


def series(version: str) -> str:
    """ "3.5", or "1.1.1", by OpenSSL's rules of what may change in a release; the name of another library."""
    match = re.match(r"(?:OpenSSL|GnuTLS) (1\.1\.\d|\d+\.\d+)", version)
    return match[1] if match else version.split(" ")[0]


def identity(path: Path) -> str:
    """The build-id of the file at `path`, or its hash."""
    image = Image.open(path, debug_roots=())
    return image.build_id or f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def version(path: Path) -> str:
    """What the file says of the version of its TLS library; of a libssl what the libcrypto beside it says."""
    image = Image.open(path, debug_roots=())
    said = file_facts(image).version
    if not said and path.name.startswith("libssl"):
        beside = sorted(path.parent.glob("libcrypto*"))
        suffix = path.name.partition(".so")[2].split(".1k")[0]
        alike = [other for other in beside if other.name.partition(".so")[2] == suffix] or beside
        said = library_version(Image.open(alike[0], debug_roots=())) if alike else ""
    return " ".join(said.split())


def load() -> list[Binary]:
    """All of them, as they are listed."""
    rows = [line.split("\t") for line in BINARIES.read_text().splitlines() if not line.startswith("#")]
    return [Binary(identity, plan, "" if version == "-" else version, *rest) for identity, plan, version, *rest in rows]


def save(binaries: Iterable[Binary], texts: Mapping[str, str]) -> None:
    """Writes the list anew, and the expected plans, by their names."""
    BINARIES.write_text(_HEAD + "".join(f"{binary.line}\n" for binary in binaries))
    for name, expected in texts.items():
        path = PLANS / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(expected)
    for path in PLANS.rglob("*.txt"):
        if str(path.relative_to(PLANS).with_suffix("")) not in texts and path.relative_to(PLANS).as_posix()[:-4] not in texts:
            path.unlink()


@dataclass(frozen=True)
class Described:
    """A binary that is here, with the text about it."""

    binary: Binary
    text: str


def look_at(path: Path, origin: str, file: str) -> Described | None:
    """The binary at `path` as it would be listed; None for a file without TLS, or that is no ELF image of a machine we know."""
    try:
        said = text.describe(path)
    except ElfError:
        return None
    if not said:
        return None
    return Described(Binary(identity(path), "", version(path), origin, file), said)


def arranged(described: Iterable[Described]) -> tuple[list[Binary], dict[str, str]]:
    """The binaries in order, each with the name of its plan, and the texts by that name: the first of those that are alike
    gives it."""
    by_text: dict[str, str] = {}
    binaries: dict[str, Binary] = {}
    for each in sorted(described, key=lambda each: _order(each.binary)):
        binary = each.binary
        name = by_text.setdefault(each.text, _plan_name(binary, each.text))
        binaries.setdefault(binary.identity, Binary(binary.identity, name, binary.version, binary.origin, binary.file))
    if len(set(by_text.values())) < len(by_text):
        raise ValueError(f"two plans would have one name: {sorted(by_text.values())}")
    used = {binary.plan for binary in binaries.values()}
    return list(binaries.values()), {name: said for said, name in by_text.items() if name in used}


def _order(binary: Binary) -> tuple[object, ...]:
    kind, *words = binary.origin.split()
    return kind, words[0].split("-")[0], tuple(_numbers(binary.origin)), binary.origin, binary.file


def _numbers(origin: str) -> Iterator[int]:
    return (int(number) for number in re.findall(r"\d+", origin))


def _plan_name(binary: Binary, said: str) -> str:
    """machine/group/version-file, where a group is a release of Debian, or a package; one for all that can't be traced."""
    machine, stripped = said.split(" ", 1)[0], "\nobstacle: " in said
    kind, first, *others = binary.origin.split()
    if stripped:
        return f"{machine}/stripped"
    if kind == "Debian":
        group, version = first, others[1]
    elif kind == "jar":
        group, version = first.split(":")[1:3]
    else:
        group, version = first, others[0] if others else ""
    file = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", binary.file.rpartition("/")[2])
    file = re.sub(r"(\.abi3|\.cpython\S*)?\.so$", "", file)
    libc = others[2:] if kind == "wheel" else []
    return f"{machine}/{group}/{'-'.join(filter(None, (version.replace(':', '.'), *libc, file)))}"
