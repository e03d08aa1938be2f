# SPDX-License-Identifier: Apache-2.0
"""A clean Debian root, commands in it, and the files that it has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.screens.terminal import Terminal
from tests.live.servers.roots import in_root
from tests.programs import needed

TOP = Path(__file__).resolve().parents[2]
PACKAGES = TOP / "build" / "packages"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ENVIRONMENT = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "LC_ALL": "C"}
# Where a package puts files; the package manager's own records are elsewhere.
OURS = ("etc/default", "etc/systemd", "opt", "root", "srv", "usr", "var/cache/ssllatency", "var/lib/ssllatency")
# Imports the screen of `top`, which comes along with all that it needs.
SCREEN = (
    "import sys; sys.path.insert(0, '/usr/lib/ssllatency')\n"
    "import ssllatency.output.screen.app, textual; print(textual.__file__)"
)
SCREENS = "/usr/lib/ssllatency/textual/__init__.py\n"


def built(pattern: str) -> Path:
    """What make has built of this name."""
    found = sorted(PACKAGES.glob(pattern))
    if not found:
        pytest.skip(f"no {pattern} in build/packages: run make test-packages")
    return found[-1]


@contextmanager
def debian(suite: str) -> Iterator[Path]:
    """The smallest Debian of that suite; it is removed at the end."""
    if os.geteuid():
        pytest.skip("it takes root to make a root")
    root = PACKAGES / f"clean-{suite}"
    mirror = subprocess.run([TOP / "tools" / "debian-mirror"], capture_output=True, text=True, check=True).stdout.strip()
    command = [
        *needed("debootstrap"),
        "--variant=minbase",
        f"--keyring={KEYRING}",
        "--include=ca-certificates",
        suite,
        root,
        mirror,
    ]
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", *map(str, command)],
            env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=1200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        run(root, "apt-get", "update", "-q")
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run(root: Path, *words: str) -> str:
    """What the command prints in the root, beside this machine's processes; it must succeed."""
    done = subprocess.run(in_root(root, *words), env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def install(root: Path, *packages: str) -> None:
    """By apt, without what is only recommended."""
    run(root, "apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)


def assert_top_opens(*command: str) -> None:
    """The screen of `top` opens in a terminal of 80 x 24, each of its lines within that, and ends."""
    with Terminal(command) as terminal:
        lines = terminal.wait_for(lambda text: "HS/S" in text and "q quit" in text, 60.0).splitlines()
        assert (len(lines), max(map(len, lines))) <= (24, 80)
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def files(root: Path) -> set[str]:
    """Those below the folders of packages, without the records of Debian 12's rpm, which are below the user's home."""
    paths = (path.relative_to(root) for place in OURS for path in (root / place).rglob("*") if not path.is_dir())
    return {str(path) for path in paths if not path.is_relative_to("root/.rpmdb")}
