# SPDX-License-Identifier: Apache-2.0
"""The filters of system calls: what each rule answers, and that the kernel takes such a filter."""

from __future__ import annotations

import os

import pytest
from tests.fixtures.filters import X86_64, answer

from ssllatency.system_calls import Answer, CallRule, limit_to, program

RULES = [
    CallRule(3, Answer.ALLOWED),
    CallRule(9, Answer.REFUSED, 2, bits=4, otherwise=Answer.ALLOWED),
    CallRule(302, Answer.ALLOWED, 0, otherwise=Answer.LACKING),
    CallRule(303, Answer.ALLOWED, 1, equal=7),
]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ((3,), Answer.ALLOWED),
        ((4,), Answer.END),
        ((9, 0, 0, 3), Answer.ALLOWED),
        ((9, 0, 0, 7), Answer.REFUSED),
        ((302, 0), Answer.ALLOWED),
        ((302, 1), Answer.LACKING),
        ((303, 0, 7), Answer.ALLOWED),
        ((303, 7, 0), Answer.REFUSED),
        ((0x40000003,), Answer.REFUSED),  # by x32's numbers
    ],
)
def test_each_rule_answers_its_call(call: tuple[int, ...], expected: Answer) -> None:
    assert answer(program(RULES, Answer.END, X86_64), *call) == expected


def test_numbers_of_another_architecture_mean_other_calls() -> None:
    assert answer(program(RULES, Answer.ALLOWED, X86_64), 3, architecture=0x40000003) == Answer.REFUSED
    assert answer(program(RULES, Answer.ALLOWED, X86_64, foreign=Answer.END), 3, architecture=0x40000003) == Answer.END


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number is x86-64's")
def test_the_kernel_keeps_to_it() -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            limit_to(program([CallRule(39, Answer.LACKING)], Answer.ALLOWED, X86_64))  # getpid
            status = 3 if os.getpid() < 0 < os.getppid() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
