# SPDX-License-Identifier: Apache-2.0
"""Whole handshakes as plain data: their times split without remainder, their labels, and how they ended.

A handshake is one SSL *, from its first handshake call to its success, failure or SSL_free. wall = calls + the waits, and
calls = the phases + rest, exactly, in each single handshake and so in every sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property

from ssllatency.accept_queue import AcceptQueue
from ssllatency.data_class import dataclass
from ssllatency.model.certificates import ServedCertificate
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.offload import Offload
from ssllatency.model.process_label import ProcessLabel


class Part(StrEnum):
    """A part of a handshake's time. WALL is all of it; CALLS is the time inside the library's functions.

    The phases lie in the calls, the waits between them. A wait for the peer is WAIT_PEER until its bytes arrived, then
    QUEUE_SERVER until this server came back for them; where it isn't known when they arrived, all of it is
    WAIT_PEER_OR_SERVER. WAIT_HELLO and QUEUE_START lie before WALL: from the established connection to the ClientHello's
    arrival, and from that to the first call. A wait for an offload is WAIT_OFFLOAD until its operation was completed, and
    QUEUE_OFFLOAD, a part of QUEUE_SERVER, until this server came back for it; where the completion wasn't seen, all of it is
    WAIT_OFFLOAD, and COMPLETION is that of the others. QUEUE is QUEUE_START and QUEUE_SERVER together, and QUEUE_HANDSHAKES to
    QUEUE_ASLEEP are what the server's thread did meanwhile, where that is known: work in other handshakes, other work,
    runnable without a processor, held by a CPU quota, asleep or stopped; in Go programs QUEUE_GOROUTINES, other goroutines on
    the thread that then ran the handshake's, in place of work and sleep, and QUEUE_COLLECTIONS, collections of garbage on it.
    ROUND_TRIPS is the part of WAIT_PEER that the connection's shortest round trip explains, LOSSES those of its waits in which
    segments were lost. ON_CPU and OFF_CPU split CALLS once more; OFF_CPU_RUNNABLE is the part of OFF_CPU in which the
    thread was ready to run but had no processor, and in the rest it slept; OFF_CPU_THROTTLED is the part of
    OFF_CPU_RUNNABLE in which a CPU quota held it; REST_ASLEEP is the part of REST that it slept. GONE is the part of CALLS
    of calls that began after the peer had closed or reset the connection. ASSISTS is the part of CALLS, whatever the
    phase, in which a Go program's goroutine had to help a collection of garbage before it might allocate. CLIENT_WAIT is
    QUEUE_START, as far as that is known, and WALL together: what a server's client waits for from its ClientHello's arrival on.
    A program's own handshakes as a client, and measurements of older versions, have none.
    """

    WALL = "wall"
    CALLS = "calls"
    PRIVATE_KEY = "private_key"
    KEY_EXCHANGE = "key_exchange"
    PEER_VERIFICATION = "peer_verification"
    SESSION_LOOKUP = "session_lookup"
    CALLBACKS = "callbacks"
    REST = "rest"
    WAIT_PEER = "wait_peer"
    WAIT_WINDOW = "wait_window"
    WAIT_OFFLOAD = "wait_offload"
    WAIT_APPLICATION = "wait_application"
    WAIT_UNKNOWN = "wait_unknown"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"
    COMPLETION = "offload_completion"
    QUEUE_OFFLOAD = "queue_offload"
    WAIT_HELLO = "wait_hello"
    QUEUE_START = "queue_start"
    QUEUE_SERVER = "queue_server"
    WAIT_PEER_OR_SERVER = "wait_peer_or_server"
    QUEUE_HANDSHAKES = "queue_handshakes"
    QUEUE_OTHER = "queue_other"
    QUEUE_RUNNABLE = "queue_runnable"
    QUEUE_THROTTLED = "queue_throttled"
    QUEUE_ASLEEP = "queue_asleep"
    ROUND_TRIPS = "round_trips"
    QUEUE = "queue"
    OFF_CPU_RUNNABLE = "off_cpu_runnable"
    REST_ASLEEP = "rest_asleep"
    LOSSES = "losses"
    GONE = "gone"
    CLIENT_WAIT = "client_wait"
    OFF_CPU_THROTTLED = "off_cpu_throttled"
    QUEUE_GOROUTINES = "queue_goroutines"
    QUEUE_COLLECTIONS = "queue_collections"
    ASSISTS = "assists"


class Fact(StrEnum):
    """A count that is kept of handshakes beside their times.

    SOCKET: how many of them had a TCP socket that was seen; those from FLIGHTS to GONE are of these. FLIGHTS: flights of the
    peer that were waited for. FLIGHT_BYTES: the bytes of this side's largest flight. UNSENT: handshakes in which a part of a
    flight had to wait for an acknowledgement, as it was larger than the congestion window. RETRANSMITTED: handshakes in which
    this side sent segments again or the peer's came out of order; RETRANSMISSIONS: segments that this side sent again. GONE:
    handshakes in which a call began after the peer had closed or reset the connection. HELLO_RETRIES: handshakes in which a
    HelloRetryRequest was sent, of the HELLO_RETRY_KNOWN of which that is known. OFFERED: successful handshakes, but for
    UNPHASED ones, whose client is known to have offered a session. TICKETS_REFUSED: those of them that weren't resumed though
    a ticket of the client's was looked at; CACHE_MISSES: those that weren't though a session was looked up in the server's
    cache. UNPHASED: handshakes in a part of whose calls no phase was watched but PRIVATE_KEY, to keep within the budget: the
    others are in REST. QUIC_RETRIES: handshakes over QUIC whose client a server had answered with a Retry first, to have its
    address validated, of the QUIC_RETRY_KNOWN of which that is known.
    """

    SOCKET = "socket"
    FLIGHTS = "flights"
    FLIGHT_BYTES = "flight_bytes"
    UNSENT = "unsent"
    RETRANSMITTED = "retransmitted"
    RETRANSMISSIONS = "retransmissions"
    GONE = "gone"
    HELLO_RETRY_KNOWN = "hello_retry_known"
    HELLO_RETRIES = "hello_retries"
    TICKETS_REFUSED = "tickets_refused"
    CACHE_MISSES = "cache_misses"
    OFFERED = "offered"
    UNPHASED = "unphased"
    QUIC_RETRY_KNOWN = "quic_retry_known"
    QUIC_RETRIES = "quic_retries"


# The number of handshakes that a fact counts is at most that of another fact; of the others, at most all handshakes.
WITHIN = {
    Fact.UNSENT: Fact.SOCKET,
    Fact.RETRANSMITTED: Fact.SOCKET,
    Fact.GONE: Fact.SOCKET,
    Fact.HELLO_RETRIES: Fact.HELLO_RETRY_KNOWN,
    Fact.QUIC_RETRIES: Fact.QUIC_RETRY_KNOWN,
    Fact.TICKETS_REFUSED: Fact.OFFERED,
    Fact.CACHE_MISSES: Fact.OFFERED,
}
SUMS = (Fact.FLIGHTS, Fact.FLIGHT_BYTES, Fact.RETRANSMISSIONS)  # the others count handshakes


EVERY = (Part.WALL, Part.CALLS, Part.REST)  # the parts that every handshake has
PHASES = (
    Part.PRIVATE_KEY,
    Part.KEY_EXCHANGE,
    Part.PEER_VERIFICATION,
    Part.SESSION_LOOKUP,
    Part.CALLBACKS,
    Part.REST,
)
WINDOWED = (Part.KEY_EXCHANGE, Part.PEER_VERIFICATION, Part.SESSION_LOOKUP, Part.CALLBACKS)  # those that UNPHASED is of
SAMPLED = (*WINDOWED, Part.ASSISTS)  # what UNPHASED handshakes don't tell
WAITS = (
    Part.WAIT_PEER,
    Part.QUEUE_SERVER,
    Part.WAIT_PEER_OR_SERVER,
    Part.WAIT_WINDOW,
    Part.WAIT_OFFLOAD,
    Part.WAIT_APPLICATION,
    Part.WAIT_UNKNOWN,
)
BEFORE = (Part.WAIT_HELLO, Part.QUEUE_START)  # before the first call, and so not in WALL
CLIENT_WAIT_PARTS = (Part.QUEUE_START, Part.WALL)  # of which CLIENT_WAIT is the sum, in each handshake
# What the server's thread did while the peer's bytes lay in the queue.
MEANWHILE = (
    Part.QUEUE_HANDSHAKES,
    Part.QUEUE_OTHER,
    Part.QUEUE_GOROUTINES,
    Part.QUEUE_COLLECTIONS,
    Part.QUEUE_RUNNABLE,
    Part.QUEUE_THROTTLED,
    Part.QUEUE_ASLEEP,
)


def unequal_sum(total_ns: Mapping[Part, int]) -> str:
    """Return which of the two sums of times doesn't add up, in words; "" where both do."""
    if total_ns[Part.WALL] != total_ns[Part.CALLS] + sum([total_ns[wait] for wait in WAITS if wait in total_ns]):
        return "wall is the sum of calls and the waits"
    if total_ns[Part.CALLS] != sum([total_ns[phase] for phase in PHASES if phase in total_ns]):
        return "calls is the sum of the phases"
    return ""


