# SPDX-License-Identifier: Apache-2.0
"""Standard input, output and error as the command finds and leaves them. This brings in nothing else."""

from __future__ import annotations

import os
import sys


def open_missing() -> None:
    """Opens those that are closed, so that no file or pipe of ours gets their numbers: the input is empty, and to write to the
    outputs fails."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest number that is free
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def drop_unwritten() -> None:
    """Drops what the outputs hold and don't take, of which Python would have something to say in the end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
