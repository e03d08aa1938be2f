# SPDX-License-Identifier: Apache-2.0
"""Processes and threads that come and go faster than anybody looks: each handshake counts once, and nothing of them stays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.live.commands.handshakes import Shakes, endings
from tests.live.commands.trace import Trace, count, losses
from tests.live.victims.obedient import compiled, with_certificate

pytestmark = pytest.mark.usefixtures("tracing")
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
ACCEPT = "SSL_accept"


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of churn.c."""
    return compiled("churn", tmp_path_factory.mktemp("churn"))


@pytest.mark.parametrize(("how", "number"), [("exec", 200), ("fork", 500), ("threads", 3000)])
def test_each_has_its_handshake(certificates: Path, churn: Path, how: str, number: int) -> None:
    with with_certificate(churn, certificates) as (pid, do), Trace(pid) as trace, Shakes(pid) as shakes:
        do(f"{how} {number}")
    assert count(trace.document, ACCEPT) == number
    assert set(losses(trace.document)) <= {"folded_processes"}  # those of children that have ended, in one row
    assert endings(shakes.document) == {"success": number}
    assert (shakes.document["handshakes"]["in_flight"], shakes.document["handshakes"]["dropped"]) == (0, 0)


def test_who_gets_the_pid_of_a_process_that_has_ended_is_not_traced_for_it(certificates: Path, churn: Path) -> None:
    """Its libssl has the probes, as all who map it share them."""
    if not os.access(LAST_PID, os.W_OK):
        pytest.skip("this kernel lets nobody choose a PID")
    with with_certificate(churn, certificates) as (lasting, _), ExitStack() as stack:
        pid, do = stack.enter_context(with_certificate(churn, certificates))
        with Trace(pid, lasting) as trace, Shakes(pid, lasting) as shakes:
            do("threads 3")
            stack.close()
            with recycled(certificates, churn, pid) as again:
                again("threads 5")
    assert count(trace.document, ACCEPT) == 3
    assert endings(shakes.document) == {"success": 3}


@contextmanager
def recycled(certificates: Path, program: Path, pid: int) -> Iterator[Callable[[str], None]]:
    """The program with this PID, which is free."""
    for _ in range(20):
        LAST_PID.write_text(str(pid - 1))
        with with_certificate(program, certificates) as (given, do):
            if given == pid:
                yield do
                return
    pytest.skip("others start processes all the time")
