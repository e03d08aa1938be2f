# SPDX-License-Identifier: Apache-2.0
"""What pip installs: every file of requirements/ has a version and hashes of everything, within the ranges of pyproject.toml,
and pip is never run without them."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

TOP = Path(__file__).resolve().parents[2]
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# The oldest Python, and Debian 13's.
PYTHONS = ("3.11", "3.13")
MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Pin:
    """A version of a package, where its marker holds."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(lock().name_of(self.requirement.name))

    @property
    def version(self) -> str:
        (only,) = self.requirement.specifier
        assert only.operator == "=="
        return only.version


@cache
def lock() -> ModuleType:
    """The program that writes them."""
    loader = SourceFileLoader("lock", str(TOP / "tools" / "lock"))
    spec = spec_from_loader("lock", loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def wanted() -> dict[str, list[str]]:
    ranges: dict[str, list[str]] = lock().ranges(tomllib.loads((TOP / "pyproject.toml").read_text()))
    return ranges


@cache
def pins(name: str) -> tuple[Pin, ...]:
    """Those of one file; each is a line with its continuations."""
    text = (TOP / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(Pin(Requirement(line.partition(" --hash")[0]), tuple(_HASH.findall(line))) for line in lines)


def environment(python: str, machine: str, extra: str = "") -> dict[str, str]:
    """Of markers, on Linux."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": extra,
    }


def chosen(name: str, where: dict[str, str]) -> dict[str, Pin]:
    """The pins that hold there; no package has two."""
    holding = [pin for pin in pins(name) if pin.requirement.marker is None or pin.requirement.marker.evaluate(where)]
    found = {pin.name: pin for pin in holding}
    assert len(found) == len(holding)
    return found


def places() -> list[dict[str, str]]:
    return [environment(python, machine) for python in PYTHONS for machine in MACHINES]


FILES = pytest.mark.parametrize("name", lock().PURPOSES)


def test_there_is_a_file_for_each_purpose_and_no_other() -> None:
    there = {file.name for file in (TOP / "requirements").iterdir()}
    assert there == {f"{name}.txt" for name in wanted()} == {f"{name}.txt" for name in lock().PURPOSES}


@FILES
def test_everything_has_hashes_and_names_no_place(name: str) -> None:
    assert pins(name)
    assert [pin.name for pin in pins(name) if not pin.hashes or len(set(pin.hashes)) != len(pin.hashes)] == []
    text = (TOP / "requirements" / f"{name}.txt").read_text()
    assert text.startswith(lock().header(name))
    assert re.findall(r"://|--\w*index|--find-links|--trusted|^-", text, re.MULTILINE) == []


@FILES
def test_it_has_what_pyproject_names_within_its_ranges(name: str) -> None:
    for where in places():
        there = chosen(name, where)
        for each in map(Requirement, wanted()[name]):
            if each.marker and not each.marker.evaluate(where):
                continue
            assert each.specifier.contains(there[lock().name_of(each.name)].version, prereleases=True), str(each)


@FILES
def test_it_has_what_the_packages_need_in_turn(name: str) -> None:
    """As far as these versions are installed here; pip itself refuses what is missing."""
    missing = []
    for where in places():
        there = chosen(name, where)
        for pin in there.values():
            for need in needs(pin, where):
                found = there.get(lock().name_of(need.name))
                if found is None or not need.specifier.contains(found.version, prereleases=True):
                    missing.append(f"{pin.name} needs {need}")
    assert missing == []


def needs(pin: Pin, where: dict[str, str]) -> list[Requirement]:
    """What it says that it needs there; nothing if another version is installed here."""
    try:
        installed = importlib.metadata.distribution(pin.requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return []
    if installed.version != pin.version:
        return []
    extras = ("", *pin.requirement.extras)
    return [
        need
        for need in map(Requirement, installed.requires or [])
        if need.marker is None or any(need.marker.evaluate({**where, "extra": extra}) for extra in extras)
    ]


def test_a_package_is_the_same_in_all_of_them() -> None:
    for where in places():
        everything = chosen("dev", where)
        for name in lock().PURPOSES:
            common = {each: pin for each, pin in chosen(name, where).items() if each in everything}
            assert {each: (pin.version, set(pin.hashes)) for each, pin in common.items()} == {
                each: (everything[each].version, set(everything[each].hashes)) for each in common
            }


# How a program runs pip, in a shell or as words of a list; nothing of the documents, nor of messages to users.
_PIP = re.compile(r"""(?:-m["', ]+pip\b|\bpip3? (?=install|wheel|download)|bin/pip\b)""")
_VERBS = re.compile(r"\b(install|wheel|download)\b")
# What follows within a statement's three lines: hashes, or nothing is fetched.
_CHECKED = ("--require-hashes", "$(LOCKED)", "*locked", "--no-index")
UNCHECKED = {
    "python/ssllatency": "messages, which tell users what to install in environments of their own",
    "tests/unit/output/screen/test_screen.py": "the same message",
    "tests/unit/test_requirements.py": "this test",
}


def sources() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True, check=False).stdout.split("\0")
    names = [name for name in listed if name and not name.endswith((".md", ".txt", ".json", ".png", ".svg"))]
    return [TOP / name for name in names if (TOP / name).is_file() and not name.startswith(tuple(UNCHECKED))]


def unchecked(text: str) -> list[str]:
    """The lines that run pip to install or fetch, without hashes in them or in the two after."""
    lines = text.replace("\\\n", " ").splitlines()
    found = []
    for number, line in enumerate(lines):
        statement = " ".join(lines[number : number + 4])
        code = line.split("#", 1)[0]
        if _PIP.search(code) and _VERBS.search(statement) and not any(word in statement for word in _CHECKED):
            found.append(line.strip())
    return found


def test_pip_is_run_with_hashes_alone() -> None:
    files = sources()
    if not files:
        pytest.skip("this is no git checkout")
    assert [(str(file.relative_to(TOP)), line) for file in files for line in unchecked(file.read_text(errors="replace"))] == []


def test_pip_without_hashes_is_found() -> None:
    assert unchecked("\t$(PYTHON) -m pip install -q wheel\n")
    assert unchecked('pip = [python, "-m", "pip", "install"]\nrun(*pip, "wheel")\n')
    assert not unchecked("python -m pip install -q \\\n  --require-hashes -r requirements/dev.txt\n")
    assert "--require-hashes" in re.findall(r"^LOCKED := (.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)[0]
