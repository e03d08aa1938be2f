# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel accepts the BPF programs: each object is loaded as its commands load it, and freed again."""

from __future__ import annotations

from functools import cache

from ssllatency.engines.attach.probing import FLOOR, STANDARD
from ssllatency.engines.bpf import kernel
from ssllatency.engines.bpf.libbpf import BpfObject
from ssllatency.engines.bpf.objects import open_object
from ssllatency.errors import SsllatencyError

OBJECTS = ("ssllatency", "handshakes", "snoop", "follow")
_SESSIONS = (STANDARD.both, FLOOR.both)


def attach_types(opened: BpfObject, method: kernel.Method) -> dict[str, int]:
    """The programs of an object that serve a way of attaching, each with the type (BPF_TRACE_*) that it is loaded for."""
    multi = 0 if method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI
    types = {name: multi if opened.section_of(name).startswith("u") else 0 for name in opened.program_names()}
    for name in _SESSIONS:
        if types.pop(name, None) is not None and method is kernel.Method.SESSION:
            types[name] = kernel.TRACE_UPROBE_SESSION
    return types


def load(opened: BpfObject, method: kernel.Method) -> dict[str, int]:
    """Loads what serves the way of attaching: the types of what is loaded. SsllatencyError where the kernel refuses."""
    types = attach_types(opened, method)
    for name in opened.program_names():
        opened.choose_program(name, load=name in types, attach_type=types.get(name, 0))
    opened.load()
    return types


@cache
def refusal() -> str:
    """Return why the kernel refuses the programs, in a sentence; "" where it accepts them."""
    try:
        for name in OBJECTS:
            with open_object(name) as opened:
                load(opened, kernel.best_method())
    except SsllatencyError as error:
        return str(error)
    return ""
