# SPDX-License-Identifier: Apache-2.0
"""Other processes that pay for links which the targets share."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.unit.tracing.follow.following import NEW, OLD, Kernel, Session, mapped_file

from ssllatency.model.cost import PayingProcess
from ssllatency.targets import Selection

PAY = re.compile(r"^The probes cost (\d+) other process(?:es)? .*? a call(?:: (.*?))?(?:; --links|\.$)")


def paying(session: Session) -> list[tuple[str | None, ...]]:
    """How many others pay, and who they are where the line has room for that, of each note about them."""
    return [match.groups() for note in session.attachment.notes if (match := PAY.match(note))]


def test_it_is_said_once_who_else_pays_for_shared_links(kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    file, unrelated = mapped_file(11), mapped_file(22, "/usr/lib/libz.so.1")
    kernel.maps, kernel.others = {OLD: [file], 300: [unrelated, file], 301: [unrelated]}, {300, 301}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert paying(session) == [("1", "other")]
    assert session.attachment.processes.others == (PayingProcess(300, "other"),)
    assert "--links process spares them" in capsys.readouterr().err
    kernel.others.add(302)
    kernel.map(302, file)
    session.look()
    assert len(paying(session)) == 1


@pytest.mark.parametrize("ended", [False, True], ids=["there", "gone"])
def test_who_comes_later_pays_even_if_it_has_ended(kernel: Kernel, ended: bool) -> None:
    file = mapped_file(11)
    kernel.maps, kernel.others = {OLD: [file]}, {300}
    session = Session(kernel, [file], Selection(pids=(OLD,)))
    session.look()
    assert paying(session) == []
    kernel.map(300, file)
    if ended:
        del kernel.maps[300]
    session.look()
    assert paying(session) == [("1", None if ended else "other")]


def test_who_turns_out_to_be_a_target_does_not_pay_for_others(kernel: Kernel) -> None:
    """The kernel told of its file before it had taken the wanted name."""
    file = mapped_file(11)
    kernel.maps, kernel.others = {OLD: [file]}, {NEW}
    session = Session(kernel, [file], Selection(comms=("nginx",)))
    session.look()
    kernel.map(NEW, file)
    session._follower.look()
    kernel.others = set()
    session.look()
    assert paying(session) == []


@pytest.mark.parametrize(
    ("selection", "alone"), [(Selection(everything=True), False), (Selection(pids=(OLD,)), True)], ids=["all", "own links"]
)
def test_nobody_else_pays(kernel: Kernel, selection: Selection, alone: bool) -> None:
    file = mapped_file(11)
    kernel.maps, kernel.others = {OLD: [file], 300: [file]}, {300}
    session = Session(kernel, [file], selection, alone=alone)
    session.look()
    assert paying(session) == []


def test_of_a_library_those_pay_that_map_the_companion_alone(kernel: Kernel) -> None:
    libssl, libcrypto = mapped_file(11), mapped_file(12, "/usr/lib/libcrypto.so.3")
    kernel.maps = {OLD: [libssl, libcrypto], 300: [libcrypto], 301: [libssl, libcrypto]}
    session = Session(kernel, [libssl, libcrypto], Selection(libraries=("/usr/lib/libssl.so.3",)))
    session.attachment.images[1] = replace(session.attachment.images[1], companion=True)
    session.look()
    assert paying(session) == [("1", "other")]
