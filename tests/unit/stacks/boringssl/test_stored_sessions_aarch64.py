# SPDX-License-Identifier: Apache-2.0
"""The tags of a session's stored form in BoringSSL's code for aarch64, as compilers put them together, and the fields beside
them; and what counts a stack's members there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests import programs
from tests.fixtures.assembled_aarch64 import assemble, function

from ssllatency.code.evaluate import calls_with_constants
from ssllatency.elf.image import Range
from ssllatency.stacks.boringssl.labels import Labels
from ssllatency.stacks.boringssl.raised_errors import RaisedErrors
from ssllatency.stacks.boringssl.signing import getters_of_count

TAG, GROUP, SIGNATURE = "movk {register}, #0xa000, lsl #16", 18, 23
EACH = "mov w2, #{tag}\nmovk w2, #0xa000, lsl #16\nbl add\nldrh w1, [x20, #{offset}]\nbl write\n"
OF_ONE_ANOTHER = "add w2, w24, #{further}\nbl add\nldrh w1, [x20, #{offset}]\nbl write\n"


def by_gcc(fields: dict[int, int]) -> str:
    """Each tag by itself."""
    return "".join(EACH.format(tag=tag, offset=offset) for tag, offset in fields.items())


def by_clang(fields: dict[int, int]) -> str:
    """One out of another."""
    first = f"mov w24, #1\n{TAG.format(register='w24')}\n"
    return first + "".join(OF_ONE_ANOTHER.format(further=tag - 1, offset=offset) for tag, offset in fields.items())


@pytest.mark.parametrize("compiled", [by_gcc, by_clang])
def test_fields_beside_their_tags(tmp_path: Path, compiled: object) -> None:
    programs.needed("clang")
    assert callable(compiled)
    fields = {tag: 2 * tag for tag in (1, 2, 4, 14, SIGNATURE, GROUP, 19)}
    code = assemble(tmp_path, function("writes", f"{compiled(fields)}ret") + function("add", "ret") + function("write", "ret"))
    bounds = code.image.function_bounds(code.symbols["writes"])
    assert bounds

    def calls(function: Range) -> object:
        return calls_with_constants(code.image, function)

    nearby = {bounds: {None}}
    errors = cast("RaisedErrors", SimpleNamespace(calls=calls, of=lambda _: nearby))
    labels = Labels(code.image, errors, 48)
    assert labels._writing() == bounds
    assert {tag: labels._word_after(bounds, tag) for tag in fields} == fields


def test_what_counts_members_may_return_the_null_that_it_was_given(tmp_path: Path) -> None:
    """As Clang compiles it; what only returns what it was given counts nothing."""
    programs.needed("clang")
    count, same = function("count", "cbz x0, 1f\nldr x0, [x0]\n1: ret"), function("same", "ret")
    code = assemble(tmp_path, count + same)
    assert getters_of_count(code.image, {*code.symbols.values()}) == {code.symbols["count"]}
