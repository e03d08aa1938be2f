# SPDX-License-Identifier: Apache-2.0
"""Values that a small function returns, found by following its instructions on known and unknown values; and the constants that
any function passes on.

`SSL_want` returns a field of its argument, `RSA_PKCS1_OpenSSL` the address of a table, a provider's query function a table that
depends on a number: all are read this way, however they were compiled. Nothing is executed; calls are not entered; both ways of
a jump are followed when its condition is unknown. Steps and paths have caps, so that any code ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ssllatency.code import constant_blocks
from ssllatency.code.aarch64 import call_constants as aarch64_constants
from ssllatency.code.aarch64.evaluation import Aarch64Evaluation
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.values import Assumptions, Value
from ssllatency.code.x86 import call_constants as x86_constants
from ssllatency.code.x86.evaluation import X86Evaluation
from ssllatency.elf.image import Image, Range

_FieldValues = Mapping[tuple[int, ...], int]


def returned(image: Image, address: int, **arguments: Value) -> list[Value]:
    """The values that the function at `address` can return, a value for each way out; None for a value that can't be
    determined.

    `arguments` are what registers hold at entry. They are named as on x86-64 (rdi, rsi, …, the first arguments), on either
    machine. Empty where no way out was reached.
    """
    return followed(image, address, arguments).results


def followed(
    image: Image, address: int, arguments: Mapping[str, Value], fields: _FieldValues = MappingProxyType({})
) -> Evaluation:
    """The finished evaluation of the function at `address`; `arguments` as for returned().

    `fields` are the numbers that fields hold, by the field's path.
    """
    return followed_in(image, address, Assumptions(arguments, fields))


def followed_in(image: Image, address: int, case: Assumptions) -> Evaluation:
    """The finished evaluation of the function at `address` in this case."""
    evaluation = _evaluation(image)
    evaluation.run(address, case)
    return evaluation


def returned_in_cases(image: Image, address: int, cases: Iterable[Assumptions]) -> Iterator[list[Value]]:
    """The results of returned() for the function at `address` in each of the cases; its code is decoded once for all."""
    evaluation = _evaluation(image)
    for case in cases:
        evaluation.results = []
        evaluation.run(address, case)
        yield evaluation.results


def calls_with_constants(image: Image, bounds: Range) -> set[constant_blocks.ConstantCall]:
    """The direct calls and tail jumps of the function, once for each set of constant arguments; none of one that is too
    large."""
    start, end = bounds
    if end - start > constant_blocks.MAX_SIZE:
        return set()
    machine = x86_constants if image.machine == "x86-64" else aarch64_constants
    return constant_blocks.followed(machine.blocks(image.code(start, end - start), start), start, machine.FOLLOWED)


def _evaluation(image: Image) -> Evaluation:
    return X86Evaluation(image) if image.machine == "x86-64" else Aarch64Evaluation(image)
