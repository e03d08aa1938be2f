# SPDX-License-Identifier: Apache-2.0
"""Packages of any suite and architecture from the mirror that this machine's apt is set up to use.

apt works on lists and a status of its own, so that this machine's apt stays as it is; nothing is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LISTS_LAST_S = 24 * 3600.0


class SetupError(RuntimeError):
    """Something could not be fetched or made; the text is one sentence."""


def run(*command: object, cwd: Path = TOP, text: str = "") -> str:
    """The standard output of a command; SetupError with the last line that it wrote when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it gave no reason"]
        reason = next((line for line in lines if line.startswith("E:")), lines[-1])
        raise SetupError(f"{words[0]} failed: {reason.strip()}")
    return done.stdout


class Suite:
    """One suite of Debian for one architecture. Its lists are fetched when they are older than a day."""

    def __init__(self, name: str, architecture: str, folder: Path) -> None:
        self.name, self.architecture = name, architecture
        self._folder = folder / f"apt-{name}-{architecture}"
        self._update()

    def names(self, beginning: str) -> list[str]:
        """The names of its packages that begin so."""
        return self._apt("apt-cache", "pkgnames", beginning).split()

    def fetch(self, packages: Sequence[str]) -> list[Path]:
        """These packages, without what they depend on, as files."""
        return self._archives(["download", *packages])

    def fetch_all(self, packages: Sequence[str]) -> list[Path]:
        """These packages and all that they depend on, as files."""
        uris = self._apt("apt-get", "install", "-y", "--no-install-recommends", "--print-uris", "-qq", *packages)
        names = [line.split()[1].split("_")[0] for line in uris.splitlines() if line.startswith("'")]
        return self._archives(["download", *names])

    def _archives(self, command: Sequence[str]) -> list[Path]:
        archives = self._folder / "downloads"
        shutil.rmtree(archives, ignore_errors=True)
        archives.mkdir()
        self._apt("apt-get", *command, cwd=archives)
        return sorted(archives.glob("*.deb"))

    def _update(self) -> None:
        stamp = self._folder / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < _LISTS_LAST_S:
            return
        for name in ("lists/partial", "archives/partial", "empty"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        mirror = run(TOP / "tools" / "debian-mirror").strip()
        source = f"deb [arch={self.architecture} signed-by={KEYRING}] {mirror} {self.name} main\n"
        (self._folder / "sources.list").write_text(source)
        self._apt("apt-get", "update", "-q")
        stamp.touch()

    def _apt(self, program: str, *words: str, cwd: Path = TOP) -> str:
        folder = self._folder
        settings = {
            "Dir::State": folder,
            "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder,
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": folder / "empty",
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return run(program, *options, *words, cwd=cwd)


def unpack(archive: Path, folder: Path) -> None:
    """What a package holds, laid into `folder`, whose links to folders stay links."""
    tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE)
    assert tar.stdout
    done = subprocess.run(
        ["tar", "-x", "--keep-directory-symlink", "-C", folder], stdin=tar.stdout, capture_output=True, text=True, check=False
    )
    if tar.wait() or done.returncode:
        raise SetupError(f"{archive.name} can't be unpacked: {done.stderr.strip()}")
