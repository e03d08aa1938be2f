# SPDX-License-Identifier: Apache-2.0
"""Processes that map more than anybody can trace: the report comes all the same, with what is missing."""

from __future__ import annotations

import os
import ssl  # noqa: F401 - for its library
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import Trace
from tests.live.servers.nginx import libssl_of

pytestmark = pytest.mark.usefixtures("tracing")
GREEDY = Path(__file__).parents[1] / "victims" / "greedy.py"


def libssl_of_python() -> str:
    """The libssl of the Python that runs the processes."""
    return libssl_of(os.getpid())


@contextmanager
def greedy(library: str, *number: str) -> Iterator[subprocess.Popen[str]]:
    """The process, once it is ready."""
    with (
        tempfile.TemporaryDirectory(prefix="ssllatency-greedy-") as folder,
        subprocess.Popen([sys.executable, GREEDY, folder, library, *number], stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stdout
            assert process.stdout.readline().startswith("ready")
            yield process
        finally:
            process.kill()
            process.wait()


def test_a_process_that_maps_new_files_for_ever_is_reported_on() -> None:
    """Without an end to one look neither the end of -d nor Ctrl-C would be seen, and the trace be killed at last."""
    with greedy("/lib/x86_64-linux-gnu/libdl.so.2") as process:
        with Trace(process.pid) as trace:
            time.sleep(3)
        assert process.poll() is None
        notes = " ".join(trace.document["notes"])
        assert "maps new files faster than they can be inspected" in notes or "so many new files" in notes


@pytest.mark.parametrize("command", [Trace, Shakes])
def test_more_files_than_there_is_room_for(command: type[Trace]) -> None:
    """The rest is named."""
    with ExitStack() as stack:
        processes = [stack.enter_context(greedy(libssl_of_python(), "60")) for _ in range(5)]
        with command(*(process.pid for process in processes)) as trace:
            pass
    traced = {(library["path"]) for target in trace.document["targets"] for library in target["libraries"]}
    assert len(traced) == 256
    (note,) = [note for note in trace.document["notes"] if note.startswith("There is room for 256 files")]
    assert "libssl-" in note
    assert " more" in note
