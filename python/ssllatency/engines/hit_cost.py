# SPDX-License-Identifier: Apache-2.0
"""The cost of a hit of a probe on this machine, measured on code of our own in this process.

A loop of a few instructions lies in a file that only exists in memory; one of them is probed by a program that does nothing,
and what an iteration takes longer for it is the cost of a hit. It depends on the processor, on the hypervisor and on the
kernel's mitigations, so no table of another machine tells it: a trap takes 0.2 us on one and 0.9 us on another.

A server does other work between two hits, which pushes the kernel's way to the program out of the nearest caches. So hits are
measured as well that come after a message through a socket and after a quarter of a MiB of memory was copied.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from statistics import fmean, median
from threading import Thread

from ssllatency.data_class import dataclass
from ssllatency.engines.bpf import kernel, perf
from ssllatency.engines.bpf.loadable import Closable
from ssllatency.host.kernel import release
from ssllatency.probes.costs import REFERENCE, HitCosts

_ITERATIONS = 200  # of a batch
_ITERATIONS_SINGLE_STEPPED = 20  # the same where each takes several times as long
_BATCHES = 16  # of each loop, in turn with those of the others; the fastest counts, as the one that was disturbed least
_MESSAGE, _COPIED = 1 << 10, 256 << 10  # bytes: the work between two hits
_AREAS, _HITS_OF_AREA = 8, 40  # where memory lies tells how much of the caches it takes, so several areas are tried
APART = 64  # bytes from one loop to the next: a cache line

_Function = Callable[[int], object]


class Hit(StrEnum):
    """The kinds of work that the kernel does at a hit."""

    OPTIMISED = "optimised"
    EMULATED = "emulated"
    SINGLE_STEPPED = "single-stepped"
    ENTRY_AND_RETURN = "entry and return"


@dataclass(frozen=True)
class Loop:
    """A function that runs an instruction as many times as its argument says; where that lies, from its beginning; how many
    times it is to run it at once."""

    code: bytes
    site: int
    at_return: bool = False
    iterations: int = _ITERATIONS


LOOPS: Mapping[str, Mapping[Hit, Loop]] = {
    "x86_64": {
        # nopl 0(%rax,%rax); dec %rdi; jnz; ret
        Hit.OPTIMISED: Loop(bytes.fromhex("0f1f440000 48ffcf 75f6 c3"), 0),
        # push %rax; pop %rax; dec %rdi; jnz; ret
        Hit.EMULATED: Loop(bytes.fromhex("50 58 48ffcf 75f9 c3"), 0),
        Hit.SINGLE_STEPPED: Loop(bytes.fromhex("50 58 48ffcf 75f9 c3"), 2, iterations=_ITERATIONS_SINGLE_STEPPED),
        # call to the push; dec %rdi; jnz; ret; push %rax; pop %rax; ret
        Hit.ENTRY_AND_RETURN: Loop(bytes.fromhex("e806000000 48ffcf 75f6 c3 50 58 c3"), 11, at_return=True),
    },
    "aarch64": {
        # nop; subs x0, x0, #1; b.ne; ret
        Hit.EMULATED: Loop(bytes.fromhex("1f2003d5 000400f1 c1ffff54 c0035fd6"), 0),
        Hit.SINGLE_STEPPED: Loop(
            bytes.fromhex("1f2003d5 000400f1 c1ffff54 c0035fd6"), 4, iterations=_ITERATIONS_SINGLE_STEPPED
        ),
        # mov x9, x30; bl to the nop; subs x0, x0, #1; b.ne; mov x30, x9; ret; nop; ret
        Hit.ENTRY_AND_RETURN: Loop(
            bytes.fromhex("e9031eaa 05000094 000400f1 c1ffff54 fe0309aa c0035fd6 1f2003d5 c0035fd6"), 24, at_return=True
        ),
    },
}


def measure(method: kernel.Method, *, returns: bool = True) -> HitCosts:
    """Measure the cost of a hit when attached by `method`, with a program that does nothing. Takes some 40 ms, 10 of them to
    attach. To detach the kernel takes 30, waiting: that goes on once the answer is there. OSError where it refuses to attach,
    KeyError for a processor that isn't supported.

    `returns`: whether return probes may be tried; else their cost is that of the reference. Where the kernel has no cheaper
    way for nops, they cost what other emulated sites do. A session's hits are those of multi: the kernel takes the same way
    to them.
    """
    loops = {hit: loop for hit, loop in LOOPS[os.uname().machine].items() if _has(hit, method)}
    if not returns:
        loops.pop(Hit.ENTRY_AND_RETURN)
    codes = [loop.code for loop in loops.values()]
    with _mapped([*codes, loops[Hit.EMULATED].code]) as (path, (*functions, unprobed)):
        plain_ns = _iterations_ns(functions, list(loops.values()))
        with _attached(path, list(loops.values()), method):
            probed_ns = _iterations_ns(functions, list(loops.values()))
            after_work_ns = _after_work_ns(functions[list(loops).index(Hit.EMULATED)], unprobed)
    ns = {hit: round(probed - plain) for hit, probed, plain in zip(loops, probed_ns, plain_ns, strict=True)}
    emulated = ns[Hit.EMULATED]
    return HitCosts(
        optimised=ns.get(Hit.OPTIMISED, emulated),
        emulated=emulated,
        single_stepped=ns[Hit.SINGLE_STEPPED],
        returning=ns[Hit.ENTRY_AND_RETURN] - emulated if returns else REFERENCE.returning,
        after_work=max(0, round(after_work_ns) - emulated),
    )


def _has(hit: Hit, method: kernel.Method) -> bool:
    """Only Linux 6.18 and later make a call of the trap of a 5-byte nop."""
    return hit is not Hit.OPTIMISED or (release() >= (6, 18, 0) and method is not kernel.Method.PERF)


def _iterations_ns(functions: Sequence[_Function], loops: Sequence[Loop]) -> list[float]:
    """The time of an iteration of each."""
    for function in functions:
        function(_ITERATIONS_SINGLE_STEPPED)  # brings in its page, and lets the kernel optimise the site
    batches = ([_batch_ns(*each) for each in zip(functions, loops, strict=True)] for _ in range(_BATCHES))
    return [min(ns) / loop.iterations for ns, loop in zip(zip(*batches, strict=True), loops, strict=True)]


def _batch_ns(function: _Function, loop: Loop) -> int:
    began_ns = time.thread_time_ns()
    function(loop.iterations)
    return time.thread_time_ns() - began_ns


def _after_work_ns(probed: _Function, unprobed: _Function) -> float:
    """The time of a hit after other work: the first function passes a site, the second one is the same without a probe."""
    sending, receiving = socket.socketpair()
    with sending, receiving:
        return fmean(_in_new_memory_ns(probed, unprobed, sending, receiving) for _ in range(_AREAS))


def _in_new_memory_ns(probed: _Function, unprobed: _Function, sending: socket.socket, receiving: socket.socket) -> float:
    message, source, target = bytes(_MESSAGE), bytes(_COPIED), bytearray(_COPIED)
    probed_ns: list[int] = []
    unprobed_ns: list[int] = []
    for _ in range(_HITS_OF_AREA):
        for function, ns in ((probed, probed_ns), (unprobed, unprobed_ns)):
            sending.send(message)
            receiving.recv(_MESSAGE)
            target[:] = source
            began_ns = time.perf_counter_ns()
            function(1)
            ns.append(time.perf_counter_ns() - began_ns)
    return median(probed_ns) - median(unprobed_ns)


@contextmanager
def _mapped(codes: Sequence[bytes]) -> Iterator[tuple[str, list[_Function]]]:
    """The codes as functions in a file in memory that nobody else has, each APART after the one before: a path to it, and the
    functions."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    file = os.memfd_create("ssllatency-hit-cost", os.MFD_CLOEXEC)
    try:
        os.write(file, b"".join(code.ljust(APART, b"\0") for code in codes).ljust(mmap.PAGESIZE, b"\0"))
        address = library.mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
            yield f"/proc/self/fd/{file}", [function(address + place * APART) for place in range(len(codes))]
        finally:
            library.munmap(address, mmap.PAGESIZE)
    finally:
        os.close(file)


@contextmanager
def _attached(path: str, loops: Sequence[Loop], method: kernel.Method) -> Iterator[None]:
    """Probes of a program that does nothing at the sites of all loops in the file, and at the returns where a loop is one. They
    are detached side by side by threads, which this program's end waits for."""
    sites = [place * APART + loop.site for place, loop in enumerate(loops)]
    returns = [site for site, loop in zip(sites, loops, strict=True) if loop.at_return]
    program = kernel.load_empty_program(0 if method is kernel.Method.PERF else kernel.TRACE_UPROBE_MULTI)
    links: list[Closable] = []
    try:
        for at_return, offsets in ((True, returns), (False, sites)):
            if method is kernel.Method.PERF:
                for offset in offsets:
                    links.append(perf.attach(program, path, offset, 0, pid=os.getpid(), at_return=at_return))
            elif offsets:
                links.append(kernel.create_link(program, path, [(offset, 0) for offset in offsets], at_return=at_return))
        yield
    finally:
        os.close(program)
        for link in links:
            Thread(target=link.close).start()
