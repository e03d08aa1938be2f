# SPDX-License-Identifier: Apache-2.0
"""Reads and writes that don't go through SSL_read and SSL_write: those of a BIO that holds an SSL (BIO_f_ssl), as `openssl
s_server -www` and OpenVPN have it. Its functions call what SSL_read and SSL_write call as well, and that call is made only by
them: programs without such a BIO never reach it.
"""

from __future__ import annotations

from dataclasses import replace

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Emulation, Flow, Machine
from ssllatency.code.returns import returned_address
from ssllatency.elf.image import Image
from ssllatency.probes.handshake.error_sites import probe_at
from ssllatency.probes.handshake.plan import InnerCall
from ssllatency.probes.plan import Role
from ssllatency.probes.sites.brackets import begin_site, value_site

# bio_method_st of include/internal/bio.h, since OpenSSL 1.1.1: int type, char *name, bwrite, bwrite_old, bread, …
_SLOTS = {"SSL_read": ("ssl_read_internal", 32), "SSL_write": ("ssl_write_internal", 16)}


def inner_calls(image: Image, machine: Machine, bodies: Bodies, emulation: Emulation) -> tuple[InnerCall, ...]:
    """The calls, none where the library has no such BIO. Unplannable with the reason."""
    maker = image.function("BIO_f_ssl")
    if maker is None:
        return ()
    table = returned_address(image, maker.address)
    if table is None:
        raise Unplannable("BIO_f_ssl doesn't simply return its table of functions")
    calls = []
    for outer, (name, slot) in _SLOTS.items():
        start = image.pointer(table + slot)
        if start is None or not image.executable(start):
            raise Unplannable(f"the table of BIO_f_ssl has no function at {slot}")
        calls.append(_call(image, machine, bodies, emulation, outer, name, start))
    return tuple(calls)


def _call(image: Image, machine: Machine, bodies: Bodies, emulation: Emulation, outer: str, name: str, start: int) -> InnerCall:
    graph = bodies.graph(start)
    common = _inner(image, bodies, outer, name)
    sites = [node.address for node in graph.nodes.values() if node.flow is Flow.CALL and node.target in common]
    if len(sites) != 1:
        raise Unplannable(f"{len(sites) or 'no'} calls in the functions of BIO_f_ssl are of what {outer} calls, where one is")
    begin = begin_site(graph, sites[0], frozenset((machine.argument_registers[0],)), frozenset(), emulation)
    end = value_site(graph, sites[0], machine.result_register, emulation)
    return InnerCall(
        function=outer,
        begin=probe_at(image, begin.site, Role.ENTRY),
        end=replace(probe_at(image, end, Role.EXIT), return_register=machine.result_register),
    )


def _inner(image: Image, bodies: Bodies, outer: str, name: str) -> set[int]:
    """Where the functions begin that may be it: the one of that name, else all that the outer one calls."""
    named, calling = image.function(name), image.function(outer)
    if named:
        return {named.address}
    if calling is None:
        raise Unplannable(f"the library has no {outer}")
    nodes = bodies.graph(calling.address, calling.size).nodes.values()
    return {node.target for node in nodes if node.flow in (Flow.CALL, Flow.JUMP) and node.target is not None}
