# SPDX-License-Identifier: Apache-2.0
"""Sessions that keep within a budget: their windows, and how the kernel's refusal ends these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.base import AttachError
from ssllatency.engines.budget.accounts import Totals
from ssllatency.engines.budget.gates import Gates
from ssllatency.engines.budget.windows import Windows
from ssllatency.stacks.operation import Tier


def windows_of(
    attachment: Attachment,
    budget: float,
    gates: Gates | None = None,
    totals: Callable[[], Totals] = dict,
    tiers: Sequence[Tier] = tuple(Tier),
) -> Windows:
    """The windows of an attachment, to be started when all is attached but what it holds back. `gates`: other ones than the
    attachment itself; `totals` and `tiers` as for Windows."""
    processes = attachment.processes
    return Windows(
        *(budget, gates or attachment, processes.spent, totals),
        tiers=tiers,
        work=processes.work,
        spent_unhit=processes.spent_unhit,
        bursts=processes.bursts,
        again=attachment.can_set_again,
        tool_ns=processes.tool_ns,
        attach_ns=processes.attach_ns,
    )


@contextmanager
def ending_if_refused(windows: Windows | None, attachment: Attachment) -> Iterator[None]:
    """End the windows where the kernel refuses to set probes again within: the run goes on with a note of that."""
    try:
        yield
    except AttachError as error:
        if windows:
            windows.finish()
        attachment.notes.append(f"What was watched in windows isn't watched any more: {error}")
