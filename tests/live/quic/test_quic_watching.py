# SPDX-License-Identifier: Apache-2.0
"""What is watched of handshakes over QUIC costs other servers, and the machine, nothing once no server of QUIC is left."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.probes.handshake.phases import plan_handshake
from tests import machine
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.commands.trace import tracepoints
from tests.live.libraries.test_quic import nginx_by_retry, quic, root
from tests.live.quic.test_quic_peers import PEERS, TIMES, WHOLE, ends, learn
from tests.machine import needs_every_tracepoint
from tests.waiting import wait_for

__all__ = ["root"]  # a fixture
pytestmark = pytest.mark.usefixtures("tracing")


def whether_probed(library: Path) -> Callable[[], bool]:
    """Tells whether who maps the library now has a breakpoint where messages are added to a transcript."""
    plan = plan_handshake(Image.open(library)).transcript
    assert plan
    begin = plan.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    at = slice(plan.offset - begin, plan.offset - begin + 4)
    content = library.read_bytes()[begin:]

    def is_probed() -> bool:
        size = min(len(content), 2 * mmap.ALLOCATIONGRANULARITY)
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        with library.open("rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, protection, offset=begin) as code:
            return code[at] != content[at]

    return is_probed


def test_nothing_is_watched_once_no_server_of_quic_is_left(certificates: Path, root: Path) -> None:
    """Until the next one makes handshakes, whose peers are known again."""
    needs_every_tracepoint()
    is_probed = whether_probed(Path(f"{root}{machine.LIBRARIES}/libssl.so.3").resolve())
    with (
        nginx_by_retry(root, certificates, "off") as (other, other_port),
        quic(root, certificates) as (_, do),
        ExitStack() as served,
    ):
        pid, port = served.enter_context(nginx_by_retry(root, certificates, "off"))

        def is_watched() -> set[bool]:
            return {is_probed(), "net_dev_queue" in tracepoints(shakes.pid)}

        with Shakes(pid, other, options=WHOLE) as shakes:
            assert is_watched() == {False}
            first = learn(shakes, do, f"1 0 fine {port}")
            assert is_watched() == {True}
            served.close()
            wait_for(lambda: is_watched() == {False})
            unknown = 0
            while not shakes.printed(f'"port": "{other_port}"'):
                unknown += 1
                do(f"1 0 fine {other_port} {PEERS[0]}")
                wait_for(lambda: shakes.printed('"ending"') == first + unknown)  # noqa: B023 - it is over before the next
            assert is_watched() == {True}
            do(f"{TIMES} 0 fine {other_port} {PEERS[1]}")
            wait_for(lambda: shakes.printed('"ending"') == first + unknown + TIMES)
    assert endings(shakes.document) == {"success": first + unknown + TIMES}
    assert ends(shakes, first + unknown) == {(str(other_port), f"{PEERS[1]}/32"): TIMES}
    assert_books(shakes)
