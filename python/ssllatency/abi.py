# SPDX-License-Identifier: Apache-2.0
"""The records that the kernel side and user space share. Generated from bpf/ssllatency.h by `make abi`: do not edit."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import NamedTuple


class MapShape(NamedTuple):
    """A map as the headers define it: its BPF_MAP_TYPE_*, sizes in bytes, entries and BPF_F_* flags."""

    kind: int
    key_size: int
    value_size: int
    entries: int
    flags: int


class Batch(IntEnum):
    LANES = 8


class CertificateSize(IntEnum):
    CERTIFICATE_TELLING_BYTES = 32
    CERTIFICATES_OF_PROCESS = 768
    SERVED_OF_PROCESS = 1536
    CERTIFICATE_MOST_BYTES = 8192
    CERTIFICATES = 16384


class ClientCertificate(IntEnum):
    NOT_ASKED = 0
    NOT_GIVEN = 1
    GIVEN = 2


class Convention(IntEnum):
    SSL_HANDSHAKE = 1
    SSL_IO = 2
    SSL_EX = 3
    SSL_SHUTDOWN = 4
    LENGTH = 5
    POSITIVE = 6
    ONE = 7
    POINTER = 8
    MBX8 = 9
    NONE = 11


class Cookie(IntEnum):
    OPERATION = 0
    CONVENTION = 8
    REGISTER = 12
    SHARED = 17
    SKIP_NULL = 18
    SSL = 21
    HIT = 22
    LIBRARY = 24
    STACK = 32
    CONDITION = 48
    TAKEN = 52
    OTHER = 56
    TIER = 60
    RETURNS = 62


class DeferredCookie(IntEnum):
    COUNT_AT = 12
    ERROR_BEHIND = 18


class End(IntEnum):
    NONE = 0
    ERROR = 1
    TRANSPORT = 2
    CLOSED = 3


class Ending(IntEnum):
    SUCCESS = 0
    FAILURE = 1
    ABANDONED = 2
    ENDINGS = 3


class Error(IntEnum):
    LIBRARY = 24
    REASON_BITS = 24
    LIBRARY_SSL = 20
    LIBRARY_BORINGSSL = 16
    LIBRARY_GNUTLS = 1
    LIBRARY_GO = 2
    LIBRARY_S2N = 100
    LIBRARY_MBEDTLS = 101
    LIBRARY_WOLFSSL = 102


class ErrorCookie(IntEnum):
    REASON = 0
    FATAL = 3
    LEVELLED = 4


class EventSize(IntEnum):
    SHORT = 64


class Exit(IntEnum):
    IN_REGISTER = 0
    GOES_ON = 1
    CONSTANT = 4


class Fact(IntEnum):
    SOCKET = 0
    FLIGHTS = 1
    FLIGHT_BYTES = 2
    UNSENT = 3
    RETRANSMITTED = 4
    RETRANSMISSIONS = 5
    GONE = 6
    HELLO_RETRY_KNOWN = 7
    HELLO_RETRIES = 8
    TICKETS_REFUSED = 9
    CACHE_MISSES = 10
    OFFERED = 11
    UNPHASED = 12
    QUIC_RETRY_KNOWN = 13
    QUIC_RETRIES = 14
    FACTS = 15


class Flag(IntEnum):
    ADMITTED = 1
    PARTIAL = 2
    ENDED = 4
    ALERT_SENT = 8
    UNATTRIBUTED = 16
    UNSPLIT = 32
    UNPHASED = 64
    SLEPT = 128
    RETURNS = 256
    BLOCKED = 512
    NONBLOCKING = 1024
    BOUNDED = 2048
    SEVERAL = 4096
    TICKET = 8192
    CACHE = 16384
    FED = 32768
    DISOWNED = 65536
    UNSENT = 131072
    UNSENT_NOW = 262144
    LOST = 524288
    GONE = 1048576
    GONE_NOW = 2097152
    RETRY_KNOWN = 4194304
    RETRY = 8388608
    AWAITS_ANSWER = 16777216
    GOROUTINE = 33554432
    CHOSEN = 67108864
    QUIC_RETRY_KNOWN = 134217728
    QUIC_RETRY = 268435456
    PEER = 536870912


class FollowLimits(IntEnum):
    NAMES = 8


class Geometry(IntEnum):
    SCALE = 4
    FIRST_BUCKET = -384
    BUCKETS = 480
    LINE = 8
    LINEAR_BUCKETS = 64
    REASONS = 32
    COMM = 16
    OPERATIONS = 256
    EXTREME_BITS = 42


class GoField(IntEnum):
    THREAD = 0
    STOPS = 1
    PROCESSOR = 2
    TURNS = 3
    CONFIG = 4
    GET_CERTIFICATE = 5
    GET_CLIENT_CERTIFICATE = 6
    GET_CONFIG = 7
    VERIFY_PEER = 8
    VERIFY_CONNECTION = 9
    UNWRAP_SESSION = 10
    WRAP_SESSION = 11
    GET_ECH_KEYS = 12
    GO_FIELDS = 13


class GoKey(IntEnum):
    NONE = 0
    RSA = 1
    ECDSA = 2
    ED25519 = 3
    SIGNED = 65535


class GoReason(IntEnum):
    TEXT_SIZE = 32
    ALERT = 1000
    SENT = 2000
    HASH = 2097151
    TYPE = 4194304
    TEXT = 6291456


class GoType(IntEnum):
    TCP = 0
    LOCAL = 1
    PERMANENT = 2
    NETWORK = 3
    ALERT = 4
    DEADLINE = 5
    CLOSED = 6
    TEXT = 7
    HASH = 8
    PSS = 9
    GO_TYPES = 10


class GoroutineTable(IntEnum):
    GOROUTINES = 65536
    GOROUTINE_SHARE = 49152
    FRAMES = 8


class Hit(IntEnum):
    EMULATED = 0
    SINGLE_STEPPED = 1
    OPTIMISED = 2
    RETURN = 3
    HITS = 4


class HitTable(IntEnum):
    HITS_FIRST_NOTICE = 4096
    HITS_A_NOTICE = 8192


class KeyOperation(IntEnum):
    NONE = 0
    SIGN = 1
    DECRYPT = 2


class Label(IntEnum):
    VERSION = 0
    CIPHER = 1
    RESUMED = 2
    GROUP = 3
    SIGNATURE = 4
    CLIENT_CERTIFICATE = 5
    ROLE = 6
    PROCESS = 7
    SNI = 8
    ALPN = 9
    PORT = 10
    PEER = 11
    LABELS = 12
    OTHER = 31


class MbedtlsField(IntEnum):
    STATE = 0
    OVER = 1
    CONFIGURATION = 2
    MAJOR = 3
    SEND = 4
    RECEIVE = 5
    RECEIVE_TIMEOUT = 6
    NET_SEND = 7
    NET_RECEIVE = 8
    NET_RECEIVE_TIMEOUT = 9


class Operation(IntEnum):
    FREE = 253
    PAUSE = 254
    STATE_MACHINE = 255


class Outcome(IntEnum):
    SUCCESS = 0
    FAILURE = 1
    RETRY = 2
    CLOSED = 3
    UNKNOWN = 4


class Part(IntEnum):
    WALL = 0
    CALLS = 1
    PRIVATE_KEY = 2
    KEY_EXCHANGE = 3
    PEER_VERIFICATION = 4
    SESSION_LOOKUP = 5
    CALLBACKS = 6
    REST = 7
    WAIT_PEER = 8
    WAIT_WINDOW = 9
    WAIT_OFFLOAD = 10
    WAIT_APPLICATION = 11
    WAIT_UNKNOWN = 12
    ON_CPU = 13
    OFF_CPU = 14
    OFFLOAD_COMPLETION = 15
    QUEUE_OFFLOAD = 16
    WAIT_HELLO = 17
    QUEUE_START = 18
    QUEUE_SERVER = 19
    WAIT_PEER_OR_SERVER = 20
    QUEUE_HANDSHAKES = 21
    QUEUE_OTHER = 22
    QUEUE_RUNNABLE = 23
    QUEUE_THROTTLED = 24
    QUEUE_ASLEEP = 25
    ROUND_TRIPS = 26
    QUEUE = 27
    OFF_CPU_RUNNABLE = 28
    REST_ASLEEP = 29
    LOSSES = 30
    GONE = 31
    CLIENT_WAIT = 32
    OFF_CPU_THROTTLED = 33
    QUEUE_GOROUTINES = 34
    QUEUE_COLLECTIONS = 35
    ASSISTS = 36
    PARTS = 37


class PathSize(IntEnum):
    PATH_LENGTH = 4


class Peer(IntEnum):
    KNOWN = 1
    LEFT = 2
    UNDELIVERED = 4


class PhaseCookie(IntEnum):
    PART = 0
    SKIP_NULL = 4
    OPERATION = 7
    SIZE = 9
    SIZE_POINTED = 12
    CONDITION = 13
    CONDITIONAL = 17
    TAKEN = 18
    TICKET = 19
    CACHE = 20
    OPENS = 21
    KEY = 24
    ASSIST = 26
    INNER = 27
    STACK = 32


class PlaceOf(IntEnum):
    VERSION = 0
    CIPHER = 1
    RESUMED = 2
    GROUP_TLS13 = 3
    GROUP_SESSION = 4
    SIGNATURE = 5
    VERIFY_MODE = 6
    PEER_CERTIFICATE = 7
    HAND_STATE = 8
    IN_INIT = 9
    DID_KEX = 10
    SERVER_NAME = 11
    SERVER_NAME_SESSION = 12
    ALPN = 13
    ALPN_LENGTH = 14
    BIO_TYPE = 15
    BIO_DESCRIPTOR = 16
    HELLO_RETRY = 17
    MAX_VERSION = 18
    OPTIONS = 19
    ALERT = 20
    GROUP = 21
    DESCRIPTOR = 22
    SERVER_NAME_LENGTH = 23
    CREDENTIALS = 24
    POLLED = 25
    CERTIFICATE = 26
    SIGNATURE_BITS = 27
    CHAIN = 28
    CERTIFICATE_BYTES = 29
    PEER_DIGEST = 30
    SENT_CERTIFICATES = 31
    FIRST_CERTIFICATE = 32
    SENT_COUNT = 33
    SENT_SLOT = 34
    NEXT_SLOT = 35
    SLOT_CERTIFICATES = 36
    QUIC_PARAMETERS = 37
    QUIC_PARAMETERS_LENGTH = 38
    QUIC_FUNCTIONS = 39
    ALPN_FUNCTION = 40
    PLACES = 41


class ProcessSlot(IntEnum):
    BITS = 10
    PROCESS_SLOTS = 1024


class Reason(IntEnum):
    UNKNOWN = 0
    SSL = 1
    WANT_READ = 2
    WANT_WRITE = 3
    WANT_X509_LOOKUP = 4
    SYSCALL = 5
    ZERO_RETURN = 6
    WANT_CONNECT = 7
    WANT_ACCEPT = 8
    WANT_ASYNC = 9
    WANT_ASYNC_JOB = 10
    WANT_CLIENT_HELLO_CB = 11
    WANT_RETRY_VERIFY = 12
    WANT_SESSION_LOOKUP = 13
    PENDING_SESSION = 16
    PENDING_CERTIFICATE = 17
    WANT_PRIVATE_KEY_OPERATION = 18
    PENDING_TICKET = 19
    EARLY_DATA_REJECTED = 20
    WANT_CERTIFICATE_VERIFY = 21
    HANDOFF = 22
    HANDBACK = 23
    WANT_RENEGOTIATE = 24
    HANDSHAKE_HINTS_READY = 25
    APPLICATION_INPUT = 26
    EARLY_DATA = 27
    NONE = 31


class Returns(IntEnum):
    OPENSSL = 0
    NEGATIVE_ERROR = 1
    GO_ERROR = 2


class Shared(IntEnum):
    HANDSHAKES = 0
    CALLS = 1
    ROWS = 2
    CAUSES = 3
    KEYS = 4
    MIX = 5
    POLLERS = 6
    TEXTS = 7
    CERTIFICATES = 8
    SERVED = 9
    COMBINATIONS = 10
    TABLES = 11


class Shut(IntEnum):
    TIMES = 8


class Side(IntEnum):
    ANY = 0
    SERVER = 1
    CLIENT = 2


class SideTable(IntEnum):
    SIDE_BITS = 12
    SIDES = 4096
    SIDE_SSL = 0
    SIDE_TGID = 32
    SIDE_SERVER = 62


class Stack(IntEnum):
    OPENSSL = 0
    BORINGSSL = 1
    GNUTLS = 2
    MBEDTLS = 3
    S2N = 4
    WOLFSSL = 5
    GO = 64


class State(IntEnum):
    UNKNOWN = 65535


class Table(IntEnum):
    BITS = 14
    STARTS = 16384
    WAYS = 4
    OVERFLOW = 16384
    SHARE = 12288


class TableSize(IntEnum):
    OPEN_CALLS = 16384
    EXCESS_CALLS = 4096
    CAUSES = 1024
    KEYS = 256
    MIX = 1024
    COMBINATIONS = 512
    POLLERS = 1024


class Tag(IntEnum):
    WAY = 0
    STACK = 2
    TGID = 33
    OPERATION = 55


class Target(IntEnum):
    WORDS = 65536


class TextKind(IntEnum):
    SERVER_NAME = 0
    PROTOCOL = 1
    IPV4 = 2
    IPV6 = 3
    LOCAL = 4
    TEXT_LENGTH = 64


class Tier(IntEnum):
    DATA = 0
    BELOW = 1
    HANDSHAKE = 2


class Wait(IntEnum):
    NONE = 0
    PEER = 1
    WINDOW = 2
    CONNECTION = 3
    OFFLOAD = 4
    APPLICATION = 5
    LOOKUP = 6
    HANDSHAKE = 7
    UNKNOWN = 8
    WAITS = 9


class Clocks(ctypes.Structure):
    _fields_ = (
        ("busy_ns", ctypes.c_uint64),
        ("collected_ns", ctypes.c_uint64),
        ("run_ns", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
        ("throttled_ns", ctypes.c_uint64),
        ("sleeps", ctypes.c_uint64),
        ("switches", ctypes.c_uint64),
        ("tid", ctypes.c_uint32),
        ("is_off", ctypes.c_uint32),
    )


assert ctypes.sizeof(Clocks) == 64


class Arrival(ctypes.Structure):
    _fields_ = (
        ("ssl", ctypes.c_uint64),
        ("since_ns", ctypes.c_uint64),
        ("established_ns", ctypes.c_uint64),
        ("arrived_ns", ctypes.c_uint64),
        ("last_ns", ctypes.c_uint64),
        ("arrivals", ctypes.c_uint64),
        ("task", ctypes.c_uint64),
        ("tid", ctypes.c_uint32),
        ("seq", ctypes.c_uint32),
        ("clocks", Clocks),
        ("is_read", ctypes.c_uint32),
        ("is_late", ctypes.c_uint32),
        ("given_seq", ctypes.c_uint32),
        ("sent_seq", ctypes.c_uint32),
        ("left", ctypes.c_uint32),
        ("is_renewed", ctypes.c_uint32),
    )


assert ctypes.sizeof(Arrival) == 152


class Away(ctypes.Structure):
    _fields_ = (
        ("off_ns", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
        ("throttled_ns", ctypes.c_uint64),
    )


assert ctypes.sizeof(Away) == 24


class BatchKey(ctypes.Structure):
    _fields_ = (
        ("operation", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),
    )


assert ctypes.sizeof(BatchKey) == 8


class Border(ctypes.Structure):
    _fields_ = (
        ("at_ns", ctypes.c_uint64),
        ("ahead_ns", ctypes.c_uint64),
        ("run_ns", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
        ("throttled_ns", ctypes.c_uint64),
        ("switches", ctypes.c_uint32),
        ("processor", ctypes.c_uint32),
    )


assert ctypes.sizeof(Border) == 48


class OpenCall(ctypes.Structure):
    _fields_ = (
        ("ssl", ctypes.c_uint64),
        ("outer", ctypes.c_uint64),
    )


assert ctypes.sizeof(OpenCall) == 16


class CallSlot(ctypes.Structure):
    _fields_ = (
        ("tag", ctypes.c_uint64),
        ("call", OpenCall),
    )


assert ctypes.sizeof(CallSlot) == 24


class CauseKey(ctypes.Structure):
    _fields_ = (
        ("error", ctypes.c_uint32),
        ("state", ctypes.c_uint16),
        ("library", ctypes.c_uint16),
        ("ending", ctypes.c_uint8),
        ("end", ctypes.c_uint8),
        ("alert", ctypes.c_uint8),
        ("sent", ctypes.c_uint8),
        ("tgid", ctypes.c_uint32),
        ("peer", ctypes.c_uint32),
    )


assert ctypes.sizeof(CauseKey) == 20


class Certificate(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
        ("signature_length", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("bytes", ctypes.c_uint8 * 8192),
    )


assert ctypes.sizeof(Certificate) == 8208


class CertificateKey(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("signature_length", ctypes.c_uint32),
        ("signature", ctypes.c_uint8 * 32),
    )


assert ctypes.sizeof(CertificateKey) == 40


class CombinationKey(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("library", ctypes.c_uint16),
        ("known", ctypes.c_uint16),
        ("values", ctypes.c_uint32 * 6),
    )


assert ctypes.sizeof(CombinationKey) == 32


class Config(ctypes.Structure):
    _fields_ = (
        ("linear_minimum_ns", ctypes.c_uint64),
        ("linear_step_ns", ctypes.c_uint64),
        ("linear_buckets", ctypes.c_uint32),
        ("filter_tgid", ctypes.c_uint32),
        ("role", ctypes.c_uint32),
        ("linear_reciprocal", ctypes.c_uint32),
        ("companions", ctypes.c_uint32),
        ("slot_secret", ctypes.c_uint64),
    )


assert ctypes.sizeof(Config) == 48


class Counters(ctypes.Structure):
    _fields_ = (
        ("unmatched_entries", ctypes.c_uint64),
        ("unmatched_exits", ctypes.c_uint64),
        ("map_full", ctypes.c_uint64),
        ("interval", ctypes.c_uint64),
        ("events_dropped", ctypes.c_uint64),
        ("stopped", ctypes.c_uint64),
        ("shut", ctypes.c_uint64),
        ("left", ctypes.c_uint64),
        ("dropped_ns", ctypes.c_uint64 * 3),
        ("in_other", ctypes.c_uint64),
    )


assert ctypes.sizeof(Counters) == 96


class Datagrams(ctypes.Structure):
    _fields_ = (
        ("since_ns", ctypes.c_uint64),
        ("port", ctypes.c_uint32),
        ("several", ctypes.c_uint32),
        ("tells", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(Datagrams) == 24


class Endpoint(ctypes.Structure):
    _fields_ = (
        ("known", ctypes.c_uint32),
        ("port", ctypes.c_uint32),
        ("peer", ctypes.c_uint32),
    )


assert ctypes.sizeof(Endpoint) == 12


class Event(ctypes.Structure):
    _fields_ = (
        ("ended_ns", ctypes.c_uint64),
        ("duration_ns", ctypes.c_uint64),
        ("returned", ctypes.c_uint64),
        ("bytes", ctypes.c_int64),
        ("tgid", ctypes.c_uint32),
        ("tid", ctypes.c_uint32),
        ("comm", ctypes.c_char * 16),
        ("operation", ctypes.c_uint16),
        ("outcome", ctypes.c_uint8),
        ("reason", ctypes.c_uint8),
        ("known", ctypes.c_uint32),
        ("who", ctypes.c_uint32 * 4),
    )


assert ctypes.sizeof(Event) == 80


class EventFilter(ctypes.Structure):
    _fields_ = (
        ("minimum_ns", ctypes.c_uint64),
        ("wake_bytes", ctypes.c_uint64),
        ("outcomes", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("length_argument", ctypes.c_uint8 * 256),
    )


assert ctypes.sizeof(EventFilter) == 280


class FollowConfig(ctypes.Structure):
    _fields_ = (
        ("comms", ctypes.c_char * 16 * 8),
        ("cgroup", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(FollowConfig) == 136


class FollowCounters(ctypes.Structure):
    _fields_ = (
        ("dropped", ctypes.c_uint64),
        ("joined", ctypes.c_uint64),
    )


assert ctypes.sizeof(FollowCounters) == 16


class FollowWishes(ctypes.Structure):
    _fields_ = (
        ("children", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(FollowWishes) == 8


class Frame(ctypes.Structure):
    _fields_ = (
        ("began_ns", ctypes.c_uint64),
        ("connection", ctypes.c_uint64),
        ("depth", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("tier", ctypes.c_uint16),
    )


assert ctypes.sizeof(Frame) == 24


class Goroutine(ctypes.Structure):
    _fields_ = (
        ("left_ns", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("frames", Frame * 8),
    )


assert ctypes.sizeof(Goroutine) == 208


class GoroutineKey(ctypes.Structure):
    _fields_ = (
        ("goroutine", ctypes.c_uint64),
        ("tgid", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(GoroutineKey) == 16


class Handshake(ctypes.Structure):
    _fields_ = (
        ("began_ns", ctypes.c_uint64),
        ("since_ns", ctypes.c_uint64),
        ("phase_since_ns", ctypes.c_uint64),
        ("phase_stack", ctypes.c_uint64),
        ("outer_stack", ctypes.c_uint64),
        ("completed_ns", ctypes.c_uint64),
        ("blocked_off_ns", ctypes.c_uint64),
        ("blocked_delay_ns", ctypes.c_uint64),
        ("blocked_throttled_ns", ctypes.c_uint64),
        ("machine_stack", ctypes.c_uint64),
        ("unsplit_since_ns", ctypes.c_uint64),
        ("socket", ctypes.c_uint64),
        ("assist_since_ns", ctypes.c_uint64),
        ("parts", ctypes.c_uint64 * 37),
        ("calls", ctypes.c_uint32),
        ("pauses", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("error", ctypes.c_uint32),
        ("key_bytes", ctypes.c_uint32),
        ("waiting", ctypes.c_uint8),
        ("phase", ctypes.c_uint8),
        ("alert", ctypes.c_uint8),
        ("key_operation", ctypes.c_uint8),
        ("library", ctypes.c_uint16),
        ("flights", ctypes.c_uint16),
        ("arrived_seq", ctypes.c_uint32),
        ("written_seq", ctypes.c_uint32),
        ("flight_bytes", ctypes.c_uint32),
        ("segments", ctypes.c_uint32),
        ("losses", ctypes.c_uint32),
        ("resent", ctypes.c_uint32),
        ("retransmissions", ctypes.c_uint32),
        ("watch", ctypes.c_uint32),
        ("wake_descriptor", ctypes.c_uint32),
        ("key_kind", ctypes.c_uint8),
        ("outer_phase", ctypes.c_uint8),
        ("signature", ctypes.c_uint16),
    )


assert ctypes.sizeof(Handshake) == 472


class Labels(ctypes.Structure):
    _fields_ = (
        ("known", ctypes.c_uint32),
        ("values", ctypes.c_uint32 * 12),
        ("library", ctypes.c_uint16),
        ("ending", ctypes.c_uint8),
        ("pad", ctypes.c_uint8),
    )


assert ctypes.sizeof(Labels) == 56


class HandshakeConfig(ctypes.Structure):
    _fields_ = (
        ("mask", Labels),
        ("most_handshakes", ctypes.c_uint32),
        ("most_rows", ctypes.c_uint32),
        ("most_texts", ctypes.c_uint32),
        ("certificates", ctypes.c_uint32),
    )


assert ctypes.sizeof(HandshakeConfig) == 72


class HandshakeCounters(ctypes.Structure):
    _fields_ = (
        ("created", ctypes.c_uint64),
        ("ended", ctypes.c_uint64),
        ("events_dropped", ctypes.c_uint64),
        ("unattributed", ctypes.c_uint64),
        ("unsplit", ctypes.c_uint64),
        ("partial", ctypes.c_uint64),
        ("pauses", ctypes.c_uint64),
        ("paused", ctypes.c_uint64),
        ("unseen", ctypes.c_uint64),
        ("software", ctypes.c_uint64),
        ("waiting_offload", ctypes.c_int64),
        ("most_waiting_offload", ctypes.c_uint64),
        ("slept", ctypes.c_uint64),
        ("watches_transport", ctypes.c_uint64),
        ("threshold_ns", ctypes.c_uint64),
        ("within_data", ctypes.c_uint64),
        ("bounded", ctypes.c_uint64),
        ("watches_arrivals", ctypes.c_uint64),
        ("watches_reads_ns", ctypes.c_uint64),
        ("watches_transfers", ctypes.c_uint64),
        ("transfers_since_ns", ctypes.c_uint64),
        ("without_socket", ctypes.c_uint64),
        ("slept_of_go", ctypes.c_uint64),
        ("watches_datagrams_ns", ctypes.c_uint64),
        ("without_port", ctypes.c_uint64),
        ("over_quic", ctypes.c_uint64),
        ("watches_packets_ns", ctypes.c_uint64),
        ("ahead_since_ns", ctypes.c_uint64),
        ("ahead_ns", ctypes.c_uint64),
        ("ahead_before_ns", ctypes.c_uint64),
        ("calls_spilled", ctypes.c_uint64),
        ("excess_used", ctypes.c_uint64),
        ("unexplained", ctypes.c_uint64),
        ("untold", ctypes.c_uint64),
        ("inspections", ctypes.c_uint64),
    )


assert ctypes.sizeof(HandshakeCounters) == 280


class HandshakeKey(ctypes.Structure):
    _fields_ = (
        ("ssl", ctypes.c_uint64),
        ("tgid", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(HandshakeKey) == 16


class Times(ctypes.Structure):
    _fields_ = (
        ("exponential", ctypes.c_uint64 * 480),
        ("underflow", ctypes.c_uint64),
        ("overflow", ctypes.c_uint64),
        ("total_ns", ctypes.c_uint64),
        ("maximum", ctypes.c_uint64 * 2),
        ("minimum", ctypes.c_uint64 * 2),
        ("lines", ctypes.c_uint64),
    )


assert ctypes.sizeof(Times) == 3904


class HandshakeRow(ctypes.Structure):
    _fields_ = (
        ("parts", Times * 37),
        ("begun", ctypes.c_uint64),
        ("changes", ctypes.c_uint64),
        ("resumed", ctypes.c_uint64),
        ("resumption_known", ctypes.c_uint64),
        ("facts", ctypes.c_uint64 * 15),
    )


assert ctypes.sizeof(HandshakeRow) == 144600


class Sample(ctypes.Structure):
    _fields_ = (
        ("at_ns", ctypes.c_uint64),
        ("clocks", Clocks),
    )


assert ctypes.sizeof(Sample) == 72


class Ring(ctypes.Structure):
    _fields_ = (
        ("made", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("samples", Sample * 16),
    )


assert ctypes.sizeof(Ring) == 1160


class History(ctypes.Structure):
    _fields_ = (
        ("task", ctypes.c_uint64),
        ("rings", Ring * 3),
    )


assert ctypes.sizeof(History) == 3488


class Hits(ctypes.Structure):
    _fields_ = (
        ("of_kind", ctypes.c_uint64 * 4),
    )


assert ctypes.sizeof(Hits) == 32


class Holding(ctypes.Structure):
    _fields_ = (
        ("entries", ctypes.c_uint64 * 11),
    )


assert ctypes.sizeof(Holding) == 88


class KeyUse(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("signature", ctypes.c_uint16),
        ("operation", ctypes.c_uint8),
        ("library", ctypes.c_uint8),
    )


assert ctypes.sizeof(KeyUse) == 12


class Path(ctypes.Structure):
    _fields_ = (
        ("offsets", ctypes.c_int32 * 4),
        ("length", ctypes.c_uint8),
        ("size", ctypes.c_uint8),
        ("bits", ctypes.c_uint16),
    )


assert ctypes.sizeof(Path) == 20


class Library(ctypes.Structure):
    _fields_ = (
        ("rwstate", ctypes.c_int32),
        ("server", ctypes.c_int32),
        ("rbio", ctypes.c_int32),
        ("wbio", ctypes.c_int32),
        ("shutdown", ctypes.c_int32),
        ("state", ctypes.c_int32),
        ("bio_flags", ctypes.c_int32),
        ("typed", ctypes.c_int32),
        ("remember", ctypes.c_int32),
        ("stack", ctypes.c_int32),
        ("holder", ctypes.c_int32),
        ("server_bits", ctypes.c_int32),
        ("companion", ctypes.c_int32),
        ("attached", ctypes.c_int32),
        ("deadline", ctypes.c_int32),
        ("sent", ctypes.c_int32),
        ("tells_ids", ctypes.c_int32),
        ("paths", Path * 41),
        ("types", ctypes.c_uint32 * 10),
        ("fields", ctypes.c_int32 * 13),
    )


assert ctypes.sizeof(Library) == 980


class MixKey(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("label", ctypes.c_uint16),
        ("library", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
    )


assert ctypes.sizeof(MixKey) == 16


class Notice(ctypes.Structure):
    _fields_ = (
        ("at_ns", ctypes.c_uint64),
        ("tgid", ctypes.c_uint32),
        ("parent", ctypes.c_uint32),
    )


assert ctypes.sizeof(Notice) == 16


class Poller(ctypes.Structure):
    _fields_ = (
        ("completions", ctypes.c_uint64),
        ("tgid", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("comm", ctypes.c_char * 16),
    )


assert ctypes.sizeof(Poller) == 32


class Process(ctypes.Structure):
    _fields_ = (
        ("comm", ctypes.c_char * 16),
    )


assert ctypes.sizeof(Process) == 16


class QuicId(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("length", ctypes.c_uint8),
        ("bytes", ctypes.c_uint8 * 20),
        ("pad", ctypes.c_uint8 * 3),
    )


assert ctypes.sizeof(QuicId) == 28


class QuicName(ctypes.Structure):
    _fields_ = (
        ("began_ns", ctypes.c_uint64),
        ("id", QuicId),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(QuicName) == 40


class QuicPeer(ctypes.Structure):
    _fields_ = (
        ("began_ns", ctypes.c_uint64),
        ("endpoint", Endpoint),
        ("pad", ctypes.c_uint32),
    )


assert ctypes.sizeof(QuicPeer) == 24


class Series(ctypes.Structure):
    _fields_ = (
        ("times", Times),
        ("linear", ctypes.c_uint64 * 66),
        ("reasons", ctypes.c_uint64 * 32),
    )


assert ctypes.sizeof(Series) == 4688


class SeriesKey(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("outcome", ctypes.c_uint16),
    )


assert ctypes.sizeof(SeriesKey) == 8


class Served(ctypes.Structure):
    _fields_ = (
        ("last_ns", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("unsuccessful", ctypes.c_uint64),
        ("chain", ctypes.c_int32),
        ("chain_bytes", ctypes.c_uint32),
    )


assert ctypes.sizeof(Served) == 32


class ServedKey(ctypes.Structure):
    _fields_ = (
        ("tgid", ctypes.c_uint32),
        ("certificate", ctypes.c_uint32),
        ("name", ctypes.c_uint32),
        ("port", ctypes.c_uint16),
        ("name_known", ctypes.c_uint16),
    )


assert ctypes.sizeof(ServedKey) == 16


class Single(ctypes.Structure):
    _fields_ = (
        ("ended_ns", ctypes.c_uint64),
        ("parts", ctypes.c_uint64 * 37),
        ("labels", Labels),
        ("cause", CauseKey),
        ("tgid", ctypes.c_uint32),
        ("tid", ctypes.c_uint32),
        ("calls", ctypes.c_uint32),
        ("pauses", ctypes.c_uint32),
        ("unphased", ctypes.c_uint32),
        ("comm", ctypes.c_char * 16),
    )


assert ctypes.sizeof(Single) == 416


class Start(ctypes.Structure):
    _fields_ = (
        ("tag", ctypes.c_uint64),
        ("began_ns", ctypes.c_uint64),
        ("ssl", ctypes.c_uint64),
    )


assert ctypes.sizeof(Start) == 24


class StartKey(ctypes.Structure):
    _fields_ = (
        ("stack", ctypes.c_uint64),
        ("tgid", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
    )


assert ctypes.sizeof(StartKey) == 16


class Tally(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_uint64),
        ("total_ns", ctypes.c_uint64),
    )


assert ctypes.sizeof(Tally) == 16


class Targets(ctypes.Structure):
    _fields_ = (
        ("kin", ctypes.c_uint64),
        ("members", ctypes.c_uint64),
    )


assert ctypes.sizeof(Targets) == 16


class Text(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("length", ctypes.c_uint8),
        ("cut", ctypes.c_uint8),
        ("pad", ctypes.c_uint8),
        ("bytes", ctypes.c_uint8 * 68),
    )


assert ctypes.sizeof(Text) == 72


class Turn(ctypes.Structure):
    _fields_ = (
        ("processor", ctypes.c_uint64),
        ("stack_bytes", ctypes.c_uint64),
        ("turns", ctypes.c_uint32),
        ("stops", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
    )


assert ctypes.sizeof(Turn) == 24


class Thread(ctypes.Structure):
    _fields_ = (
        ("ssl", ctypes.c_uint64),
        ("sleeps", ctypes.c_uint64),
        ("busy_ns", ctypes.c_uint64),
        ("busy_since_ns", ctypes.c_uint64),
        ("run_delay_ns", ctypes.c_uint64),
        ("collected_ns", ctypes.c_uint64),
        ("collects_since_ns", ctypes.c_uint64),
        ("collect_delay_ns", ctypes.c_uint64),
        ("collect_watch", ctypes.c_uint64),
        ("call", Border),
        ("phase", Border),
        ("away", Away),
        ("phases", Away),
        ("clocks", Clocks),
        ("read_socket", ctypes.c_uint64),
        ("turn", Turn),
        ("speaks_quic", ctypes.c_uint64),
    )


assert ctypes.sizeof(Thread) == 320


class WhoConfig(ctypes.Structure):
    _fields_ = (
        ("labels", ctypes.c_uint32),
        ("prefix4", ctypes.c_uint16),
        ("prefix6", ctypes.c_uint16),
    )


assert ctypes.sizeof(WhoConfig) == 8


class Workers(ctypes.Structure):
    _fields_ = (
        ("made", ctypes.c_uint32),
        ("tids", ctypes.c_uint32 * 16),
    )


assert ctypes.sizeof(Workers) == 68


MAPS = {
    "blank": MapShape(2, 4, 4688, 1, 0),
    "folded": MapShape(1, 4, 1, 65536, 1),
    "goroutine_shares": MapShape(2, 4, 8, 1024, 1024),
    "goroutines": MapShape(1, 16, 208, 65536, 1),
    "goroutines_taken": MapShape(2, 4, 8, 1024, 1024),
    "hits": MapShape(2, 4, 32, 1024, 1024),
    "libraries": MapShape(2, 4, 980, 256, 0),
    "no_session_program": MapShape(3, 4, 4, 1, 0),
    "no_uprobe_program": MapShape(3, 4, 4, 1, 0),
    "other_series": MapShape(1, 8, 4688, 1, 0),
    "overflow": MapShape(1, 16, 24, 16384, 0),
    "processes": MapShape(1, 4, 16, 256, 0),
    "raised": MapShape(9, 4, 8, 4096, 0),
    "series": MapShape(1, 8, 4688, 2048, 0),
    "shares": MapShape(2, 4, 8, 1024, 1024),
    "sides": MapShape(2, 4, 8, 4096, 0),
    "starts": MapShape(2, 4, 24, 16384, 1024),
    "targets": MapShape(2, 4, 16, 65536, 1024),
}
