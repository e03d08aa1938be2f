# SPDX-License-Identifier: Apache-2.0
"""The gates of several attachments as one, and those of what watches handshakes, which don't go into windows themselves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ssllatency.engines.budget.gates import HandshakeGates, JointGates, resume
from ssllatency.stacks.operation import Tier

ALL = (Tier.DATA, Tier.BELOW)


@dataclass
class Recorded:
    """Gates that write down what they are told."""

    name: str
    log: list[tuple[str, str, tuple[Tier, ...]]] = field(default_factory=list)
    quiet: bool = True
    runs_on: int = 0

    def set_probes(self, tiers: Collection[Tier]) -> None:
        self.log.append((self.name, "set", tuple(tiers)))

    def resume_counting(self, tiers: Collection[Tier]) -> None:
        self.log.append((self.name, "resume_counting", tuple(tiers)))

    def stop_counting(self, tiers: Collection[Tier]) -> None:
        self.log.append((self.name, "stop_counting", tuple(tiers)))

    def drop_entries(self, tiers: Collection[Tier]) -> None:
        self.log.append((self.name, "drop_entries", tuple(tiers)))

    def finish(self, tier: Tier) -> int:
        self.log.append((self.name, "finish", (tier,)))
        return self.runs_on

    def is_quiet(self, tiers: Collection[Tier]) -> bool:
        assert tiers
        return self.quiet


def test_all_go_together_and_the_one_that_counts_is_set_last() -> None:
    functions = Recorded("functions", runs_on=3)
    handshakes = Recorded("handshakes", functions.log, runs_on=5)
    gates = JointGates(functions, HandshakeGates(handshakes))
    gates.stop_counting(ALL)
    gates.drop_entries(ALL)
    assert gates.finish(Tier.DATA) == 3
    assert gates.finish(Tier.BELOW) == 3
    resume(gates, ALL)
    assert [entry for entry in functions.log if entry[1] in ("set", "resume_counting")] == [
        ("handshakes", "set", ALL),
        ("functions", "set", ALL),
        ("handshakes", "resume_counting", ALL),
        ("functions", "resume_counting", ALL),
    ]
    assert gates.finish(Tier.HANDSHAKE) == 3
    finished = [tiers for name, what, tiers in functions.log if (name, what) == ("handshakes", "finish")]
    assert finished == [(Tier.DATA,), (Tier.BELOW,)]
    functions.quiet = False
    assert not gates.is_quiet(ALL)


def test_what_handshakes_need_stays_from_then_on() -> None:
    recorded = Recorded("handshakes")
    gates = HandshakeGates(recorded)
    gates.stop_counting([Tier.DATA])
    gates.finish(Tier.DATA)
    gates.keep()
    gates.keep()
    assert recorded.log[-2:] == [("handshakes", "set", (Tier.DATA,)), ("handshakes", "resume_counting", (Tier.DATA,))]
    gates.stop_counting(ALL)
    gates.drop_entries(ALL)
    assert gates.finish(Tier.DATA) == 0
    resume(gates, ALL)
    recorded.quiet = False
    assert not gates.is_quiet(ALL)
    assert all(tiers == (Tier.BELOW,) for _, _, tiers in recorded.log[-4:])


def test_all_is_watched_again() -> None:
    recorded = Recorded("handshakes")
    gates = HandshakeGates(recorded)
    gates.watch_all()
    assert not recorded.log
    gates.stop_counting([Tier.BELOW])
    gates.finish(Tier.BELOW)
    gates.watch_all()
    gates.watch_all()
    assert recorded.log[2:] == [("handshakes", "set", (Tier.BELOW,)), ("handshakes", "resume_counting", (Tier.BELOW,))]
