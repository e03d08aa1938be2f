# SPDX-License-Identifier: Apache-2.0
"""For each rule of the diagnosis, handshakes just before it applies, those from where it does, and what is said of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tests.measured.handshakes import Shake, handshakes_of

from ssllatency.accept_queue import AcceptQueue
from ssllatency.model.handshakes import (
    LEFT,
    NO,
    YES,
    Ending,
    Fact,
    Handshakes,
    Label,
    Part,
)
from ssllatency.model.offload import Batches, Offload, PollingThread
from ssllatency.reports.diagnosis import application, calls, failures, groups, mixture, network, offload, queue, resumption
from ssllatency.reports.diagnosis.case import Case
from ssllatency.reports.diagnosis.rule import Evidence

OFFLOAD = Offload("qatengine", 0, 9, 100, 100, 0, 0)
MS = 1_000_000

Judge = Callable[[Case], Evidence | None]


def alike(
    number: int = 100, labels: Mapping[Label, str | None] | None = None, facts: Mapping[Fact, int] | None = None, **times: float
) -> list[Shake]:
    """So many successful handshakes with the same parts, in milliseconds, and the same facts."""
    key = ("sign", "RSA-2048") if "private_key" in times else None
    parts = {Part(name): round(time * MS) for name, time in times.items()}
    return [Shake(parts, labels or {}, key=key, facts=facts or {})] * number


def measured(number: int = 100, **times: float) -> Handshakes:
    return handshakes_of(alike(number, **times))


def failed(number: int, reason: str = "no shared cipher", alert: str = "", sent: bool = True, state: str = "") -> list[Shake]:
    return [Shake({Part.REST: 1000}, {}, Ending.FAILURE, None, reason, 1, alert, sent, state)] * number


def gone(number: int, state: str = "", **times: float) -> list[Shake]:
    parts = {Part(name): round(time * MS) for name, time in ({"rest": 0.001, "wait_peer": 0.999} | times).items()}
    return [Shake(parts, {}, Ending.ABANDONED, None, "freed", state=state)] * number


def freed(number: int, *, left: bool, undelivered: bool) -> list[Shake]:
    return [replace(shake, peer_left=left, undelivered=undelivered) for shake in gone(number)]


def queued(doing: Part, side: int) -> Handshakes:
    """A third of what clients wait for, or a little less, lies in the queue."""
    return measured(queue_start=0.5, queue_server=0.499 + 0.001 * side, rest=2, **{str(doing): 0.8})


def late_taken(done: float, late: float, rest: float, **doings: float) -> Handshakes:
    """An offload takes so long, and then so long passes until its results are taken, in milliseconds."""
    offload_times = {"wait_offload": done, "offload_completion": done, "queue_server": late, "queue_offload": late}
    return measured(rest=rest, **offload_times, **doings)


def far(facts: Mapping[Fact, int], labels: Mapping[Label, str | None] | None = None) -> list[Shake]:
    """Clients at 30 ms, one flight each."""
    return alike(1, labels, {Fact.SOCKET: 1, Fact.FLIGHTS: 1, **facts}, rest=1, wait_peer=31, round_trips=30)


def mixed(fact: Fact, part: int, whole: int = 100, base: Mapping[Fact, int] | None = None) -> Handshakes:
    """Far clients, some of whom have this fact."""
    return handshakes_of([*far({**(base or {}), fact: 1}) * part, *far(base or {}) * (whole - part)])


def offering(fact: Fact, refused: int, others: int = 50) -> Handshakes:
    """Clients that offer a session, which is refused so many times; and others that offer none."""
    offer = {"session_lookup": 0.01, "rest": 0.2}
    full = alike(refused, {Label.RESUMED: NO}, {fact: 1, Fact.OFFERED: 1}, **offer)
    resumed = alike(50 - refused, {Label.RESUMED: YES}, {Fact.OFFERED: 1}, **offer)
    return handshakes_of([*full, *resumed, *alike(others, {Label.RESUMED: NO}, rest=0.2)])


def versions(old: int) -> Handshakes:
    """Far clients, so many of a hundred with full handshakes of TLS 1.2."""
    shakes = far({}, {Label.VERSION: "TLSv1.2", Label.RESUMED: NO}) * old
    return handshakes_of([*shakes, *far({}, {Label.VERSION: "TLSv1.3", Label.RESUMED: NO}) * (100 - old)])


def two_names(slow_ms: float, number: int = 50, others: int = 200) -> Handshakes:
    """Two server names, one of which has a dearer key."""
    slow = alike(number, {Label.SNI: "a.example"}, private_key=slow_ms, rest=0.2)
    return handshakes_of([*slow, *alike(others, {Label.SNI: "b.example"}, private_key=0.8, rest=0.2)], (Label.SNI,))


def of(part: str, times: str) -> str:
    return f"{part} of the time that clients wait, {times} a handshake,"


OWN_QUEUE = " is this server's own queue: their bytes had arrived,"
OF_QUEUE = f"{of('33 %', '1.00 ms of 3.00 ms')}{OWN_QUEUE} and for 80 % of that time its thread"
OWN = "the server's own work is 1.00 ms"
# Each rule with the handshakes just before it applies, those from where it does, and the beginning of what is said first then.
SIDES: Sequence[tuple[Judge, Callable[[int], Handshakes], str]] = [
    (
        calls.private_key,
        lambda side: measured(private_key=0.499 + 0.001 * side, rest=0.2),
        of("71 %", "500 us of 700 us") + " is RSA-2048 signing."
        " An ECDSA certificate, session resumption or an offload would reduce it.",
    ),
    (
        calls.private_key,
        lambda side: measured(private_key=0.999 + 0.001 * side, rest=2),
        of("33 %", "1.00 ms of 3.00 ms") + " is RSA-2048 signing.",
    ),
    (
        queue.saturated,
        lambda side: queued(Part.QUEUE_HANDSHAKES, side),
        OF_QUEUE + " was busy with other handshakes. It is saturated: more workers or more processors would shorten the queue.",
    ),
    (
        queue.blocked_loop,
        lambda side: queued(Part.QUEUE_OTHER, side),
        of("33 %", "1.00 ms of 3.00 ms")
        + OWN_QUEUE
        + " and for 80 % of that time its thread was busy with something else than handshakes. Look at what else it does",
    ),
    (
        queue.other_goroutines,
        lambda side: queued(Part.QUEUE_GOROUTINES, side),
        OF_QUEUE + " was busy with other goroutines or the runtime's own work. A higher GOMAXPROCS, where processors are idle,",
    ),
    (
        queue.collections,
        lambda side: queued(Part.QUEUE_COLLECTIONS, side),
        OF_QUEUE + " was busy with garbage collection. Less garbage, or a higher GOGC",
    ),
    (
        queue.asleep_elsewhere,
        lambda side: queued(Part.QUEUE_ASLEEP, side),
        of("33 %", "1.00 ms of 3.00 ms")
        + OWN_QUEUE
        + " and for 80 % of that time its thread slept elsewhere. Look for a lock,",
    ),
    (
        queue.neighbours,
        lambda side: queued(Part.QUEUE_RUNNABLE, side),
        of("33 %", "1.00 ms of 3.00 ms")
        + OWN_QUEUE
        + " and for 80 % of that time its thread was ready to run but had no processor. Look for what else runs",
    ),
    (
        queue.neighbours,
        lambda side: measured(
            queue_server=0.3, queue_runnable=0.3, wait_peer=1, rest=1.7, off_cpu_runnable=0.699 + 0.001 * side
        ),
        f"For {of('33 %', '1.00 ms of 3.00 ms')} this server's thread was ready to run but had no processor,"
        " 700 us of it inside the library's calls. Look for what else runs",
    ),
    (
        queue.cpu_quota,
        lambda side: queued(Part.QUEUE_THROTTLED, side),
        of("33 %", "1.00 ms of 3.00 ms")
        + OWN_QUEUE
        + " and for 80 % of that time its thread was held by a CPU quota. Look at cpu.max",
    ),
    (
        queue.late_server,
        lambda side: measured(queue_start=0.7, queue_server=0.299 + 0.001 * side, queue_asleep=0.4, rest=2),
        of("33 %", "1.00 ms of 3.00 ms") + OWN_QUEUE + " and it was late to come back for them. `top -H -p PID` shows",
    ),
    (
        queue.accept_queue_full,
        lambda side: replace(measured(401 - side, rest=0.2), accept_queues=(AcceptQueue(443, "0.0.0.0", 511, 1),)),
        "The accept queue of 0.0.0.0:443, which holds 511, was full 1 time when a connection came: its client tries again 0.2 s"
        " or more later, and no time above includes that. Something keeps it from accepting",
    ),
    (
        queue.accept_queue_full,
        lambda side: replace(measured(401 - side, rest=0.2), accept_queues=(AcceptQueue(443, "0.0.0.0", None, 1),)),
        "The accept queue of 0.0.0.0:443 was full 1 time when a connection came: its client",
    ),
    (
        queue.accept_queue_full,
        lambda side: replace(
            measured(100, rest=0.2),
            accept_queues=(AcceptQueue(80, "::", 128, 4 * side), AcceptQueue(443, "::", 511, 1030 * side)),
        ),
        "Accept queues were full 1034 times when a connection came, 1030 times that of [::]:443, which holds 511: its client",
    ),
    (
        queue.late_first_call,
        lambda side: measured(queue_start=0.9, queue_server=0.099 + 0.001 * side, rest=2),
        of("30 %", "900 us of 3.00 ms") + " is spent before this server's first call:"
        " connections wait in its accept queue, or for its event loop. `ss -ltn` shows",
    ),
    (
        network.far_clients,
        lambda side: measured(wait_peer=3, round_trips=1.999 + 0.001 * side, rest=1),
        of("75 %", "3.00 ms of 4.00 ms") + " is spent waiting for the peer and the network: they"
        f" are far away, given that the shortest round trip explains 67 % of that; {OWN}. A server nearer to them",
    ),
    (
        network.far_clients,
        lambda side: measured(wait_peer=4, round_trips=1.999 + 0.001 * side, rest=1),
        of("80 %", "4.00 ms of 5.00 ms") + " is spent waiting for the peer and the network: they"
        f" are far away, given that the shortest round trip explains 50 % of that; {OWN}. A server nearer to them",
    ),
    (
        network.slow_clients,
        lambda side: measured(wait_peer=4, round_trips=2 - 0.001 * side, rest=1),
        of("80 %", "4.00 ms of 5.00 ms") + " is spent waiting for the peer and the network: the"
        " clients take their time, or the network delays them or loses packets, given that the shortest round trip explains"
        " 50 % of that;"
        f" {OWN}. A capture",
    ),
    (
        network.slow_clients,
        lambda side: measured(wait_peer=2.499 + 0.001 * side, round_trips=0.5, rest=1),
        of("71 %", "2.50 ms of 3.50 ms") + " is spent waiting for the peer and the network: the clients take their time, or",
    ),
    (
        network.peer_waits,
        lambda side: measured(wait_peer=1, wait_window=0.999 + 0.001 * side, rest=1),
        of("67 %", "2.00 ms of 3.00 ms") + f" is spent waiting for the peer and the network: {OWN}.",
    ),
    (
        network.peer_or_server_waits,
        lambda side: measured(wait_peer_or_server=1.999 + 0.001 * side, rest=1),
        of("67 %", "2.00 ms of 3.00 ms") + " is spent waiting for the peer's bytes: whether the"
        f" peer, the network or this server was late isn't known, as it wasn't seen when they arrived; {OWN}. `top -H",
    ),
    (
        network.losses,
        lambda side: handshakes_of(
            [
                *alike(
                    3,
                    facts={Fact.SOCKET: 1, Fact.RETRANSMITTED: 1, Fact.RETRANSMISSIONS: 2},
                    wait_peer=50,
                    losses=33.3 + 0.1 * side,
                ),
                *alike(97, facts={Fact.SOCKET: 1}, rest=0.1, wait_peer=0.2),
            ]
        ),
        of("56 %", "1.00 ms of 1.79 ms") + " is spent in waits in which segments were lost or came"
        " out of order, in 3.0 % of the handshakes; this side sent 6 segments again. `ss -ti` shows",
    ),
    (
        network.hello_retries,
        lambda side: mixed(Fact.HELLO_RETRIES, 9 + 51 * side, base={Fact.HELLO_RETRY_KNOWN: 1}),
        "60 % of the clients offer no share of the group that this server wants: one more round trip each, 30.0 ms or more."
        " Let this server accept a group",
    ),
    (
        network.hello_retries,
        lambda side: handshakes_of(
            [
                *alike(9 + side, facts={Fact.HELLO_RETRY_KNOWN: 1, Fact.HELLO_RETRIES: 1}, rest=0.1),
                *alike(91 - side, facts={Fact.HELLO_RETRY_KNOWN: 1}, rest=0.1),
            ]
        ),
        "10 % of the clients offer no share of the group that this server wants: one more round trip each. Let",
    ),
    (
        network.large_flight,
        lambda side: mixed(Fact.UNSENT, 9 + 51 * side, base={Fact.FLIGHT_BYTES: 18_200}),
        "In 60 % of the handshakes this server's largest flight, 18.2 kB on average, is more than TCP sends at once: one more"
        " round trip each, 18.8 ms or more. Shorten the certificate chain",
    ),
    (network.old_version, lambda side: versions(11 + side), ""),
    (
        application.application_waits,
        lambda side: measured(wait_application=0.499 + 0.001 * side, rest=1),
        of("33 %", "500 us of 1.50 ms") + " is spent waiting for the application to call the"
        f" library again, or to send what the library gave it: {OWN}. Look at callbacks",
    ),
    (
        application.unknown_waits,
        lambda side: measured(wait_unknown=1.999 + 0.001 * side, rest=1),
        of("67 %", "2.00 ms of 3.00 ms") + f" is spent between calls, and it isn't known what for: {OWN}. `ssllatency snoop",
    ),
    (
        calls.off_cpu,
        lambda side: measured(rest=1.5, off_cpu=0.499 + 0.001 * side, on_cpu=1.001 - 0.001 * side),
        of("33 %", "500 us of 1.50 ms") + " its thread is off the CPU inside the library's calls:"
        " blocked, or waiting for a processor.",
    ),
    (
        calls.assists,
        lambda side: measured(rest=1, assists=0.099 + 0.001 * side),
        of("10 %", "100 us of 1.00 ms")
        + " is spent by goroutines in handshakes assisting the garbage collector before they may allocate."
        " Less garbage, or a higher GOGC",
    ),
    (
        calls.assists,
        lambda side: measured(rest=4, assists=0.199 + 0.001 * side),
        of("5.0 %", "200 us of 4.00 ms") + " is spent by goroutines in handshakes assisting the garbage collector",
    ),
    (
        calls.asleep_in_calls,
        lambda side: measured(rest=1.5, off_cpu=0.6, off_cpu_runnable=0.01, rest_asleep=0.499 + 0.001 * side),
        of("33 %", "500 us of 1.50 ms") + " its thread is asleep inside the library's calls, in"
        " none of the phases (rest asleep). `cat /proc/PID/stack` shows where",
    ),
    (
        calls.peer_verification,
        lambda side: measured(peer_verification=0.499 + 0.001 * side, rest=1),
        of("33 %", "500 us of 1.50 ms") + " is the check of the peer's certificate. Shorter",
    ),
    (
        calls.session_lookup,
        lambda side: measured(session_lookup=0.499 + 0.001 * side, rest=1),
        of("33 %", "500 us of 1.50 ms") + " is the session lookup, in the server's session cache or its tickets. If a store",
    ),
    (
        calls.callbacks,
        lambda side: measured(callbacks=0.499 + 0.001 * side, rest=1),
        of("33 %", "500 us of 1.50 ms") + " is the application's own callbacks. Look at",
    ),
    (
        calls.key_exchange,
        lambda side: measured(key_exchange=0.499 + 0.001 * side, rest=1),
        of("33 %", "500 us of 1.50 ms") + " is the key exchange. X25519",
    ),
    (
        calls.own_work,
        lambda side: measured(rest=1.999 + 0.001 * side, wait_peer=1),
        of("67 %", "2.00 ms of 3.00 ms") + " is the server's own work in the library's calls,"
        " 100 % of it messages, transcripts and whatever else is in rest. `perf top",
    ),
    (
        mixture.several_causes,
        lambda side: measured(rest=3.2, queue_server=3.3, wait_peer=3.1, wait_application=0.399 + 0.001 * side),
        "Clients wait 10.0 ms a handshake, and no part of that stands out: 33 % its queue, 32 % the server's work in calls,"
        " 31 % waiting for the peer's bytes. `--slowest 10`",
    ),
    (
        resumption.tickets_refused,
        lambda side: offering(Fact.TICKETS_REFUSED, 24 + side),
        "Resumption fails: 50 % of the clients that offered a session (25 of 50) came with a ticket that this server couldn't"
        " decrypt or found too old. Give all servers",
    ),
    (
        resumption.cache_misses,
        lambda side: offering(Fact.CACHE_MISSES, 40, others=351 - side),
        "Resumption fails: 80 % of the clients that offered a session (40 of 50) came with a session that wasn't found in"
        " the server's cache. Share the cache",
    ),
    (
        resumption.never_offered,
        lambda side: handshakes_of(
            alike(100, {Label.RESUMED: NO}, private_key=0.499 + 0.001 * side, key_exchange=0.1, rest=0.1)
        ),
        "",
    ),
    (
        groups.slow_group,
        lambda side: two_names(1.799 + 0.001 * side),
        "The clients of SNI a.example wait 2.00 ms, 2.0 times as long as all others (1.00 ms): the largest difference is"
        " private key, 1.00 ms more. Look at what sets it apart",
    ),
    (
        offload.software_fallback,
        lambda side: replace(measured(rest=0.1), offload=replace(OFFLOAD, handshakes=90, software=9 + side)),
        "qatengine is loaded, but 10 % of the private-key operations (10) are done by OpenSSL itself: they aren't offloaded.",
    ),
    (
        offload.vain_resumptions,
        lambda side: replace(
            measured(wait_offload=0.9, rest=0.1),
            offload=replace(OFFLOAD, pauses=199 + side, unseen=99 + side, pollers=(PollingThread(1, 2, "poll", 100, None),)),
        ),
        "The jobs were paused 200 times for 100 completions, 2.0 times each: the event loop resumes jobs that aren't done.",
    ),
    (
        offload.late_resumption,
        lambda side: late_taken(0.401 - 0.001 * side, 0.399 + 0.001 * side, 0.2),
        of("80 %", "800 us of 1.00 ms") + " passes until an offload's results are taken, 50 % of that after the offload was"
        " done, 400 us a handshake: the event loop is slow to resume the jobs that are done. Look at",
    ),
    (
        offload.late_resumption,
        lambda side: late_taken(0.1, 0.399 + 0.001 * side, 0.5),
        of("50 %", "500 us of 1.00 ms") + " passes until an offload's results are taken, 80 % of that after",
    ),
    (
        offload.late_resumption,
        lambda side: late_taken(0.1, 0.9, 0.5, queue_asleep=0.448 + 0.004 * side, queue_runnable=0.452 - 0.004 * side),
        of("67 %", "1.00 ms of 1.50 ms") + " passes until an offload's results are taken, 90 % of that after the offload was"
        " done, 900 us a handshake, asleep: the event loop",
    ),
    (
        queue.blocked_loop,
        lambda side: late_taken(0.1, 0.9, 0.5, queue_other=0.449 + 0.001 * side, queue_asleep=0.451 - 0.001 * side),
        of("60 %", "900 us of 1.50 ms") + " is this server's own queue: the offload was done, and for 50 % of that time its"
        " thread was busy with something else",
    ),
    (
        queue.saturated,
        lambda side: measured(queue_server=2, queue_offload=0.5, queue_handshakes=0.999 + 0.001 * side, rest=1),
        of("67 %", "2.00 ms of 3.00 ms") + " is this server's own queue: their bytes had arrived, or the offload was done, and"
        " for 50 % of that time its thread was busy with other handshakes",
    ),
    (
        offload.offload_waits,
        lambda side: measured(wait_offload=0.499 + 0.001 * side, offload_completion=0.4, rest=0.5),
        of("50 %", "500 us of 1.00 ms") + " is spent waiting for the offload, 80 % of that until"
        " completion: the offload itself. Compare",
    ),
    (
        offload.batches_unfilled,
        lambda side: replace(
            measured(wait_offload=0.6, rest=1.4),
            offload=replace(OFFLOAD, batches=(Batches("mbx", (0, 0, 0, 0, 99 + side, 1 - side, 0, 0, 0)),)),
        ),
        of("30 %", "600 us of 2.00 ms") + " is spent waiting for the offload, and its batches have"
        " an average fill of 4.0 of 8: too few are in flight at a time to fill them. Fewer workers",
    ),
    (
        offload.batches_unfilled,
        lambda side: replace(
            measured(wait_offload=0.499 + 0.001 * side, rest=1.501 - 0.001 * side),
            offload=replace(OFFLOAD, batches=(Batches("mbx", (0, 90, 0, 0, 0, 0, 0, 0, 10)),)),
        ),
        of("25 %", "500 us of 2.00 ms") + " is spent waiting for the offload, and its batches have an average fill of 1.7 of 8",
    ),
    (
        failures.one_reason,
        lambda side: handshakes_of([*failed(99 + side), *failed(51, "other"), *failed(50 - side, "others")]),
        '50 % of the failures (100 of 200, in 200 handshakes) are "no shared cipher":'
        " what clients offer and what this server's ciphers and key allow have nothing in common. `--by",
    ),
    (
        failures.one_reason,
        lambda side: handshakes_of([*alike(90, rest=0.1), *failed(9 + side, "odd")]),
        '100 % of the failures (10 of 10, in 100 handshakes) are "odd".',
    ),
    (
        failures.many_reasons,
        lambda side: handshakes_of([*alike(181 - side, rest=0.1), *failed(9, "a"), *failed(9, "b"), *failed(1 + side, "c")]),
        '10 % of the handshakes (20 of 200) fail for 3 reasons, most often "a" (9), "b" (9).',
    ),
    (
        failures.abandoned,
        lambda side: handshakes_of([*alike(180, rest=0.1), *gone(19 + side)]),
        "10 % of the handshakes (20) were abandoned after 1.00 ms on average:"
        " given up in the middle, by the peer or by the server itself.",
    ),
    (
        failures.abandoned,
        lambda side: handshakes_of([*failed(4, "a"), *failed(8, "b"), *failed(8, "c"), *gone(19 + side, "reading")] * 2),
        "",
    ),
    (
        failures.abandoned,
        lambda side: handshakes_of([*alike(30, rest=0.1), *gone(9 + side)]),
        "25 % of the handshakes (10) were abandoned after 1.00 ms on average:"
        " given up in the middle, by the peer or by the server itself.",
    ),
    (
        failures.abandoned,
        lambda side: handshakes_of(
            [
                *alike(180, rest=0.1),
                *freed(9, left=True, undelivered=True),
                *freed(4, left=True, undelivered=False),
                *[replace(shake, reason=LEFT) for shake in gone(2)],
                *freed(3, left=False, undelivered=True),
                *gone(1 + side),
            ]
        ),
        "10 % of the handshakes (20) were abandoned after 1.00 ms on average: given up in the middle, by the peer in 15"
        " (9 after bytes that the library was never given, as of clients that refuse the certificate),"
        " by the server itself in 3, by either in 2.",
    ),
    (
        failures.abandoned,
        lambda side: handshakes_of([*alike(180, rest=0.1), *freed(19 + side, left=False, undelivered=False)]),
        "10 % of the handshakes (20) were abandoned after 1.00 ms on average:"
        " given up in the middle, by the server itself in 20.",
    ),
    (
        failures.work_in_vain,
        lambda side: handshakes_of([*alike(180, rest=0.3), *gone(20, private_key=0.8, rest=0.099 + 0.001 * side)]),
        "25 % of the time in calls, 18.0 ms in all, 89 % of that in the private key, was spent on handshakes that came to"
        " nothing: 20 handshakes were abandoned and 0 failed. They gave up",
    ),
    (
        failures.work_in_vain,
        lambda side: handshakes_of(
            [*alike(100, rest=0.3), *alike(15, facts={Fact.SOCKET: 1, Fact.GONE: 1}, rest=1, gone=0.749 + 0.001 * side)]
        ),
        "25 % of the time in calls, 11.2 ms in all, was spent on handshakes that came to nothing: 0 handshakes were"
        " abandoned and 0 failed; in 15 a call began after the peer had left.",
    ),
]
# What is said beside something else where it applies at all.
SECOND = (network.old_version, resumption.never_offered, failures.abandoned)
