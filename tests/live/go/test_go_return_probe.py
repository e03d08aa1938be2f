# SPDX-License-Identifier: Apache-2.0
"""Why no return probe is set in Go: a control. The same program lives under this tool's probes (test_go.py)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.engines.bpf.perf import open_uprobe
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.traced_functions import SERVER_HANDSHAKE
from tests.live.go.test_go import BUILT, NEEDED
from tests.live.go.test_go_handshakes import started

pytestmark = pytest.mark.usefixtures("tracing")
_FORMAT = Path("/sys/bus/event_source/devices/uprobe/format/retprobe")


def return_probe(path: Path, pid: int) -> int:
    """The descriptor of an event that counts returns of the handshake's function, and does nothing else."""
    assert _FORMAT.read_text().strip() == "config:0"
    image = Image.open(path)
    [function] = Program(image).functions.named(SERVER_HANDSHAKE)
    return open_uprobe(str(path), image.file_offset(function.address), pid, at_return=True)


@pytest.mark.parametrize("name", NEEDED)
def test_a_return_probe_ends_the_program(name: str) -> None:
    """The runtime finds a return address on the stack that it doesn't know, once it unwinds it."""
    with started(name) as program:
        event = return_probe(BUILT / name, program.pid)
        try:
            with pytest.raises((AssertionError, subprocess.SubprocessError)):
                program.run()
        finally:
            os.close(event)
