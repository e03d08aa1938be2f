# SPDX-License-Identifier: Apache-2.0
"""How much the verifier has to look at: that is what a start takes most of its time for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.engines import trial
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.objects import open_object

# At about 10 million a second; the kernel refuses a program at a million.
MOST = 100_000


@pytest.mark.parametrize("name", trial.OBJECTS)
def test_the_verifier_is_soon_done(name: str, method: str) -> None:
    with open_object(name) as opened:
        loaded = trial.load(opened, kernel.Method(method))
        looked_at = {program: verified_instructions(opened.program_fd(program)) for program in loaded}
    assert looked_at
    assert {program: number for program, number in looked_at.items() if number > MOST} == {}


def verified_instructions(descriptor: int) -> int:
    """How many the verifier went through, along all ways through the program."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("verified_insns:"))
