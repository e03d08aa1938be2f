# SPDX-License-Identifier: Apache-2.0
"""Requests for sessions that measure handshakes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field

from ssllatency.accept_queue import AcceptQueueReading
from ssllatency.data_class import dataclass
from ssllatency.engines.base import Request
from ssllatency.model.certificates import CertificateFacts, SignedPart
from ssllatency.model.handshakes import Label, PeerPrefix


@dataclass(frozen=True)
class Singles:
    """The handshakes that are handed over one by one as they end: those whose client waited for at least `over_ns`. `by`:
    labels of WHO that are told of them, though they tell no rows apart; `most_texts` values of each. `ring_bytes`: room for
    those that have ended and weren't taken yet."""

    over_ns: int
    by: tuple[Label, ...] = ()
    most_texts: int = 4096
    ring_bytes: int = 1 << 20


@dataclass(frozen=True)
class HandshakeRequest:
    """The measurement that is asked for: `base` says where and whom; the plans of its images have the sites of handshakes.

    `by`: labels that tell rows apart, at most `most_rows` of them. `slowest`: how many of the slowest handshakes are kept;
    `singles`: those handed over one by one, or None. `in_flight`: how many can be in flight in one process; there is room for a
    quarter more, so that others have some beside it, and of the rows it has seven eighths. `blocking`: sockets that block are
    expected, so that reads and writes are watched from the start, and not only once calls were seen to sleep. `peer_prefix`:
    what of an address tells a peer's network. `accept_queues`: gives those of processes, with what occurred since it was asked
    first; None: not known. `read_certificates`: reads the certificates that servers serve, each from what was signed of it and
    the length of its signature: None for one that is none, and nothing for one that it couldn't look at; None where they aren't
    looked at. `totals`: whether causes, keys and the mix are wanted of all processes together where they are told by process.
    """

    base: Request
    by: tuple[Label, ...] = ()
    most_rows: int = 64
    slowest: int = 0
    singles: Singles | None = None
    in_flight: int = 131072
    blocking: bool = False
    peer_prefix: PeerPrefix = field(default_factory=PeerPrefix)
    accept_queues: Callable[[Collection[int]], AcceptQueueReading] | None = None
    read_certificates: Callable[[Sequence[SignedPart]], Mapping[SignedPart, CertificateFacts | None]] | None = None
    totals: bool = True
