# SPDX-License-Identifier: Apache-2.0
"""The few facts about kernels that go by version."""

from __future__ import annotations

import os

import pytest

from ssllatency.host.kernel import release, return_probes_kill
from ssllatency.host.seccomp import decides_on_return_probes


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
    assert bool(return_probes_kill(version, seccomp=True, shadow_stack=False, decides=lambda: True)) == kills
    assert not return_probes_kill(version, seccomp=True, shadow_stack=False, decides=lambda: False)
    assert not return_probes_kill(version, seccomp=False, shadow_stack=False, decides=lambda: True)


def test_the_kernel_is_asked_only_where_the_version_does_not_tell() -> None:
    asked: list[bool] = []
    for version in ((6, 1, 0), (6, 10, 14), (6, 13, 3), (7, 3, 4)):
        return_probes_kill(version, seccomp=True, shadow_stack=False, decides=lambda: bool(asked.append(True)))
    assert asked == []


def test_what_this_kernel_answers() -> None:
    """From 6.13.3 on no filter is asked; before 6.11 there is no such call, and a filter is asked about any."""
    version = release()
    if os.uname().machine == "x86_64" and (6, 11, 0) <= version < (6, 13, 3):
        pytest.skip("on this version both answers are right")
    assert decides_on_return_probes() == (os.uname().machine == "x86_64" and version < (6, 11, 0))


@pytest.mark.parametrize(("version", "kills"), [((6, 10, 14), True), ((6, 11, 0), False), ((6, 18, 0), False)])
def test_shadow_stacks_and_return_probes(version: tuple[int, int, int], kills: bool) -> None:
    assert bool(return_probes_kill(version, seccomp=False, shadow_stack=True)) == kills
