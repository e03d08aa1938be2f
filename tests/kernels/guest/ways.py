# SPDX-License-Identifier: Apache-2.0
"""What the guest's kernel can and can't do, and how ssllatency is to refuse what it can't."""

from __future__ import annotations

from ssllatency.engines import kernel

# The first Linux that has a way of attaching, as the refusal names it.
SINCE = {"perf": "5.15", "multi": "6.6", "session": "6.13"}


class Refused(Exception):
    """What was asked for isn't to be had on this kernel, and ssllatency said so; the text is its sentence."""


def has(method: str) -> bool:
    """Whether this kernel can attach so."""
    order = list(kernel.Method)
    return order.index(kernel.Method(method)) <= order.index(kernel.best_method())


def ways() -> list[str]:
    """All ways of attaching that this kernel has."""
    return [method for method in SINCE if has(method)]