class RequestedSide(StrEnum):
    """The side whose handshakes were asked for: those that the traced programs make as servers, as clients, or both."""

    SERVER = "server"
    CLIENT = "client"
    ANY = "any"


class Ending(StrEnum):
    """The way in which a handshake ended. ABANDONED: freed, or its connection gone, in the middle."""

    SUCCESS = "success"
    FAILURE = "failure"
    ABANDONED = "abandoned"


YES, NO = "yes", "no"
# Reasons that the library was given no error for.
LEFT, CLOSED, FREED = "connection reset or closed by the peer", "closed by the peer (close_notify)", "freed"
NOT_ASKED, NOT_GIVEN, GIVEN = "not asked", "not given", "given"


class Label(StrEnum):
    """The properties by which handshakes are grouped. RESUMED is YES or NO, CLIENT_CERTIFICATE one of NOT_ASKED, NOT_GIVEN and
    GIVEN. PORT is the listener's, PEER the network that the peer is in."""

    VERSION = "version"
    CIPHER = "cipher"
    RESUMED = "resumed"
    GROUP = "group"
    SIGNATURE = "signature"
    CLIENT_CERTIFICATE = "client_certificate"
    ROLE = "role"
    PROCESS = "process"
    SNI = "sni"
    ALPN = "alpn"
    PORT = "port"
    PEER = "peer"


