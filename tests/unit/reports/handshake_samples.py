# SPDX-License-Identifier: Apache-2.0
"""The measurements behind the golden reports of handshakes. Run as a program it writes the reports anew, to be read before
they are kept:

PYTHONPATH=python:. python tests/unit/reports/handshake_samples.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.measured.handshakes import Shake, handshakes_of
from tests.unit.reports.report_samples import LIBSSL, snapshot_of

from ssllatency.accept_queue import AcceptQueue
from ssllatency.model.handshakes import (
    NO,
    NOT_ASKED,
    YES,
    Ending,
    Fact,
    Label,
    Part,
    Single,
)
from ssllatency.model.offload import Batches, Offload, PollingThread
from ssllatency.model.snapshot import Losses, Missing, Snapshot
from ssllatency.reports.text.handshakes.report import render
from ssllatency.reports.text.page import Page

GOLDEN = Path(__file__).parent / "golden_handshakes"
EARLY = "TLSv1.3 early data"

_13 = {Label.VERSION: "TLSv1.3", Label.CIPHER: "TLS_AES_256_GCM_SHA384", Label.GROUP: "x25519"}
_12 = {Label.VERSION: "TLSv1.2", Label.CIPHER: "ECDHE-RSA-AES128-GCM-SHA256", Label.GROUP: "secp256r1"}
_FULL = {Label.RESUMED: NO, Label.SIGNATURE: "rsa_pss_rsae_sha256", Label.CLIENT_CERTIFICATE: NOT_ASKED}


# A queue before the first call and later, and what the thread did meanwhile.
_QUEUED = {
    Part.WAIT_HELLO: 31_900_000,
    Part.QUEUE_START: 41_000_000,
    Part.QUEUE_SERVER: 6_100_000,
    Part.QUEUE_HANDSHAKES: 29_700_000,
    Part.QUEUE_OTHER: 1_200_000,
    Part.QUEUE_RUNNABLE: 12_300_000,
    Part.QUEUE_ASLEEP: 3_900_000,
}


def _full(random: Random, labels: Mapping[Label, str], wait_ns: int) -> Shake:
    """A full handshake with an RSA-2048 key, and a peer that is `wait_ns` away or a little more."""
    times = {
        Part.PRIVATE_KEY: random.randint(601_000, 861_000),
        Part.KEY_EXCHANGE: random.randint(55_000, 90_000),
        Part.REST: random.randint(80_000, 130_000),
        Part.WAIT_PEER: round(wait_ns * (1 + random.expovariate(4))),
    }
    return Shake(times, {**labels, **_FULL}, key=("sign", "RSA-2048"))


def _resumed(random: Random, wait_ns: int) -> Shake:
    times = {
        Part.KEY_EXCHANGE: random.randint(55_000, 90_000),
        Part.SESSION_LOOKUP: random.randint(4_000, 9_000),
        Part.REST: random.randint(60_000, 90_000),
        Part.WAIT_PEER: round(wait_ns * (1 + random.expovariate(4))),
    }
    return Shake(times, {**_13, Label.RESUMED: YES})


def _on_the_network(one: Shake, number: int) -> Shake:
    """The same with its flights, some of them retried, too large or lost."""
    facts = {Fact.SOCKET: 1, Fact.FLIGHTS: 2, Fact.FLIGHT_BYTES: 4_200, Fact.HELLO_RETRY_KNOWN: 1}
    if number % 3 == 0:
        facts |= {Fact.HELLO_RETRIES: 1, Fact.FLIGHTS: 3}
    if number % 20 == 0:
        facts |= {Fact.FLIGHT_BYTES: 17_000, Fact.UNSENT: 1}
    lossy = number % 50 == 0
    if lossy:
        facts |= {Fact.RETRANSMITTED: 1, Fact.RETRANSMISSIONS: 2}
    times = {Part.LOSSES: one.times[Part.WAIT_PEER] // 2} if lossy else {}
    if Part.SESSION_LOOKUP not in one.times and number % 10 == 0:
        facts[Fact.TICKETS_REFUSED], times[Part.SESSION_LOOKUP] = 1, 5_000
    if Part.SESSION_LOOKUP in one.times or Part.SESSION_LOOKUP in times:
        facts[Fact.OFFERED] = 1
    return replace(one, times={**one.times, **times, Part.ROUND_TRIPS: 25_000_000}, facts=facts)


def _works(wait_ns: int) -> list[Shake]:
    random = Random(7)
    new = [_full(random, _13, wait_ns) for _ in range(1210)]
    return [*new, *(_full(random, _12, wait_ns) for _ in range(109)), *(_resumed(random, wait_ns) for _ in range(40))]


def near() -> Snapshot:
    """Clients nearby, all of whom want a signature."""
    return snapshot_of(handshakes=handshakes_of(_works(90_000)))


def queued() -> Snapshot:
    """A saturated server: nearly all of what clients wait for lies before its first call."""
    random = Random(5)
    shakes = []
    for one in _works(90_000)[:900]:
        early, later = random.randint(200_000_000, 300_000_000), random.randint(1_000_000, 3_000_000)
        queue = {Part.QUEUE_START: early, Part.QUEUE_SERVER: later, Part.QUEUE_HANDSHAKES: early + later - 700_000}
        shakes.append(replace(one, times={**one.times, Part.WAIT_HELLO: 60_000, **queue}))
    queues = AcceptQueue(443, "0.0.0.0", 511, 163), AcceptQueue(8443, "127.0.0.1", 128, 0)
    return snapshot_of(handshakes=replace(handshakes_of(shakes), accept_queues=queues))


def _failed(number: int, reason: str, code: int, alert: str, sent: bool, state: str, wall_ns: int) -> list[Shake]:
    times = {Part.REST: wall_ns // 10, Part.WAIT_PEER: wall_ns - wall_ns // 10}
    return [Shake(times, {}, Ending.FAILURE, None, reason, code, alert, sent, state)] * number


def distant() -> Snapshot:
    """Clients far away, grouped, with failures and the slowest."""
    failed = [
        *_failed(31, "no shared cipher", 0x0A0000C1, "handshake failure", True, "SSLv3/TLS read client hello", 210_000),
        *_failed(12, "unsupported protocol", 0x0A000102, "protocol version", True, "SSLv3/TLS read client hello", 190_000),
        *_failed(5, "sslv3 alert certificate unknown", 0x0A000416, "certificate unknown", False, EARLY, 41_000_000),
        *_failed(2, "connection reset or closed by the peer", 0, "", False, "SSLv3/TLS write server done", 1_200_000_000),
    ]
    gone = replace(
        _failed(1, "freed", 0, "", False, EARLY, 30_000_000_000)[0],
        ending=Ending.ABANDONED,
        facts={Fact.SOCKET: 1, Fact.FLIGHTS: 1, Fact.GONE: 1},
    )
    gone = replace(gone, times={**gone.times, Part.GONE: 2_900_000_000})
    works = [_on_the_network(one, number) for number, one in enumerate(_works(32_000_000))]
    shakes = [*works, *failed, *[gone] * 3]
    made = handshakes_of(shakes, (Label.VERSION, Label.RESUMED))
    slow = sorted((one for one in shakes if one.ending is Ending.SUCCESS), key=lambda one: -one.parts[Part.WALL])[:2]
    slow[0] = replace(slow[0], times={**slow[0].times, **_QUEUED})
    singles = [Single(1_896_091_207.482, 1240, 1240, "nginx", one.ending, one.parts, one.labels, 3, 0) for one in (gone, *slow)]
    singles[0] = replace(singles[0], reason="freed", state=EARLY)
    unknown = {Label.SIGNATURE: "the library shows no place of it"}
    mix = {label: values for label, values in made.mix.items() if label not in unknown}
    return snapshot_of(
        handshakes=replace(made, slowest=tuple(singles), mix=mix, unknown_labels=unknown, in_flight=17, unattributed=2)
    )


def offloaded() -> Snapshot:
    """An offload whose batches are nearly empty, and whose event loop comes late."""
    random = Random(11)
    shakes = []
    for _ in range(900):
        done, late = random.randint(400_000, 9_000_000), random.randint(20_000, 900_000)
        times = {
            Part.PRIVATE_KEY: random.randint(9_000, 16_000),
            Part.KEY_EXCHANGE: random.randint(60_000, 80_000),
            Part.REST: random.randint(80_000, 130_000),
            Part.WAIT_PEER: random.randint(50_000, 300_000),
            Part.WAIT_OFFLOAD: done,
            Part.COMPLETION: done,
            Part.QUEUE_SERVER: late,
            Part.QUEUE_OFFLOAD: late,
            Part.QUEUE_OTHER: late // 2,
            Part.QUEUE_ASLEEP: late - late // 2,
            Part.ON_CPU: 150_000,
            Part.OFF_CPU: 20_000,
            Part.OFF_CPU_RUNNABLE: 14_000,
            Part.REST_ASLEEP: 6_000,
        }
        shakes.append(Shake(times, {**_12, **_FULL}, key=("sign", "RSA-2048")))
    batches = (
        Batches("mbx_rsa_private_crt_ssl_mb8", (0, 214, 113, 62, 30, 8, 2, 0, 1)),
        Batches("mbx_x25519_mb8", (0, 0, 0, 0, 3, 1, 0, 0, 104)),
    )
    pollers = (PollingThread(1240, 1245, "nginx", 900, 0.82), PollingThread(1241, 1247, "nginx", 0, None))
    offload = Offload("qatengine", 3, 41, 2_711, 900, 12, 4, batches, pollers)
    return snapshot_of(handshakes=replace(handshakes_of(shakes), offload=offload, off_cpu=True))


def failing() -> Snapshot:
    """Nothing but failures, and everything that a report can have to admit; names that a target chose."""
    shakes = [
        *_failed(50, "no shared cipher", 0x0A0000C1, "handshake failure", True, "caf\u00e9\x1b[31m", 210_000),
        *(
            failed
            for number in range(12)
            for failed in _failed(1, f"reason({number})", 0x0A000300 + number, "", False, "", 1_000 + number)
        ),
    ]
    single = Single(
        0.0,
        77,
        78,
        "caf\u00e9\x1b[31m",
        Ending.FAILURE,
        shakes[0].parts,
        {Label.CIPHER: None},
        2,
        1,
        "no shared cipher",
        "",
        "\x07",
    )
    made = handshakes_of(shakes, (Label.PROCESS,))
    folded = replace(made.groups[0], labels={}, other=True)
    return snapshot_of(
        handshakes=replace(
            made, groups=(folded,), slowest=(single,), dropped=2, unattributed=3, partial=4, inspections=5, in_flight=1
        ),
        missing=(Missing("key exchange", LIBSSL.path, "no call was found"),),
        losses=Losses(map_full=7, events_dropped=1),
        notes=("Some handshakes ran before the trace began.",),
    )


def idle() -> Snapshot:
    """No handshake at all."""
    return snapshot_of(handshakes=replace(handshakes_of([]), in_flight=2))


SAMPLES: Mapping[str, Callable[[], Snapshot]] = {
    "near": near,
    "queued": queued,
    "distant": distant,
    "offloaded": offloaded,
    "failing": failing,
    "idle": idle,
}
REPORTS: Mapping[str, Callable[[], str]] = {
    **{name: lambda sample=sample: render(sample()) for name, sample in SAMPLES.items()},  # type: ignore[misc]
    **{
        f"{name}_80": lambda sample=sample: render(sample(), Page(80, unicode=True, most=80))
        for name, sample in SAMPLES.items()
    },  # type: ignore[misc]
}

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, report in REPORTS.items():
        (GOLDEN / f"{name}.txt").write_text(report(), encoding="utf-8")
