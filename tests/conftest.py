# SPDX-License-Identifier: Apache-2.0
"""In CI a skipped test is a failure: a machine that can run a tier runs all of it. But for what no setup can give a machine,
its hardware (machine.py): such tests are named with the reason at the end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import bpftraces
from tests.machine import Lacking
from tests.parameters import slow_except

# Nothing is said of how long an example takes: on a busy machine that tells nothing.
settings.register_profile("untimed", settings(), deadline=None)
settings.register_profile("quick", settings(), deadline=None, max_examples=10)
settings.load_profile("untimed")

_left_out: dict[str, str] = {}  # by test, what this machine lacks for it
COMPARED = "compared with the corpus"  # the property of a test that tells of a binary
_compared: list[str] = []


def pytest_configure() -> None:
    """Has Ctrl-C interrupt the tests and what they start, also where a shell's background job is to ignore it; and has what
    they start find the package only where a test says so, whatever the variables of the shell are."""
    os.environ.pop("PYTHONPATH", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=slow_except((bpftraces.OWN, bpftraces.DEBIAN_13), bpftraces.OWN))
def bpftrace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What runs as bpftrace; the tests that ask for it run with each."""
    folder = bpftraces.folder_of(request.param, tmp_path_factory.mktemp("bpftrace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Turns a skip into a failure that says what was skipped and why."""
    report = yield
    if not report.skipped or hasattr(report, "wasxfail"):
        return report
    if call.excinfo is not None and isinstance(call.excinfo.value, Lacking):
        report.lacking = str(call.excinfo.value)
    elif os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps what this machine lacks and what was compared, from whichever process the test ran in."""
    if lacking := getattr(report, "lacking", ""):
        _left_out[report.nodeid] = lacking
    if report.when == "call":
        _compared.extend(str(value) for name, value in report.user_properties if name == COMPARED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the tests that this machine can't run, and says how many binaries were compared."""
    if _left_out:
        terminalreporter.section("not run: this machine can't", sep="-")
    for test, reason in _left_out.items():
        terminalreporter.write_line(f"{test}: {reason}")
    if _compared:
        terminalreporter.section("plans compared with the corpus", sep="-")
        terminalreporter.write_line(", ".join(f"{_compared.count(how)} {how}" for how in sorted(set(_compared))))
