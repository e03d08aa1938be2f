# SPDX-License-Identifier: Apache-2.0
"""Sessions that measure handshakes, as the options ask for them: what `handshakes`, `record` and `load` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import TypeVar

from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.full import FullSession
from ssllatency.engines.sessions.handshake_request import HandshakeRequest, Singles
from ssllatency.engines.sessions.handshakes import HandshakeSession
from ssllatency.stacks.names import Names, join
from ssllatency.targets.sockets import listening
from ssllatency.targets.sockets.accept_queues import AcceptQueues
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.tracing.resolve import Resolved

S = TypeVar("S", HandshakeSession, FullSession)


def load_ahead(resolved: Resolved, arguments: argparse.Namespace) -> None:
    """Begins to load the programs of a HandshakeSession, of whose files nothing is known yet."""
    HandshakeSession(request_for(resolved, (), arguments)).load_ahead()


def attach(
    kind: type[S],
    resolved: Resolved,
    arguments: argparse.Namespace,
    stack: ExitStack,
    *,
    one_by_one: bool = False,
    has_links_option: bool = True,
) -> tuple[S, Follower]:
    """A session that measures what the options ask for, attached as long as `stack`; and who follows what comes later.
    `one_by_one`: the options are those of `snoop`. `has_links_option`: as for Follower."""
    images = list(resolved.images)
    request = (request_one_by_one if one_by_one else request_for)(resolved, images, arguments)
    session = kind(request)
    stack.callback(session.close)
    session.attach()

    def extend(later: Sequence[TracedImage]) -> None:
        session.extend(later, [resolved.source.handshake_plan_of(image) for image in later])
        images.extend(later)

    return session, Follower(session, resolved, stack, extend, has_links_option=has_links_option)


def request_for(resolved: Resolved, images: Sequence[TracedImage], arguments: argparse.Namespace) -> HandshakeRequest:
    """What the options ask for, of these images, which may grow."""
    return replace(
        _request(resolved, images, arguments),
        by=arguments.by,
        most_rows=arguments.max_groups,
        slowest=arguments.slowest,
        singles=None if arguments.over is None else Singles(arguments.over),
        in_flight=arguments.max_in_flight,
        accept_queues=AcceptQueues().read,
    )


def request_one_by_one(resolved: Resolved, images: Sequence[TracedImage], arguments: argparse.Namespace) -> HandshakeRequest:
    """What the options of `snoop` ask for: nothing but handshakes one by one."""
    singles = Singles(arguments.min, arguments.by, ring_bytes=arguments.buffer << 10)
    return replace(_request(resolved, images, arguments), singles=singles)


def _request(resolved: Resolved, images: Sequence[TracedImage], arguments: argparse.Namespace) -> HandshakeRequest:
    return HandshakeRequest(
        base=live.request(resolved, arguments),
        plans=tuple(resolved.source.handshake_plan_of(image) for image in images),
        names=_names_of(images, resolved.source),
        peer_prefix=arguments.peer_prefix,
        blocking=listening.blocks({pid for image in images for pid in image.pids}),
    )


def _names_of(images: Sequence[TracedImage], source: PlanSource) -> Callable[[int], Names]:
    """The names of an image's codes: its own, and those of the other libraries that its processes map. Read when needed.

    `images` may grow.
    """

    @cache
    def own(index: int) -> Names:
        return source.names_of(images[index])

    @cache
    def joined(index: int) -> Names:
        names: Names
        names, pids = own(index), set(images[index].pids)
        for other, image in enumerate(images):
            if other != index and pids & set(image.pids):
                names = join(names, own(other))
        return names

    return joined
