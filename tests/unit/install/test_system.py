# SPDX-License-Identifier: Apache-2.0
"""What install/system puts into a prefix and removes from it, with a wheel of one module instead of ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each of them runs pip
SYSTEM = Path(__file__).resolve().parents[3] / "install" / "system"
WHEEL = {
    "ssllatency/__init__.py": "",
    "ssllatency-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: ssllatency\nVersion: 1\n",
    "ssllatency-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "ssllatency-1.dist-info/RECORD": "".join(
        f"{name},,\n"
        for name in ("ssllatency/__init__.py", *(f"ssllatency-1.dist-info/{each}" for each in ("METADATA", "WHEEL")))
    ),
}


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """The folder `build`, as somebody made it who lets nobody else read."""
    for name in ("bin/sslsnoop", "share/doc/ssllatency/docs/trace.md"):
        file = tmp_path / "build" / "prefix" / name
        file.parent.mkdir(parents=True)
        file.write_text("")
        file.chmod(0o600)
    for folder in (tmp_path / "build" / "prefix").rglob("*/"):
        folder.chmod(0o700)
    wheel = tmp_path / "build" / "wheels" / "ssllatency-1-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in WHEEL.items():
            archive.writestr(name, text)
    return tmp_path / "build"


def system(*words: object, umask: int = -1, python: object = sys.executable) -> subprocess.CompletedProcess[str]:
    """Runs it; `put` is given the Python, too."""
    given = [words[0], python, *words[1:]] if words[0] == "put" else words
    return subprocess.run([SYSTEM, *map(str, given)], capture_output=True, text=True, check=False, timeout=60, umask=umask)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_is_put_everyone_can_use(build: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    done = system("put", build, prefix, umask=0o077)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(prefix) >= {
        "bin/ssllatency",
        "bin/sslsnoop",
        "share/doc/ssllatency/docs/trace.md",
        "lib/ssllatency/ssllatency/__init__.py",
    }
    for path in (prefix, *prefix.rglob("*")):
        runs = path.is_dir() or path.parent.name == "bin"
        assert path.stat().st_mode & 0o777 == (0o755 if runs else 0o644), path


def test_a_folder_that_was_there_keeps_its_mode(build: Path, tmp_path: Path) -> None:
    shared = tmp_path / "prefix" / "share"
    shared.mkdir(parents=True)
    shared.chmod(0o2775)
    assert system("put", build, tmp_path / "prefix").returncode == 0
    assert shared.stat().st_mode & 0o7777 == 0o2775


@pytest.mark.parametrize("then", ["put", "remove"])
def test_what_broke_off_is_repaired_or_removed(build: Path, tmp_path: Path, then: str) -> None:
    prefix = tmp_path / "prefix"
    assert system("put", build, prefix, python="/bin/false").returncode != 0
    assert files(prefix)
    done = system(then, *([build] if then == "put" else []), prefix)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(files(prefix)) == (then == "put")


@pytest.mark.parametrize("then", ["put", "remove"])
def test_documents_may_be_gone(build: Path, tmp_path: Path, then: str) -> None:
    prefix = tmp_path / "prefix"
    assert system("put", build, prefix).returncode == 0
    shutil.rmtree(prefix / "share" / "doc" / "ssllatency")
    done = system(then, *([build] if then == "put" else []), prefix)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(files(prefix)) == (then == "put")


def test_notes_beside_the_documents_stay(build: Path, tmp_path: Path) -> None:
    notes = tmp_path / "prefix" / "share" / "doc" / "ssllatency" / "notes"
    assert system("put", build, tmp_path / "prefix").returncode == 0
    notes.write_text("")
    assert system("remove", tmp_path / "prefix").returncode == 0
    assert files(tmp_path / "prefix") == {str(notes.relative_to(tmp_path / "prefix"))}
    assert not (tmp_path / "prefix" / "lib" / "ssllatency").exists()
