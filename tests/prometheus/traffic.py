# SPDX-License-Identifier: Apache-2.0
"""A made-up host whose counts grow with every reading: two services, and all that can be counted of them."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

from ssllatency.accept_queue import AcceptQueue
from ssllatency.export.metrics.exposition import Exposition, Own
from ssllatency.export.metrics.families import COMM, CONTAINER_ID, CONTAINER_NAME, SERVICE
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import Point, Reading, labels
from ssllatency.model.arithmetic.handshake_sums import add_tallies
from ssllatency.model.certificates import CertificateFacts, Issuer, ServedCertificate
from ssllatency.model.cost import TracingCost
from ssllatency.model.handshakes import (
    Ending,
    Fact,
    Label,
    Part,
    Tallies,
)
from ssllatency.model.offload import Batches, Offload
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.recording import Recording
from ssllatency.model.sampling import Sampling
from ssllatency.model.snapshot import Losses, Outcome, Series, Snapshot, Target, TracedLibrary
from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.recordings import calls_of, interval_of

BY = (Label.PROCESS, Label.VERSION, Label.RESUMED)
_MS = 1_000_000
_WINDOWS = (Sampling(("SSL_read", "SSL_write"), 0.25, 1.0, 5, 0, ()),)
_LIBRARIES = (TracedLibrary("/usr/lib/libssl.so.3", "ab12", "3.0.17"),)
# By PID: its name, and the labels of its service.
PROCESSES = {
    11: ("nginx", {SERVICE: "nginx.service"}),
    12: ("haproxy", {SERVICE: "edge", CONTAINER_ID: "0123456789ab", CONTAINER_NAME: "edge"}),
}


class Processes:
    """Tells whose the made-up processes are."""

    def started(self, pid: int) -> int | None:
        return 1 if pid in PROCESSES else None

    def known(self, pid: int, name: str) -> Known:
        comm, service = PROCESSES.get(pid, (name, {SERVICE: name}))
        return Known(self.started(pid) or 0, labels({**service, COMM: comm}))


def shake(
    random: Random, pid: int, *, resumed_share: float, failing_share: float, slow: float, offload: bool, unlucky: float = 0.05
) -> Shake:
    """A handshake of that process; `slow` multiplies what its calls take, `unlucky` is the share of handshakes that has each of
    the connection's misfortunes, and of the full ones that were refused a session."""
    resumed, version = random.random() < resumed_share, random.choice(("TLSv1.2", "TLSv1.3"))
    times = {
        Part.KEY_EXCHANGE: round(slow * 0.2 * _MS * random.lognormvariate(0, 0.3)),
        Part.SESSION_LOOKUP: round(slow * 0.01 * _MS * random.lognormvariate(0, 0.3)),
        Part.CALLBACKS: round(slow * 0.03 * _MS * random.lognormvariate(0, 0.3)),
        Part.REST: round(slow * 0.3 * _MS * random.lognormvariate(0, 0.3)),
        Part.WAIT_PEER: round(8 * _MS * random.lognormvariate(0, 0.7)),
        Part.WAIT_HELLO: round(4 * _MS * random.lognormvariate(0, 0.3)),
        Part.QUEUE_START: round(slow * 0.3 * _MS),
        Part.QUEUE_SERVER: 30_000,
        Part.QUEUE_HANDSHAKES: round(slow * 0.2 * _MS),
        Part.QUEUE_OTHER: 25_000,
    }
    times |= {
        Part.ON_CPU: times[Part.REST],
        Part.OFF_CPU: times[Part.KEY_EXCHANGE],
        Part.OFF_CPU_RUNNABLE: round(slow * 20_000),
        Part.OFF_CPU_THROTTLED: round(slow * 5_000),
    }
    times[Part.REST_ASLEEP] = times[Part.OFF_CPU] // 4
    times[Part.ROUND_TRIPS] = times[Part.WAIT_PEER] // 4
    facts = facts_of_connection(random, unlucky)
    if Fact.RETRANSMITTED in facts:
        times[Part.LOSSES] = times[Part.WAIT_PEER] // 2
    if Fact.GONE in facts:
        times[Part.GONE] = times[Part.REST]
    if not resumed:
        times[Part.PRIVATE_KEY] = round(slow * 0.9 * _MS * random.lognormvariate(0, 0.2))
        times[Part.PEER_VERIFICATION] = round(slow * 0.1 * _MS * random.lognormvariate(0, 0.2))
    if offload and not resumed:
        completed = round(0.6 * _MS * random.lognormvariate(0, 0.2))
        times |= {Part.COMPLETION: completed, Part.WAIT_OFFLOAD: completed, Part.QUEUE_OFFLOAD: 40_000}
        times[Part.QUEUE_SERVER] += 40_000
    process = f"{PROCESSES[pid][0]}({pid})"
    of = {Label.PROCESS: process, Label.VERSION: version, Label.RESUMED: "yes" if resumed else "no",
          Label.CIPHER: "TLS_AES_256_GCM_SHA384", Label.GROUP: random.choice(("x25519", "X25519MLKEM768"))}  # fmt: skip
    if random.random() < failing_share:
        failed = Shake(times, {**of, Label.RESUMED: None}, Ending.FAILURE, reason="no shared cipher", code=193, facts=facts)
        abandoned = replace(failed, ending=Ending.ABANDONED, reason="freed", code=0, state="SSLv3/TLS write server done")
        return random.choice((replace(failed, alert="handshake failure", sent=True), abandoned))
    if resumed:
        return Shake(times, of, facts={**facts, Fact.OFFERED: 1})
    refused = [random.choice((Fact.TICKETS_REFUSED, Fact.CACHE_MISSES))] if random.random() < unlucky else []
    offered = {Fact.OFFERED: 1} if refused else {}
    return Shake(times, of, key=("sign", "RSA 2048"), facts={**facts, **offered, **dict.fromkeys(refused, 1)})


