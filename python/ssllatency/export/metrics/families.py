# SPDX-License-Identifier: Apache-2.0
"""The table of all metrics. A name is OpenTelemetry's; Prometheus' follows from it by the rules that its own OTLP receiver has,
so that a metric is called the same whichever way it comes."""

from __future__ import annotations

from enum import StrEnum

from ssllatency.data_class import dataclass


class MetricKind(StrEnum):
    """The kind of a metric's points."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Family:
    """Metrics of one name. `unit` is UCUM's, as in OpenTelemetry: "s", "By", "1" for a ratio, "{call}" for what is counted.
    `labels`: beside those of the service, where `by_service`. `adds`: the sum of several series
    means something."""

    name: str
    kind: MetricKind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    by_service: bool = False
    adds: bool = True

    @property
    def prometheus_unit(self) -> str:
        """The unit as Prometheus spells it, "" for what is no base unit there."""
        return {"s": "seconds", "By": "bytes"}.get(self.unit, "")

    @property
    def prometheus_name(self) -> str:
        """The name in Prometheus, with its unit and the suffix of counters."""
        words = [self.name.replace(".", "_")]
        if self.prometheus_unit:
            words.append(self.prometheus_unit)
        if self.kind is MetricKind.COUNTER:
            words.append("total")
        if self.unit == "1":
            words.append("ratio")
        return "_".join(words)


# Attributes: OpenTelemetry's where it has them. Prometheus' labels have underscores instead of the points.
SERVICE, COMM = "service", "comm"
CONTAINER_ID, CONTAINER_NAME, IMAGE = "container.id", "container.name", "container.image.name"
NAMESPACE, POD, POD_UID, POD_CONTAINER = "k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid", "k8s.container.name"
OF_SERVICE = (SERVICE, COMM, CONTAINER_ID, CONTAINER_NAME, IMAGE, NAMESPACE, POD, POD_UID, POD_CONTAINER)
OUTCOME, FUNCTION, REASON, PHASE, WAIT, KIND, PART = "outcome", "function", "reason", "phase", "wait", "kind", "part"
EVENT = "event"
PROTOCOL, VERSION, RESUMED = "tls.protocol.name", "tls.protocol.version", "tls.resumed"
CIPHER, CURVE, ALERT, SENT, STATE = "tls.cipher", "tls.curve", "tls.alert", "tls.alert.sent", "tls.state"
PEER_LEFT, UNDELIVERED = "tls.peer.left", "tls.peer.undelivered"
ERROR, OPERATION, KEY, LANES, PAYER, RESULT = "error.type", "operation", "key", "lanes", "payer", "result"
PORT, SUBJECT, SERVER_NAME = "server.port", "tls.server.subject", "tls.client.server_name"
OVERFLOW = "otel.metric.overflow"

C, G, H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_OF_HANDSHAKE = (OUTCOME, PROTOCOL, VERSION, RESUMED)

FAMILIES = (
    Family("ssllatency.handshake.duration", H, "s", "Handshakes from their first call to their end.", _OF_HANDSHAKE, True),
    Family("ssllatency.handshake.client_wait", H, "s",
           "How long clients waited for handshakes, from their ClientHello's arrival.", (OUTCOME,), True),
    Family("ssllatency.handshake.calls", H, "s", "The part of handshakes inside the library's calls.", _OF_HANDSHAKE, True),
    Family("ssllatency.handshake.phase", H, "s", "Time in each phase, of handshakes that had it.",
           (PHASE, OUTCOME), True),
    Family("ssllatency.handshake.unphased", C, "{handshake}",
           "Handshakes in which no phase but the private key's was watched, to keep within the budget: the others are in rest.",
           (OUTCOME,), True),
    Family("ssllatency.handshake.wait", H, "s", "Time in each wait, of handshakes that had it.",
           (WAIT, OUTCOME), True),
    Family("ssllatency.handshake.queue", H, "s",
           "How long clients' bytes lay in the server's sockets: in all, before the first call, and by what the thread did.",
           (PART, OUTCOME), True),
    Family("ssllatency.handshake.peer", H, "s",
           "More of the peer's part: the wait for its ClientHello before the first call; what round trips and losses explain of"
           " later waits; calls that began after it had left.", (PART, OUTCOME), True),
    Family("ssllatency.handshake.processor", H, "s",
           "Time in calls with and without a processor; without one: ready to run, of that held by a CPU quota; asleep in"
           " rest.", (PART, OUTCOME), True),
    Family("ssllatency.handshake.sockets", C, "{handshake}",
           "Handshakes whose TCP socket was seen: flights, retransmissions and events of the connection are of these.",
           (OUTCOME,), True),
    Family("ssllatency.handshake.flights", C, "{flight}", "Flights of the peer that handshakes waited for.", (OUTCOME,), True),
    Family("ssllatency.handshake.largest_flight", C, "By", "Bytes of the largest flight that this side sent in each handshake.",
           (OUTCOME,), True),
    Family("ssllatency.handshake.retransmissions", C, "{segment}",
           "Segments that this side sent again while it waited for its peer.", (OUTCOME,), True),
    Family("ssllatency.handshake.connection.events", C, "{handshake}",
           "Handshakes whose connection had this: a flight larger than the congestion window, a loss, a peer that left.",
           (EVENT, OUTCOME), True),
    Family("ssllatency.handshake.hello_retries.known", C, "{handshake}",
           "Handshakes of which it is known whether a HelloRetryRequest was sent.", (OUTCOME,), True),
    Family("ssllatency.handshake.hello_retries", C, "{handshake}", "Handshakes in which a HelloRetryRequest was sent.",
           (OUTCOME,), True),
    Family("ssllatency.handshake.quic_retries.known", C, "{handshake}",
           "Servers' handshakes over QUIC of which it is known whether their client was answered with a Retry first.",
           (OUTCOME,), True),
    Family("ssllatency.handshake.quic_retries", C, "{handshake}",
           "Servers' handshakes over QUIC whose client was answered with a Retry first, to validate its address: a round trip"
           " more, which is in no time of theirs.", (OUTCOME,), True),
    Family("ssllatency.handshake.session_offers", C, "{handshake}",
           "Successful handshakes whose client is known to have offered a session.", (), True),
    Family("ssllatency.handshake.session_refusals", C, "{handshake}",
           "Successful handshakes that offered a session and weren't resumed: the ticket was refused, or the session wasn't in"
           " the cache.", (REASON,), True),
    Family("ssllatency.handshake.errors", C, "{handshake}", "Handshakes that failed or were abandoned, by cause.",
           (OUTCOME, ERROR, ALERT, SENT, STATE, PEER_LEFT, UNDELIVERED), True),
    Family("ssllatency.handshake.ciphers", C, "{handshake}", "Successful handshakes by cipher suite.", (CIPHER,), True),
    Family("ssllatency.handshake.curves", C, "{handshake}", "Successful handshakes by group of the key exchange.",
           (CURVE,), True),
    Family("ssllatency.certificate.not_after_timestamp", G, "s",
           "When the first certificate served at a port under a name expires, in seconds since the Unix epoch.",
           (PORT, SUBJECT, KEY, SERVER_NAME), True, adds=False),
    Family("ssllatency.accept_queue.overflows", C, "{connection}",
           "How often a connection found an accept queue of the traced servers full; its client tries again later."),
    Family("ssllatency.accept_queue.untold", C, "{connection}",
           "How often an accept queue was full of which it isn't known whether it was one of the traced servers'."),
    Family("ssllatency.handshake.in_flight", G, "{handshake}", "Handshakes that have begun and not ended."),
    Family("ssllatency.private_key.operations", C, "{operation}", "Private-key operations of successful handshakes.",
           (OPERATION, KEY), True),
    Family("ssllatency.private_key.time", C, "s", "Time in private-key operations of successful handshakes.",
           (OPERATION, KEY), True),
    Family("ssllatency.call.duration", H, "s", "Calls of the TLS library.", (FUNCTION, OUTCOME), True),
    Family("ssllatency.call.retries", C, "{call}", "Calls that have to be made again, by what they wait for.",
           (FUNCTION, REASON), True),
    Family("ssllatency.call.failures", C, "{call}", "Calls that failed, by reason.", (FUNCTION, REASON), True),
    Family("ssllatency.call.in_flight", G, "{call}", "Calls that run now."),
    Family("ssllatency.offload.wait", H, "s", "Waits for an offload: its work until completion, then until the next call.",
           (PART, OUTCOME), True),
    Family("ssllatency.offload.waiting", G, "{handshake}", "Handshakes that wait for an offload now."),
    Family("ssllatency.offload.pauses", C, "{pause}", "Pauses of handshakes for an offload."),
    Family("ssllatency.offload.handshakes", C, "{handshake}", "Handshakes that paused for an offload."),
    Family("ssllatency.offload.software", C, "{operation}", "Private-key operations that OpenSSL did itself instead."),
    Family("ssllatency.offload.unseen", C, "{wait}", "Waits for an offload whose completion wasn't seen."),
    Family("ssllatency.offload.batches", C, "{batch}", "Calls of multi-buffer functions.", (FUNCTION,)),
    Family("ssllatency.offload.lanes", C, "{lane}", "Lanes of batches, used and empty.", (FUNCTION, LANES)),
    Family("ssllatency.overhead", G, "1", "The part of the traced processes' CPU that tracing took since the last reading."),
    Family("ssllatency.overhead.cpu", C, "s", "CPU time that tracing took, by who paid for it.", (PAYER,)),
    Family("ssllatency.traced.cpu", C, "s", "CPU time of the traced processes."),
    Family("ssllatency.observed", G, "1", "The part of the time for which a function was watched.", (FUNCTION,)),
    Family("ssllatency.losses", C, "{loss}", "What should have been counted and was not.", (KIND,)),
    Family("ssllatency.targets", G, "{process}", "Processes that are traced now.", (), True),
    Family("ssllatency.targets.refused", C, "{target}", "Processes and files that could not be traced, or not any more."),
    Family("ssllatency.targets.spared", G, "{process}", "Processes without probes: they opted out, or changed the code."),
    Family("ssllatency.series", G, "{series}", "Series in this exposition."),
    Family("ssllatency.series.dropped", C, "{series}", "Series without room: they count in the overflow series or as `other`."),
    Family("ssllatency.reading", G, "s", "How long the last reading of the counts took."),
    Family("ssllatency.otlp.requests", C, "{request}", "Requests to the OTLP receiver, by result.", (RESULT,)),
    Family("ssllatency.otlp.rejected", C, "{point}", "Data points that the OTLP receiver rejected."),
    Family("ssllatency.build.info", G, "", "Always 1; labels say what runs here.", ("version", "engine", "kernel")),
)  # fmt: skip
BY_NAME = {family.name: family for family in FAMILIES}
# Counters whose values are whole nanoseconds until they are written, in seconds: sums of floats depend on their order, and may
# fall by their last digit when a process ends, which would be a reset.
IN_NANOSECONDS = frozenset(family.name for family in FAMILIES if family.kind is C and family.unit == "s")
