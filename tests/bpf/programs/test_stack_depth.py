# SPDX-License-Identifier: Apache-2.0
"""Every program's stack fits older kernels as well, which round each frame up to more than this machine's may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssllatency.engines import trial
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.objects import object_path
from ssllatency.errors import SsllatencyError
from tests.bpf.compiling import compiled
from tests.bpf.stack_depth import (
    INTERPRETERS_GRANULARITY,
    JITS_GRANULARITY,
    MOST_BEFORE_TAIL_CALL,
    MOST_BYTES,
    MOST_FRAMES,
    Chain,
    CompiledObject,
)

SESSIONS = {"at_both", "at_nothing_twice"}  # loaded since Linux 6.13 only


def is_refused(chain: Chain, functions: CompiledObject) -> bool:
    """By the verifier, whichever way it goes down first."""
    *callers, (last, _used) = chain.frames
    before = Chain(tuple(callers), chain.granularity).size
    tail_call = functions.functions[last].makes_tail_call and before >= MOST_BEFORE_TAIL_CALL
    return chain.size > MOST_BYTES or len(chain.frames) > MOST_FRAMES or tail_call


@pytest.mark.parametrize("name", trial.OBJECTS)
def test_no_program_takes_more_stack_than_older_kernels_have(name: str) -> None:
    functions = CompiledObject(object_path(name).read_bytes())
    assert functions.programs
    chains = [
        (chain.size, chain.frames)
        for program in functions.programs
        for chain in functions.chains(program, JITS_GRANULARITY if program in SESSIONS else INTERPRETERS_GRANULARITY)
        if is_refused(chain, functions)
    ]
    assert chains == []


def test_the_sum_is_the_verifiers_own(tmp_path: Path) -> None:
    content = compiled("deep_probe.bpf.c", tmp_path)
    functions = CompiledObject(content)
    by_granularity = [functions.deepest("deep", size) for size in (INTERPRETERS_GRANULARITY, JITS_GRANULARITY)]
    assert by_granularity[0].frames == (("deep", 40), ("within", 264), ("innermost", 200))
    assert [chain.size for chain in by_granularity] == [64 + 288 + 224, 48 + 272 + 208]
    with BpfObject(content, "deep_probe") as opened, pytest.raises(SsllatencyError) as refusal:
        opened.load()
    assert any(f"combined stack size of 3 calls is {chain.size}." in str(refusal.value) for chain in by_granularity)
