# SPDX-License-Identifier: Apache-2.0
"""The programs of an object that are loaded for an attachment, each for the kind of link that will attach it."""

from __future__ import annotations

from collections.abc import Sequence

from ssllatency.data_class import dataclass
from ssllatency.engines.attach.probing import STANDARD, Programs
from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.loadable import Loadable

# Programs for what few files need. The verifier takes some 10 ms over each, of a processor that a busy server has no use of.
_RETURNS, _GO, _SIGNING, _READS = "return probes", "Go", "signing", "reads"
_QUIC, _DATAGRAMS = "QUIC", "datagrams"
_OF_GO_HANDSHAKES = ("at_go_phase", "at_go_phase_end", "at_go_collection", "at_go_collection_end", "at_go_certificate")
TRACEPOINTS_OF_GO = ("at_receive", "at_send")
TRACEPOINTS_OF_QUIC = (PACKETS, DATAGRAMS) = ("at_packet", "at_datagram")
PROGRAMS_OF_QUIC = ("at_message", "at_parameters", "at_go_parameters")
TRACEPOINTS_ON_DEMAND = (*TRACEPOINTS_OF_GO, *TRACEPOINTS_OF_QUIC, "at_read")
_GROUPS = {
    **dict.fromkeys((STANDARD.at_return, STANDARD.both), _RETURNS),
    "at_signing": _SIGNING,
    **dict.fromkeys((STANDARD.go_entry, STANDARD.go_exit, STANDARD.go_leaving, *_OF_GO_HANDSHAKES), _GO),
    **dict.fromkeys(TRACEPOINTS_OF_GO, _GO),
    PACKETS: _QUIC,
    DATAGRAMS: _DATAGRAMS,
    **dict.fromkeys(PROGRAMS_OF_QUIC, _QUIC),
    "at_read": _READS,
}


@dataclass(frozen=True)
class ProgramChoice:
    """Programs by what they are attached to: `functions` at sites of operations, `more` at other sites, and `tracepoints`."""

    functions: Programs = STANDARD
    more: Sequence[str] = ()
    tracepoints: Sequence[str] = ()

    @property
    def tracepoints_at_once(self) -> list[str]:
        """Those that are loaded with the object, not when the first link asks for one."""
        return [name for name in self.tracepoints if name not in _GROUPS]

    def choose(self, opened: Loadable, method: kernel.Method, images: Sequence[TracedImage], *, later: bool) -> list[str]:
        """Has those loaded that these images need, `later`: and any that come; some of them when the first link asks for one.
        Says which of the others are for probes. What a program may be attached with is settled when it is loaded."""
        multi = 0 if method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI
        used = dict.fromkeys((*self.functions.at_sites(images, later=later), *self.more), multi)
        used |= dict.fromkeys(self.tracepoints, 0)
        if method is kernel.Method.SESSION:
            used[self.functions.both] = kernel.TRACE_UPROBE_SESSION
        else:
            used[self.functions.at_return] = multi
        for name in opened.program_names():
            opened.choose_program(name, load=name in used, attach_type=used.get(name, 0), group=_GROUPS.get(name, ""))
        late = {*self.tracepoints, *_GROUPS}
        return [name for name in opened.program_names() if name in used and name not in late]
