# SPDX-License-Identifier: Apache-2.0
"""kTLS: connections whose records the kernel makes, in this network namespace, by the kernel's statistics of them."""

from __future__ import annotations

from pathlib import Path

from ssllatency.host.kernel_text import lines_in
from ssllatency.targets.processes import PROC

_LONGEST = 1 << 14  # characters; the file has about 500
_NOW = ("TlsCurrTxSw", "TlsCurrTxDevice")  # by the processor, and by a network card


def kernel_tls(proc: Path = PROC) -> str:
    """A sentence on such connections; "" where there are none, or the kernel can't have any."""
    try:
        with (proc / "net" / "tls_stat").open(encoding="ascii", errors="replace", newline="\n") as file:
            lines = [line.split() for line in lines_in(file.read(_LONGEST))]
    except OSError:
        return ""
    number = sum(int(words[1]) for words in lines if len(words) == 2 and words[0] in _NOW and words[1].isdecimal())
    if not number:
        return ""
    return (
        f"The kernel encrypts what {number} {'connections' if number > 1 else 'connection'} of this network namespace"
        f" {'send' if number > 1 else 'sends'} (kTLS): bytes that a program sends past the calls of its library, as by"
        " sendfile or splice, aren't seen. /proc/net/tls_stat tells how many connections there are."
    )
