# SPDX-License-Identifier: Apache-2.0
"""Which engine is taken, and what is said when it isn't the one that comes first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssllatency.engines.choice import AUTO, NAMES, Choice, choose, engine
from ssllatency.errors import SsllatencyError


def lacking(*engines: str) -> Callable[[str], str]:
    return lambda name: f"{name} isn't there" if name in engines else ""


def test_the_best_is_taken_without_a_word() -> None:
    assert choose(AUTO, lacking("bcc", "bpftrace")) == Choice("libbpf")


@pytest.mark.parametrize(("missing", "taken"), [(("libbpf",), "bcc"), (("libbpf", "bcc"), "bpftrace")])
def test_another_one_is_taken_with_the_reason(missing: tuple[str, ...], taken: str) -> None:
    why = f"libbpf can't be used, so {taken} is: libbpf isn't there."
    assert choose(AUTO, lacking(*missing)) == Choice(taken, why)


def test_what_a_worse_one_lacks_is_asked_only_where_the_better_cannot_be_had() -> None:
    asked: list[str] = []
    choose(AUTO, lambda name: asked.append(name) or "")
    assert asked == ["libbpf"]


def test_where_none_can_be_had_the_best_ones_lack_is_told() -> None:
    with pytest.raises(SsllatencyError, match=r"^This machine can't trace: libbpf isn't there\.$"):
        choose(AUTO, lacking("libbpf", "bcc", "bpftrace"))


@pytest.mark.parametrize("name", [name for name in NAMES if name != AUTO])
def test_the_one_asked_for_is_taken_or_none(name: str) -> None:
    assert choose(name, lacking(*set(NAMES) - {name})) == Choice(name)
    with pytest.raises(SsllatencyError, match=rf"^This machine can't trace with {name}: {name} isn't there\.$"):
        choose(name, lacking(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name != AUTO])
def test_each_name_is_that_of_its_engine(name: str) -> None:
    assert engine(name).name == name
