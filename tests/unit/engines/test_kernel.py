# SPDX-License-Identifier: Apache-2.0
"""The few facts about kernels that go by version."""

from __future__ import annotations

import pytest

from ssllatency.engines.kernel import release, return_probes_kill


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("6.18.44-fc-v445", (6, 18, 44)),
        ("5.15.0-91-generic", (5, 15, 0)),
        ("6.6", (6, 6, 0)),
        ("7.1-rc2", (7, 1, 0)),
        ("?", (0, 0, 0)),
    ],
)
def test_release(text: str, version: tuple[int, int, int]) -> None:
    assert release(text) == version


@pytest.mark.parametrize(
    ("version", "kills"),
    [
        ((6, 10, 14), False),
        ((6, 11, 0), True),
        ((6, 12, 90), True),
        ((6, 13, 2), True),
        ((6, 13, 3), False),
        ((6, 14, 0), False),
    ],
)
def test_seccomp_and_return_probes(version: tuple[int, int, int], kills: bool) -> None:
    assert bool(return_probes_kill(version, seccomp=True, shadow_stack=False, processor="x86-64")) == kills
    assert not return_probes_kill(version, seccomp=False, shadow_stack=False, processor="x86-64")


def test_aarch64_returns_by_a_trap() -> None:
    assert not return_probes_kill((6, 12, 0), seccomp=True, shadow_stack=False, processor="aarch64")


@pytest.mark.parametrize(("version", "kills"), [((6, 10, 14), True), ((6, 11, 0), False), ((6, 18, 0), False)])
def test_shadow_stacks_and_return_probes(version: tuple[int, int, int], kills: bool) -> None:
    assert bool(return_probes_kill(version, seccomp=False, shadow_stack=True, processor="x86-64")) == kills
