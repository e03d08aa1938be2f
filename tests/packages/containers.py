# SPDX-License-Identifier: Apache-2.0
"""Podman with images and containers of the tests' own, which go with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ssllatency import __version__
from tests.packages.roots import PACKAGES, built
from tests.programs import needed

# The limits that podman itself would set are more than a machine may grant; and of a pod that asks for it, Debian 12's podman
# gives none of its containers the host's processes.
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
pidns = "host"
"""
NAME = f"localhost/ssllatency:{__version__}"


@contextmanager
def podman() -> Iterator[tuple[str, ...]]:
    """The command podman, which has the image as NAME. Nothing of it is left at the end."""
    if os.geteuid():
        pytest.skip("it takes root to run containers that trace")
    image, folder = built("*.tar"), PACKAGES / "podman"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "containers.conf"
    settings.write_text(_SETTINGS)
    command = (
        "env",
        f"CONTAINERS_CONF={settings}",
        *needed("podman"),
        "--root",
        f"{folder}/storage",
        "--runroot",
        f"{folder}/run",
        "--storage-driver",
        "vfs",
    )
    command += ("--cgroup-manager", "cgroupfs", "--runtime", *needed("runc"))
    try:
        subprocess.run([*command, "load", "-q", "-i", image], check=True, capture_output=True, timeout=300)
        yield command
    finally:
        # No `system reset`: that removes networks and what is under /run/libpod of other containers of this user's, too.
        for words in (("pod", "rm", "--all", "--force"), ("rm", "--all", "--force"), ("rmi", "--all", "--force")):
            subprocess.run([*command, *words], check=False, capture_output=True, timeout=300)
        shutil.rmtree(folder, ignore_errors=True)