def as_over_quic(one: Shake) -> Shake:
    """The same with what is known of one over QUIC; each that has needed a HelloRetryRequest came after a Retry as well."""
    retried = {Fact.QUIC_RETRIES: 1} if Fact.HELLO_RETRIES in one.facts else {}
    return replace(one, facts={**one.facts, Fact.QUIC_RETRY_KNOWN: 1, **retried})


def facts_of_connection(random: Random, unlucky: float) -> dict[Fact, int]:
    """What a handshake whose socket is seen adds to the facts."""
    misfortunes = (Fact.UNSENT, Fact.RETRANSMITTED, Fact.GONE, Fact.HELLO_RETRIES)
    facts = {fact: 1 for fact in misfortunes if random.random() < unlucky}
    if Fact.RETRANSMITTED in facts:
        facts[Fact.RETRANSMISSIONS] = random.randint(1, 3)
    sent = {Fact.FLIGHTS: 1, Fact.FLIGHT_BYTES: random.randint(2000, 5000)}
    return {Fact.SOCKET: 1, Fact.HELLO_RETRY_KNOWN: 1, **sent, **facts}


def calls(random: Random, number: int, pid: int, *, failing: int) -> tuple[Series, ...]:
    """Calls of that process, by function and outcome."""
    durations = [round(0.05 * _MS * random.lognormvariate(0, 0.5)) for _ in range(number)]
    handshakes = calls_of("SSL_do_handshake", [20 * duration for duration in durations], pid=pid)
    waiting = calls_of("SSL_do_handshake", durations, Outcome.RETRY, pid)
    failed = calls_of("SSL_do_handshake", durations[:failing], Outcome.FAILURE, pid)
    return (
        handshakes,
        replace(waiting, reasons={"WANT_READ": number - 2, "WANT_ASYNC": 2}),
        *([replace(failed, reasons={"no shared cipher": failing})] if failing else []),
        calls_of("SSL_read", durations, pid=pid),
        calls_of("SSL_write", durations, pid=pid),
    )


