# SPDX-License-Identifier: Apache-2.0
"""The source of calls one by one, as the options of `snoop` ask for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.snoop import RING_BYTES, EventFilter, SnoopSession, Whom
from ssllatency.errors import SsllatencyError, did_you_mean
from ssllatency.model.snapshot import Outcome
from ssllatency.probes.choice import chosen
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.resolve import Resolved

__all__ = ["RING_BYTES", "attach", "only"]


def attach(resolved: Resolved, arguments: argparse.Namespace, stack: ExitStack) -> tuple[SnoopSession, Follower]:
    """A source of the calls that the options choose, attached as long as `stack`; and who follows what comes later."""
    event_filter = EventFilter(arguments.min, frozenset(map(Outcome, arguments.outcome or Outcome)))
    whom = Whom(arguments.by, arguments.peer_prefix) if arguments.by else None
    session = SnoopSession(live.request(resolved, arguments), event_filter, arguments.buffer << 10, whom)
    stack.callback(session.close)
    session.attach()
    return session, Follower(session, resolved, stack, lambda images: session.extend(_chosen(arguments.function, images)))


def only(patterns: list[str] | None, resolved: Resolved) -> Resolved:
    """The functions that the user named, and only the files that contain any of them."""
    if not patterns:
        return resolved
    parts = [(_chosen(patterns, [image]), file) for image, file in zip(resolved.images, resolved.files, strict=True)]
    images = tuple(image for kept, _ in parts for image in kept)
    if not images:
        names = {planned.operation for image in resolved.images for planned in image.plan.operations}
        raise SsllatencyError(
            f"no function that is traced here matches {' or '.join(patterns)}: {did_you_mean(patterns[0], names)}"
            "`ssllatency probes` lists them."
        )
    return replace(resolved, images=images, files=tuple(file for kept, file in parts if kept))


def _chosen(patterns: list[str] | None, images: Sequence[TracedImage]) -> list[TracedImage]:
    """The functions that the user named, and only the images that contain any of them."""
    if not patterns:
        return list(images)
    parts = (replace(image, plan=chosen(image.plan, patterns)) for image in images)
    return [image for image in parts if image.plan.operations]
