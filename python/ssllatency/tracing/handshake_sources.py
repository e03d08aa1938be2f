# SPDX-License-Identifier: Apache-2.0
"""Sources of handshakes, as the options ask for them: common to all commands that measure them."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ssllatency.engines.clock import process_clock_ns
from ssllatency.engines.sessions.handshake_request import HandshakeRequest, Singles
from ssllatency.engines.sessions.handshake_sites import watched
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.engines.source import Ability, HandshakeSource
from ssllatency.targets.sockets import listening
from ssllatency.targets.sockets.accept_queues import AcceptQueues
from ssllatency.tracing import live
from ssllatency.tracing.certificates.process import read_certificates
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.resolve import Resolved

if TYPE_CHECKING:
    from ssllatency.engines.sessions.full import FullSession


def load_ahead(resolved: Resolved, arguments: argparse.Namespace) -> None:
    """Begins to load the programs of a HandshakeSession, of whose files nothing is known yet."""
    HandshakeSession(request_for(resolved, arguments)).load_ahead()


def attach(
    wanted: Ability,
    resolved: Resolved,
    arguments: argparse.Namespace,
    stack: ExitStack,
    *,
    one_by_one: bool = False,
    has_links_option: bool = True,
) -> tuple[HandshakeSource, Follower]:
    """A source of handshakes that can do what is wanted and measures what the options ask for, attached as long as `stack`; and
    who follows what comes later. `one_by_one`: the options are those of `snoop`. `has_links_option`: as for Follower."""
    source = source_of(wanted, (request_one_by_one if one_by_one else request_for)(resolved, arguments))
    stack.callback(source.close)
    source.attach()
    return source, Follower(source, resolved, stack, has_links_option=has_links_option)


def attach_useful(
    resolved: Resolved, arguments: argparse.Namespace, stack: ExitStack, *, functions: bool
) -> tuple[HandshakeSource, Follower, str]:
    """Attach as attach() does; and what is measured, in words. Functions are where they are asked for, as reads and writes get
    probes by them, and where no handshake of what is there by now can be seen."""
    seen = not resolved.images or any(image.plan.operations for image in watched(resolved.images, resolved.images))
    if seen and not functions:
        return *attach(Ability.HANDSHAKES, resolved, arguments, stack), "handshakes"
    return *attach(Ability.FUNCTIONS | Ability.HANDSHAKES, resolved, arguments, stack), "functions and handshakes"


def source_of(wanted: Ability, request: HandshakeRequest) -> HandshakeSession | FullSession:
    """The source for a request that can do what is wanted, and least beyond."""
    if wanted in HandshakeSession.abilities:
        return HandshakeSession(request)
    from ssllatency.engines.sessions.full import FullSession  # which handshakes alone don't need

    assert wanted in FullSession.abilities
    return FullSession(request)


def request_for(resolved: Resolved, arguments: argparse.Namespace) -> HandshakeRequest:
    """The request for what the options ask for."""
    return replace(
        _request(resolved, arguments),
        by=arguments.by,
        most_rows=arguments.max_groups,
        slowest=arguments.slowest,
        singles=None if arguments.over is None else Singles(arguments.over),
        in_flight=arguments.max_in_flight,
        accept_queues=AcceptQueues(clock_ns=process_clock_ns).read,
        read_certificates=read_certificates,
        totals=getattr(arguments, "totals", True),
    )


def request_one_by_one(resolved: Resolved, arguments: argparse.Namespace) -> HandshakeRequest:
    """The request for what the options of `snoop` ask for: nothing but handshakes one by one."""
    singles = Singles(arguments.min, arguments.by, ring_bytes=arguments.buffer << 10)
    return replace(_request(resolved, arguments), singles=singles)


def _request(resolved: Resolved, arguments: argparse.Namespace) -> HandshakeRequest:
    return HandshakeRequest(
        base=live.request(resolved, arguments),
        peer_prefix=arguments.peer_prefix,
        blocking=listening.blocks({pid for image in resolved.images for pid in image.pids}),
    )
