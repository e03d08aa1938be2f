# SPDX-License-Identifier: Apache-2.0
"""The default engine: the CO-RE object through libbpf, attached in the newest way that the kernel has."""

from __future__ import annotations

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.attach.probing import FLOOR, STANDARD
from ssllatency.engines.base import Request
from ssllatency.engines.sessions.trace import TraceSession


class LibbpfEngine:
    """Attaches plans by libbpf and the bpf system call."""

    name = "libbpf"
    abilities = TraceSession.abilities
    object_name = "ssllatency"

    def attach(self, request: Request) -> TraceSession:
        """Attaches all probes of the request or none."""
        attachment = Attachment(request, self.object_name, FLOOR if request.floor else STANDARD)
        session = TraceSession(attachment, self.name)
        session.attach()
        return session
