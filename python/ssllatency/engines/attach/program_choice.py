# SPDX-License-Identifier: Apache-2.0
"""The programs of an object that are loaded for an attachment, each for the kind of link that will attach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssllatency.engines.attach.probing import STANDARD, Programs
from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.loadable import Loadable


@dataclass(frozen=True)
class ProgramChoice:
    """Programs by what they are attached to: `functions` at sites of operations, `more` at other sites, and `tracepoints`."""

    functions: Programs = STANDARD
    more: Sequence[str] = ()
    tracepoints: Sequence[str] = ()

    def choose(self, opened: Loadable, method: kernel.Method, images: Sequence[TracedImage], *, later: bool) -> list[str]:
        """Has those loaded that these images need, `later`: and any that come. Says which of them are for probes. What a
        program may be attached with is settled when it is loaded."""
        multi = 0 if method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI
        used = dict.fromkeys((*self.functions.at_sites(images, later=later), *self.more), multi)
        used |= dict.fromkeys(self.tracepoints, 0)
        if method is kernel.Method.SESSION:
            used[self.functions.both] = kernel.TRACE_UPROBE_SESSION
        else:
            used[self.functions.at_return] = multi
        for name in opened.program_names():
            opened.choose_program(name, load=name in used, attach_type=used.get(name, 0))
        return [name for name in opened.program_names() if name in used and name not in self.tracepoints]
