# SPDX-License-Identifier: Apache-2.0
"""What the guest's kernel can and can't do, and how ssllatency is to refuse what it can't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ssllatency.engines.bpf import kernel
from tests.live.commands.trace import TraceError

Check = Callable[[], dict[str, Any] | None]


class Refused(Exception):
    """What was asked for isn't to be had on this kernel, and ssllatency said so; the text is its sentence."""


def ways() -> list[kernel.Method]:
    """All ways of attaching that this kernel has."""
    return [method for method in kernel.Method if not kernel.lacks(method)]


def by(method: str, check: Check) -> Check:
    """A check that attaches by this method; where the kernel lacks it, that the sentence says so and since when there is it."""

    def run() -> dict[str, Any] | None:
        wanted = kernel.Method(method)
        if wanted in ways():
            return check()
        raise Refused(refusal(check, f"can't attach by {method}, which came with Linux {kernel.SINCE[wanted]}"))

    return run


def refusal(check: Check, words: str) -> str:
    """The one sentence by which what the check does is refused, which must hold these words."""
    try:
        check()
    except TraceError as error:
        said = str(error).removeprefix("the trace did not attach: ").removeprefix("snoop did not attach: ")
    else:
        raise AssertionError(f"it wasn't refused, though this kernel has {', '.join(ways())} only")
    sentence = said.strip()
    assert words in sentence, f"it was refused with other words: {sentence}"
    assert "\n" not in sentence, f"it was refused with more than a sentence: {sentence}"
    return sentence.removeprefix("ssllatency: ")