class Host:
    """Counts more at every reading. `shakes`: handshakes a reading and process. From the time that `troubled` is set on: all
    is slow, every third handshake fails, none is resumed, most sessions are refused, most connections have every misfortune,
    nothing goes to the offload, and records are lost."""

    def __init__(self, name: str, seed: int, shakes: int = 40, most_series: int = 2000) -> None:
        self.name, self.troubled = name, False
        self._random, self._shakes = Random(seed), shakes
        self._number = 0
        self._total: Snapshot | None = None
        self._tallies: dict[int, Tallies] = {}
        self._exposition = Exposition(Processes(), most_series, 300.0)

    def read(self) -> Reading:
        """All that was counted by now, and a bit more."""
        gone = self._exposition.gone()
        interval = self._interval()
        self._total = Recording.of([self._total, interval]).total() if self._total else interval
        self._number += 1
        assert self._total.handshakes
        handshakes = replace(self._total.handshakes, by_process=self._tallies)
        counted = replace(self._total, handshakes=handshakes, sampling=_WINDOWS)
        reading = self._exposition.read(counted, gone, Own(refused=self._number // 10, reading_s=0.004, spared=1))
        requests = Point("ssllatency.otlp.requests", labels({"result": "success"}), self._number, reading.at_s)
        rejected = Point("ssllatency.otlp.rejected", (), 0, reading.at_s)
        return replace(reading, points=(*reading.points, requests, rejected))

    def _interval(self) -> Snapshot:
        shakes, series = [], []
        for pid in PROCESSES:
            own = [self._shake(pid) for _ in range(self._shakes)]
            self._count(pid, own)
            shakes += own
            series += calls(self._random, self._shakes, pid, failing=self._random.randint(1, 3))
        made = interval_of(self._number, shakes, series, self.name)
        queues = (AcceptQueue(443, "::", 511, 30 if self.troubled else 0),)
        handshakes = replace(
            handshakes_of(shakes, BY),
            offload=self._offload(),
            in_flight=5,
            partial=1,
            quotas=True,
            accept_queues=queues,
            overflows_untold=2,
            certificates=tuple(self._certificate(pid, comm) for pid, (comm, _) in PROCESSES.items()),
        )
        return replace(
            made,
            targets=tuple(Target(pid, comm, _LIBRARIES) for pid, (comm, _) in PROCESSES.items()),
            handshakes=handshakes,
            losses=Losses(map_full=7 if self.troubled else 0),
            in_flight=2,
            cost=TracingCost(100, 8 * _MS, 2 * _MS, (100 if self.troubled else 900) * _MS, other_ns=_MS, elsewhere_ns=_MS // 2),
        )

    def _count(self, pid: int, shakes: list[Shake]) -> None:
        """Adds what is counted of a process's handshakes beside their times."""
        made = handshakes_of(shakes, BY)
        tallies = Tallies(made.causes, made.keys, made.mix)
        self._tallies[pid] = add_tallies((self._tallies.get(pid, Tallies()), tallies))

    def _shake(self, pid: int) -> Shake:
        if self.troubled:
            return as_over_quic(
                shake(self._random, pid, resumed_share=0, failing_share=0.33, slow=400, offload=False, unlucky=0.8)
            )
        return as_over_quic(shake(self._random, pid, resumed_share=0.6, failing_share=0.02, slow=1, offload=True))

    def _certificate(self, pid: int, comm: str) -> ServedCertificate:
        now_s = time.time()
        until_s = int(now_s) + (3 if self.troubled else 60) * 86_400
        name, issuer = f"{comm}.example", "An Authority"
        facts = CertificateFacts(name, 1, 0, until_s, issuer, Issuer.OTHER, "ECDSA P-256", f"{until_s:x}", 1200)
        return ServedCertificate(443, None, facts, 1, self._shakes, 0, now_s, ProcessLabel(pid, comm))

    def _offload(self) -> Offload:
        number = 0 if self.troubled else self._shakes
        batches = Batches("mbx_rsa_private_crt_2048_ssl_mb8", (0, 1, 0, 0, 0, 0, 0, 0, 4))
        return Offload("qatengine", 3, 8, number, number, self._shakes - number, 0, (batches,) if number else ())
