# SPDX-License-Identifier: Apache-2.0
"""What of libbpf's messages reaches the user."""

from __future__ import annotations

from ssllatency.engines.bpf.libbpf import complaint

LISTING = """libbpf: prog 'at_exit': -- BEGIN PROG LOAD LOG --
0: R1=ctx(off=0,imm=0) R10=fp0
; below += greater(mantissa, mantissas[(below + 4) & 15]) << 2;
62: (0f) r2 += r1
math between map_value pointer and register with unbounded min value is not allowed
verification time 231 usec
stack depth 152+0
processed 71 insns (limit 1000000) max_states_per_insn 0 total_states 3 peak_states 3 mark_read 2
-- END PROG LOAD LOG --"""


def test_the_verifiers_last_words_and_the_program() -> None:
    messages = [
        "libbpf: prog 'at_exit': BPF program load failed: Permission denied",
        LISTING,
        "libbpf: prog 'at_exit': failed to load: -13",
        "libbpf: failed to load object 'ssllatency'",
    ]
    words = "program at_exit: math between map_value pointer and register with unbounded min value is not allowed"
    assert complaint(messages) == words


def test_a_listing_without_a_verdict_is_passed_over() -> None:
    empty = "libbpf: prog 'at_exit': -- BEGIN PROG LOAD LOG --\nprocessed 0 insns (limit 1000000)\n-- END PROG LOAD LOG --"
    assert complaint([empty, "libbpf: failed to load object 'ssllatency'."]) == "failed to load object 'ssllatency'"


def test_libbpf_may_say_nothing() -> None:
    assert complaint([]) == "libbpf gave no reason"