WHO = (Label.SNI, Label.ALPN, Label.PORT, Label.PEER)  # who shook hands: read only where it is asked for
NONE = "none"  # the value of a label where it is known that there is none
LabelValue = str | ProcessLabel | None  # ProcessLabel is that of PROCESS


@dataclass(frozen=True)
class PeerPrefix:
    """The bits of a peer's address that are its network's, and all that is kept of it."""

    ipv4: int = 24
    ipv6: int = 56


@dataclass(frozen=True)
class Times:
    """The times of one part over many handshakes, in nanoseconds: of those that had this part at all.

    `min_ns` and `max_ns` are None where they aren't known exactly (an interval whose extremes fell on its border).
    """

    total_ns: int
    min_ns: int | None
    max_ns: int | None
    exponential: ExponentialHistogram

    @property
    def count(self) -> int:
        """The number of handshakes that had the part."""
        return self.exponential.count


@dataclass(frozen=True)
class Group:
    """The handshakes that share their labels and ended the same way.

    `labels` holds the values of the labels that the report was grouped by, empty where it wasn't; a value is None where it
    couldn't be read. `other`: the handshakes that were beyond the bound on the number of groups. `parts` holds WALL, CALLS
    and REST of every handshake, and the others of those that had them. Of successful ones `resumed` is how many were resumed,
    of the `resumption_known` of which that is known. `facts` lacks those that are 0.
    """

    labels: Mapping[Label, LabelValue]
    ending: Ending
    parts: Mapping[Part, Times]
    other: bool = False
    resumed: int = 0
    resumption_known: int = 0
    facts: Mapping[Fact, int] = field(default_factory=dict)

    @property
    def process(self) -> ProcessLabel | None:
        """The process, where the report was grouped by it."""
        value = self.labels.get(Label.PROCESS)
        return value if isinstance(value, ProcessLabel) else None

    def text(self, label: Label) -> str | None:
        """The value of a label as text, None where it isn't known."""
        value = self.labels.get(label)
        return str(value) if isinstance(value, ProcessLabel) else value

    @property
    def texts(self) -> dict[Label, str | None]:
        """The values of all labels as text."""
        return {label: self.text(label) for label in self.labels}

    @property
    def count(self) -> int:
        """The number of handshakes."""
        return self.parts[Part.WALL].count

    def total_ns(self, *parts: Part) -> int:
        """The time that these parts took in all."""
        return sum(self.parts[part].total_ns for part in parts if part in self.parts)

    @property
    def whole(self) -> Times:
        """The time that they took in all, by whole_part()."""
        return self.parts[whole_part((self,))]

    @property
    def unphased(self) -> int:
        """The number of handshakes that have all phases but PRIVATE_KEY in REST, as these weren't watched."""
        return self.facts.get(Fact.UNPHASED, 0)

    @property
    def phased(self) -> int:
        """The number that have them as they were."""
        return self.count - self.unphased

    @cached_property
    def estimated(self) -> Group:
        """The group with the totals of phases, REST and ASSISTS as they would be if all handshakes had been watched: estimated
        from those that were. What isn't a total stays that of those; the group itself where all were watched, or none."""
        if not self.unphased or not self.phased:
            return self
        seen = {part: self.parts[part] for part in WINDOWED if part in self.parts}
        rest = self.parts[Part.REST]
        more_ns = {part: times.total_ns * self.unphased // self.phased for part, times in seen.items()}
        scale = min(1.0, rest.total_ns / sum(more_ns.values())) if any(more_ns.values()) else 0.0
        parts = {part: replace(times, total_ns=times.total_ns + int(scale * more_ns[part])) for part, times in seen.items()}
        moved_ns = sum(times.total_ns - seen[part].total_ns for part, times in parts.items())
        parts[Part.REST] = replace(rest, total_ns=rest.total_ns - moved_ns)
        if Part.ASSISTS in self.parts:
            assists = self.parts[Part.ASSISTS]
            most_ns = self.parts[Part.CALLS].total_ns
            parts[Part.ASSISTS] = replace(assists, total_ns=min(most_ns, assists.total_ns * self.count // self.phased))
        return replace(self, parts={**self.parts, **parts})

    @cached_property
    def adds_up(self) -> bool:
        """Whether all parts are of the same handshakes: not where they were read while one was being counted."""
        count = self.parts[Part.WALL].count
        counts = [times.exponential.count for times in self.parts.values()]
        if max(counts) != count or any(part not in self.parts or self.parts[part].count != count for part in EVERY):
            return False
        if unequal_sum({part: times.total_ns for part, times in self.parts.items()}):
            return False
        return self.resumed <= self.resumption_known <= count


def whole_part(groups: Iterable[Group]) -> Part:
    """The part that is all of what these handshakes took: CLIENT_WAIT where that was measured of each and is more than WALL in
    any; else WALL."""
    groups = tuple(groups)
    known = all(Part.CLIENT_WAIT in group.parts and group.parts[Part.CLIENT_WAIT].count == group.count for group in groups)
    return Part.CLIENT_WAIT if known and any(group.total_ns(Part.QUEUE_START) for group in groups) else Part.WALL


@dataclass(frozen=True)
class Cause:
    """A reason why handshakes didn't succeed: one row for each combination that occurred.

    `reason` is OpenSSL's reason string ("no shared cipher"), `code` its packed error code (ERR_PACK of the library's major
    version), `library` the name of the library that raised it ("SSL routines"). Where no error was raised these are 0 and "",
    and `reason` says what is known ("connection reset or closed by the peer", "freed"). `alert` is the alert's name, "" for
    none, and `sent` whether we sent it. `state` is what the handshake had reached, by SSL_state_string_long, "" if
    unknown. `total_ns`: their wall time, None where it isn't known. Of those that were freed `peer_left` says whether the peer
    had closed or reset the connection before this side did, and `undelivered` whether bytes of the peer had arrived that the
    library was never given; None where that isn't known.
    """

    ending: Ending
    reason: str
    code: int
    library: str
    alert: str
    sent: bool
    state: str
    count: int
    total_ns: int | None
    peer_left: bool | None = None
    undelivered: bool | None = None

    @property
    def left_by_peer(self) -> bool | None:
        """Whether the peer had left before this side gave up, None where it isn't known."""
        return True if self.reason in (LEFT, CLOSED) else self.peer_left

    @property
    def mean_ns(self) -> float | None:
        """Their mean wall time, None where it isn't known."""
        return None if self.total_ns is None or not self.count else self.total_ns / self.count


def wall_time_ns(causes: Collection[Cause]) -> int | None:
    """The wall time of all, None where it isn't known of each."""
    known = [cause.total_ns for cause in causes if cause.total_ns is not None]
    return sum(known) if len(known) == len(causes) else None


@dataclass(frozen=True)
class KeyUse:
    """Private-key operations of successful handshakes by kind of key: "sign" or "decrypt", its name ("RSA-2048", "ECDSA
    P-256", "" if unknown), the number of handshakes and the time in it."""

    operation: str
    key: str
    count: int
    total_ns: int


@dataclass(frozen=True)
class Tallies:
    """The counts of handshakes beside their times: why they didn't succeed, the keys that they used, and `mix`, the
    successful ones by each label's values."""

    causes: tuple[Cause, ...] = ()
    keys: tuple[KeyUse, ...] = ()
    mix: Mapping[Label, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Single:
    """One handshake by itself: when it ended (seconds since the Unix epoch), its process and thread, how it ended, its parts
    in nanoseconds (those of EVERY always, the others where it had them), its labels, and why it failed ("" where it didn't).
    `unphased`: its phases but PRIVATE_KEY are in REST, as they weren't watched. `peer_left` and `undelivered`: as in Cause."""

    ended_s: float
    pid: int
    tid: int
    comm: str
    ending: Ending
    parts: Mapping[Part, int]
    labels: Mapping[Label, str | None]
    calls: int
    pauses: int
    reason: str = ""
    alert: str = ""
    state: str = ""
    unphased: bool = False
    peer_left: bool | None = None
    undelivered: bool | None = None


@dataclass(frozen=True)
class Handshakes:
    """The handshakes of one measurement. Counts are cumulative until a difference is taken.

    `mix`: the successful handshakes by each label's values, whatever the report is grouped by. `role`: SERVER in measurements
    of older versions, which don't tell. `in_flight`: begun and not ended. `by_process`: causes, keys and mix of each PID, and
    of 0 for the processes beyond the bound, which add up to those of all; empty unless the handshakes are grouped by process,
    and in sums and differences. `dropped`: records of handshakes that
    were evicted by newer ones. `partial`: handshakes that ended and aren't counted, as they were under way when the trace
    began, or had been evicted. `inspections`: connections that quiche made only to look into a ClientHello, which are no
    handshakes and count nowhere else. `unattributed`: handshakes that couldn't be split into phases, as their calls moved
    between threads; all their time in calls is REST. `unsplit`: those without ON_CPU and OFF_CPU, as their calls moved between
    threads. `slept`: those whose calls slept before reads and writes were watched, so that waits in them may be part of
    their phases and REST. `arrivals`: whether it was looked at when the peer's bytes arrived; where it wasn't, as in
    recordings of older versions, WAIT_PEER is a wait for the peer or the server. `bounded`: those of which a wait's split
    is a bound, as the library read more than had arrived first. `quotas`: whether OFF_CPU_THROTTLED was measured, as it wasn't
    by older versions. `exact_share`: which part of its processor time whoever pays
    most would pay if the phases were watched all the time; None where they were, or that isn't known. `unknown_labels`: the
    labels that the libraries' code doesn't show, with the reasons. `accept_queues`: those of the traced servers, None where
    they aren't known. `overflows_untold`: how often an accept queue was full of which it isn't known whether it was theirs.
    `certificates`: those that servers served, the first to expire first; None where that isn't known. `certificates_untold`:
    full handshakes that count at none of them, as there was no room or they couldn't be read; `certificates_pending`: those
    that count at none yet, as theirs hasn't been read so far.
    """

    groups: tuple[Group, ...]
    causes: tuple[Cause, ...] = ()
    keys: tuple[KeyUse, ...] = ()
    mix: Mapping[Label, Mapping[str, int]] = field(default_factory=dict)
    slowest: tuple[Single, ...] = ()
    by: tuple[Label, ...] = ()
    role: RequestedSide = RequestedSide.SERVER
    in_flight: int = 0
    dropped: int = 0
    unattributed: int = 0
    unsplit: int = 0
    slept: int = 0
    partial: int = 0
    inspections: int = 0
    bounded: int = 0
    arrivals: bool = False
    off_cpu: bool = False
    quotas: bool = False
    exact_share: float | None = None
    unknown_labels: Mapping[Label, str] = field(default_factory=dict)
    offload: Offload | None = None
    by_process: Mapping[int, Tallies] = field(default_factory=dict)
    accept_queues: tuple[AcceptQueue, ...] | None = None
    overflows_untold: int = 0
    certificates: tuple[ServedCertificate, ...] | None = None
    certificates_untold: int = 0
    certificates_pending: int = 0

    @property
    def overflows(self) -> int:
        """The number of times that a connection found an accept queue full, as far as that is known."""
        return sum(queue.overflows for queue in self.accept_queues or ())

    @property
    def unphased(self) -> int:
        """The number of handshakes that have all phases but PRIVATE_KEY in REST, as these weren't watched."""
        return sum(group.unphased for group in self.groups)
