# SPDX-License-Identifier: Apache-2.0
"""What is planned on real libraries is what was planned before: golden plans (golden/), and the tables made from them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests import foreign
from tests.parameters import slow_except
from tests.unit.probes import golden
from tests.unit.probes.golden import tables

from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import NOT_IN_LIBRARY

ALL = golden.all_golden()
HOSTS = [subject for subject in golden.SUBJECTS if subject.file.endswith("-host")]
SAMPLE = next(each for each in ALL if (each["library"], each["family"], each["machine"]) == ("libssl", "3.0", "x86-64"))


class _Said:
    """What was compared how, shown at the end of the run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("golden plans", sep="-")
        for line in self.lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest) -> _Said:
    found = _Said()
    request.config.pluginmanager.register(found)
    return found  # it stays registered until the summary is written


@pytest.mark.parametrize("subject", slow_except(golden.SUBJECTS, *HOSTS), ids=lambda subject: subject.file)
def test_plan_is_the_golden_one(subject: golden.Subject, said: _Said) -> None:
    path = foreign.needed(golden.locate(subject.file))
    kept = golden.golden_path(subject, path)
    if not kept.exists():
        pytest.skip(f"no golden plan is kept of {subject.library} {golden.version_of(subject)}: {golden.ADVICE}")
    result = golden.compare(golden.load(kept), golden.current(subject, path))
    said.lines.append(f"{path.name} with {kept.name}: {result.kind}")
    if result.differences:
        pytest.fail(f"{path} against {kept.name}, {result.kind}:\n" + "\n".join(result.differences) + f"\n{golden.ADVICE}")


def test_golden_plans_are_whole() -> None:
    """Each names operations of the catalogue, and all of its library."""
    assert {each["library"] for each in ALL} == {subject.library for subject in golden.SUBJECTS}
    for each in ALL:
        assert not golden.unknown_operations(each)
        assert not set(each["operations"]) & set(each["missing"])
        for name, planned in each["operations"].items():
            roles = [site.split()[0] for site in planned["sites"]]
            assert roles[0] in ("entry", "return"), name
            assert set(roles[1:]) <= {"entry" if BY_NAME[name].callers_of else "exit"}, name
            assert "0x" not in json.dumps(planned), name


def test_tables_of_the_page_are_those_of_the_golden_plans() -> None:
    page = tables.PAGE.read_text()
    if page != tables.with_tables(page, ALL):
        pytest.fail(f"the tables of docs/{tables.PAGE.name} are not those of the golden plans. {golden.ADVICE}")


def test_tables_need_their_place_on_the_page() -> None:
    with pytest.raises(ValueError, match=r"lacks the lines"):
        tables.with_tables("# Probe sites\n", ALL)


def test_tables_hold_every_operation_and_reason() -> None:
    text = " ".join(tables.tables(ALL).split())
    for each in ALL:
        assert all(f"`{name}`" in text for name in each["operations"])
        assert all(reason in text for reason in each["missing"].values() if reason != NOT_IN_LIBRARY)


def _sites(library: str, family: str, operation: str) -> list[str]:
    for each in ALL:
        if (each["library"], each["family"], each["machine"]) == (library, family, "x86-64"):
            return list(each["operations"][operation]["sites"])
    raise LookupError(library)


def test_worked_examples_show_the_sites_of_the_golden_plans() -> None:
    """Of ecx_derive the one that most calls leave by; of SSL_read all."""
    found = re.findall(r"^    [0-9a-f]+: (\w+) .*  (entry|exit), (.*)$", tables.PAGE.read_text(), re.MULTILINE)
    derive, *read = [f"{role} {mnemonic} {rest}" for mnemonic, role, rest in found]
    assert derive in _sites("libcrypto", "3.0", "ecx_derive")
    assert read == [*_sites("libssl", "3.0", "SSL_read"), *_sites("libssl", "3.5", "SSL_read")]


# The comparison itself.

Values = dict[str, Any]


def _other_register(values: Values) -> None:
    sites = values["operations"]["SSL_read"]["sites"]
    sites[-1] = sites[-1].replace("value in r", "value in x")


def _no_longer_planned(values: Values) -> None:
    del values["operations"]["SSL_read"]
    values["missing"]["SSL_read"] = "its end isn't known"


def _no_longer_planned_nor_missing(values: Values) -> None:
    del values["operations"]["SSL_read"]


def _other_reason(values: Values) -> None:
    values["missing"] = dict.fromkeys(values["missing"], "no symbol and no table names it")


def _one_more(values: Values) -> None:
    values["operations"]["SSL_write_ex2"] = values["operations"]["SSL_write_ex"]
    del values["missing"]["SSL_write_ex2"]


def _other_offset(values: Values) -> None:
    values["offsets"]["rwstate"] += 8


def _nothing(values: Values) -> None:
    del values


@pytest.mark.parametrize(
    ("change", "seen_in_full", "seen_otherwise"),
    [
        (_nothing, False, False),
        (_other_register, True, False),
        (_other_offset, True, False),
        (_no_longer_planned, True, True),
        (_no_longer_planned_nor_missing, True, True),
        (_other_reason, True, True),
        (_one_more, True, True),
    ],
)
def test_what_a_comparison_sees(change: Callable[[Values], None], seen_in_full: bool, seen_otherwise: bool) -> None:
    now = copy.deepcopy(SAMPLE)
    change(now)
    assert bool(golden.compare(SAMPLE, now).differences) == seen_in_full
    assert golden.compare(SAMPLE, now).exact
    now["build_id"] = "another"
    assert bool(golden.compare(SAMPLE, now).differences) == seen_otherwise
    assert not golden.compare(SAMPLE, now).exact
