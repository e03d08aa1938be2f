# SPDX-License-Identifier: Apache-2.0
"""ssllatency as it is installed, once by `make install` and once by pip, where nothing can reach back to the checkout."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
VENV = TOP / "build" / "venv"
WAYS = ("make", "pip")


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """`make` in the checkout."""
    return subprocess.run(["make", *words], cwd=TOP, capture_output=True, text=True, check=False)


def install(way: str, folder: Path) -> Path:
    """Installs below `folder`; the prefix. AssertionError with what was said where that fails."""
    if way == "make":
        done = make("install", f"DESTDIR={folder}", "PREFIX=/usr/local")
        assert done.returncode == 0, done.stdout + done.stderr
        return folder / "usr" / "local"
    done = make("wheel")
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", folder], check=True)
    pip = [VENV / "bin" / "python", "-m", "pip", "--python", folder / "bin" / "python", "install", "-q"]
    subprocess.run([*pip, "--no-index", "--find-links", TOP / "build" / "wheels", "ssllatency"], check=True)
    return folder


def alone(program: Path, folder: Path) -> Path:
    """A script that runs the program in a mount namespace in which the checkout and its virtual environment are empty, with the
    bytecode that was installed: what tests keep lies in the checkout."""
    script = folder / f"{program.name}-alone"
    environment = VENV.resolve()  # perhaps a link that leads out of the checkout
    hidden = [TOP] if environment.is_relative_to(TOP) else [TOP, environment]
    mounts = " && ".join(f"mount -t tmpfs none {shlex.quote(str(each))}" for each in hidden)
    command = f'{mounts} && cd / && exec {shlex.quote(str(program))} "$@"'
    script.write_text(f'#!/bin/sh\nexec env -u PYTHONPYCACHEPREFIX unshare --mount sh -c {shlex.quote(command)} sh "$@"\n')
    script.chmod(0o755)
    return script
