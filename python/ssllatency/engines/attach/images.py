# SPDX-License-Identifier: Apache-2.0
"""Files to trace, as every engine sees them: functions that are left out, connections that can't be read, files that may be
one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf.loadable import Loadable
from ssllatency.model.snapshot import Missing
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.plan import NOT_IN_LIBRARY, FilePlan, MissingOperation
from ssllatency.stacks.base import CallingConvention
from ssllatency.stacks.registry import stack_named


def not_traced(plan: FilePlan) -> tuple[Missing, ...]:
    """The operations that a file holds and that aren't traced. What this version of a library doesn't have isn't missing."""
    return tuple(
        Missing(missing.operation, plan.path, missing.reason) for missing in plan.missing if missing.reason != NOT_IN_LIBRARY
    )


def without_operations(image: TracedImage, engine: str) -> TracedImage:
    """The image without its operations, for an engine that doesn't know its stack: these are missing then, with the reason."""
    reason = f"the {engine} engine doesn't know {stack_named(image.plan.stack).title}"
    missing = [MissingOperation(planned.operation, reason) for planned in image.plan.operations]
    return replace(image, plan=replace(image.plan, operations=(), missing=(*image.plan.missing, *missing)))


def unreadable(images: Iterable[TracedImage]) -> list[str]:
    """A sentence for each file whose calls' retries and failures can't be told apart."""
    return [
        f"{stack_named(image.plan.stack).shows_waits} of {image.plan.path} can't be read, so retries and failures of its SSL"
        ' calls can\'t be told apart: they are retries of reason "unknown".'
        for image in images
        if image.plan.offsets.rwstate is None
        and stack_named(image.plan.stack).shows_waits
        and any(BY_NAME[planned.operation].ssl_argument for planned in image.plan.operations)
    ]


def is_go(image: TracedImage) -> bool:
    """Whether the functions of the file are Go's."""
    return stack_named(image.plan.stack).convention is CallingConvention.GO


def is_known_to_bcc(image: TracedImage) -> bool:
    """Whether bcc's programs know the file's stack."""
    return not (is_go(image) or stack_named(image.plan.stack).errors_in_threads)


def can_trace(loaded: Loadable, image: TracedImage) -> bool:
    """Whether an object has the programs for the functions of this file."""
    return not is_go(image) or loaded.has_map("goroutines")


def why_no_call_can_begin() -> str:
    """The sentence about processes of which no call can be seen that is looked for."""
    return (
        "these processes map no libssl, so no call of it can be seen: `ssllatency targets` says what TLS they do, and"
        " --wait waits for a libssl that is loaded later."
    )


def may_be_one_file(images: Iterable[TracedImage]) -> bool:
    """Whether two of the files may be one to the kernel (an image layer under two containers): probes for everyone on each of
    them would count a call twice."""
    return any(one.plan.may_be(other.plan) for one, other in combinations(images, 2))
