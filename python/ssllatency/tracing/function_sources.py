# SPDX-License-Identifier: Apache-2.0
"""The source of calls by function that `trace` reads, as its options ask for it, by whichever engine."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.engines import choice
from ssllatency.engines.source import Ability, Source, can_follow
from ssllatency.tracing import live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.resolve import Resolved


def attach(
    engine_name: str, resolved: Resolved, arguments: argparse.Namespace, stack: ExitStack
) -> tuple[Source, Follower | None]:
    """A source of calls by the engine of that name, attached as long as `stack`; and who follows what comes later, None where
    the engine can't. SsllatencyError also where it can't keep the budget."""
    engine = choice.engine(engine_name)
    request = replace(
        live.request(resolved, arguments),
        linear=arguments.hist,
        maximum_processes=arguments.max_processes,
        floor=arguments.floor,
    )
    if arguments.budget is not None and Ability.BUDGET not in engine.abilities:
        from ssllatency.tracing.forecast import refuse_beyond

        refuse_beyond(engine.name, arguments.budget, resolved, request.hit_costs() if request.hit_costs else None)
    source = engine.attach(request)
    stack.callback(source.close)
    return source, Follower(source, resolved, stack) if can_follow(source) else None
