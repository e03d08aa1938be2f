# SPDX-License-Identifier: Apache-2.0
"""Processes that get no probe: those that have changed the code of a traced file in their own memory, where it could crash
them, and those whose owner has opted out.

A link that processes share sets its breakpoints in each process that maps the file, traced or not. So where any of these has
changed the code around the sites, or opted out, every process to trace has links of its own, but for that one. The same is true
of a file that comes later: nobody's change of their own memory keeps others from being traced.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import NamedTuple

from ssllatency.engines.attach.links import LINK_EACH_PROCESS, decide
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.errors import (
    TRACEBACK,
    SsllatencyError,
    TooManyOpenFiles,
    Unforeseen,
    about_one_of_many,
    raise_if_too_many,
)
from ssllatency.model.snapshot import Target
from ssllatency.safe_open import open_regular
from ssllatency.targets import (
    NEVER,
    VARIABLE,
    CodeState,
    Numbers,
    code_state,
    has_opted_out,
    has_variable,
    mapped_numbers,
    opt_out_reason,
    process_of,
    read_maps,
    read_never,
)
from ssllatency.targets.processes import all_pids
from ssllatency.tracing.resolve import Resolved, library_of

_MOST_NAMED = 4
_WHY = {
    CodeState.CHANGED: "has changed the code of {path} in its own memory, where a probe could crash it",
    CodeState.UNPROBED: "maps the code of {path} writable or shared, where the kernel sets no probe",
    CodeState.OFF: "{reason}",
}
_WHY_DEFECT = "can't be looked at: that is a defect, please report it ({words}; {variable}=1 shows where it happened)"
OWN_LINKS = (
    "Probes are set in each traced process by itself, so that it gets none; calls that a new child makes before it has its own"
    " may be missed (such children count as traced late)."
)


class _Defect(NamedTuple):
    """An unforeseen exception, by its words, for which nobody can tell the state of a process's code."""

    words: str


_State = CodeState | _Defect
_States = Mapping[int, Mapping[int, _State]]  # by number of an image and process


def spared(resolved: Resolved, request: Request, arguments: argparse.Namespace) -> Resolved:
    """The targets without the processes that must not get probes, which the notes name, and how the probes of the others are
    linked. SsllatencyError where nothing is left, or the options allow no other way."""
    read_never()  # before anything is attached, also where nobody is there yet
    linking = decide(request)
    shared = not linking.each_process
    states = _states_of_all(resolved.images, everyone=shared)
    if not states:
        return replace(resolved, linking=linking)
    sentence = _sentence(states, resolved.images)
    changed = {
        number: frozenset(pid for pid, state in of_image.items() if _forbids(state)) for number, of_image in states.items()
    }
    endangered = any(changed.values())  # where the kernel sets no probe, a shared link does no harm
    if endangered and arguments.links == "shared":
        raise SsllatencyError(f"{sentence} Links that all processes share would set it there: leave out --links.")
    images = tuple(
        replace(image, pids=tuple(pid for pid in image.pids if pid not in states.get(number, {})))
        for number, image in enumerate(resolved.images)
    )
    left = {pid for image in images for pid in image.pids}
    if not left and not getattr(arguments, "wait", False):
        raise SsllatencyError(f"{sentence} No other process is left to trace: {_remedy(states)}.")
    if endangered and linking.method is kernel.Method.PERF and len(left) > LINK_EACH_PROCESS:
        raise SsllatencyError(
            f"{sentence} This kernel can't spare it where many are traced: name up to {LINK_EACH_PROCESS} by -p."
        )
    return replace(
        resolved,
        images=images,
        targets=_targets(resolved.targets, resolved.images, states),
        notes=(*resolved.notes, f"{sentence} {OWN_LINKS}" if shared and endangered else sentence),
        spared={number: pids for number, pids in changed.items() if pids},
        linking=decide(replace(request, images=images, spares=endangered)),
    )


def unprobed(image: TracedImage, pids: Iterable[int]) -> dict[int, str]:
    """Those of these processes in which no probe of the image may or can be set, each with the sentence that says why."""
    traced = set(pids)
    states = _states({0: _Whom(image, traced, traced)})[0]
    return {pid: _sentence({0: {pid: state}}, (image,)) for pid, state in states.items()}


def endangered(image: TracedImage) -> str:
    """The sentence about all processes that probes of the image could crash, traced or not; "" where there are none."""
    states = _states({0: _Whom(image, {*image.pids, *_everybody()}, set())})
    return _sentence(states, (image,)) if states[0] else ""


def _states_of_all(images: Sequence[TracedImage], *, everyone: bool) -> dict[int, dict[int, _State]]:
    """By number of an image the processes in which no probe of it may be set: of its own, or of everyone who maps the file."""
    others = _everybody() if everyone else []
    return _states({number: _Whom(image, {*image.pids, *others}, set(image.pids)) for number, image in enumerate(images)})


def _everybody() -> list[int]:
    try:
        return all_pids()
    except TooManyOpenFiles:
        raise
    except SsllatencyError:
        return []


class _Whom(NamedTuple):
    """In which processes an image's code is looked at, and which of them to trace."""

    image: TracedImage
    pids: set[int]
    traced: set[int]


class _Code(NamedTuple):
    """An image's code: its file, how maps tells that, and the parts that sites lie in."""

    descriptor: int
    path: str
    numbers: Numbers
    ranges: list[tuple[int, int]]

    def state(self, pid: int, maps: bytes) -> CodeState | None:
        """The state of the code, as code_state() tells it."""
        return code_state(pid, maps, self.numbers, self.path, self.ranges, lambda at, size: os.pread(self.descriptor, size, at))


def _states(whom: Mapping[int, _Whom]) -> dict[int, dict[int, _State]]:
    """Of each image, by its number, those of these processes whose code isn't the file's. The maps of each are read once.

    That the kernel sets no probe in it matters of those to trace only. Besides, maps may name another file alike.
    TooManyOpenFiles where a process can't be looked at for that: then no probe may be set.
    """
    states: dict[int, dict[int, _State]] = defaultdict(dict)
    with ExitStack() as stack:
        opened = {number: code for number, those in whom.items() if (code := _opened(those.image, stack))}
        for pid in sorted({pid for those in whom.values() for pid in those.pids} if opened else ()):
            maps = read_maps(pid)
            for number, code in opened.items():
                state = _state(code, pid, maps) if pid in whom[number].pids else None
                if state is not None and (_forbids(state) or (state is CodeState.UNPROBED and pid in whom[number].traced)):
                    states[number][pid] = state
    return states


def _state(code: _Code, pid: int, maps: bytes) -> _State | None:
    """The state of the code in a process, OFF where it has opted out."""
    try:
        with about_one_of_many():
            state = code.state(pid, maps)
            return CodeState.OFF if state and has_opted_out(pid) else state
    except Unforeseen as error:
        return _Defect(error.words)


def _forbids(state: _State) -> bool:
    """Whether no link may set a probe, not even for somebody else."""
    return state in (CodeState.CHANGED, CodeState.OFF) or isinstance(state, _Defect)


def _why(pid: int, state: _State, path: str) -> str:
    """Return why a process gets no probe in the file at the path."""
    if isinstance(state, _Defect):
        return _WHY_DEFECT.format(words=state.words, variable=TRACEBACK)
    return _WHY[state].format(path=path, reason=_why_off(pid) if state is CodeState.OFF else "")


def _why_off(pid: int) -> str:
    """Return why a process gets no probe that has opted out; it may be gone since."""
    with suppress(Unforeseen), about_one_of_many():
        return opt_out_reason(pid) or "has opted out"
    return "has opted out"


def _opened(image: TracedImage, stack: ExitStack) -> _Code | None:
    """Open it as long as `stack`; None where no site lies in it, or nobody can tell what maps calls it."""
    ranges = [(part.offset, part.offset + part.size) for part in image.plan.code]
    try:
        descriptor = open_regular(image.file) if ranges else -1
    except OSError as error:
        raise_if_too_many(error, image.plan.path)
        return None
    if descriptor < 0:
        return None
    stack.callback(os.close, descriptor)
    numbers = mapped_numbers(descriptor)
    return _Code(descriptor, image.plan.path, numbers, ranges) if numbers else None


def _sentence(states: _States, images: tuple[TracedImage, ...]) -> str:
    """Return who isn't traced, and why."""
    whose: dict[int, list[str]] = defaultdict(list)
    for number, of_image in states.items():
        for pid, state in of_image.items():
            reason = _why(pid, state, images[number].plan.path)
            whose[pid] += [reason] if reason not in whose[pid] else []
    said = [f"{_name(pid)} {' and '.join(reasons)}" for pid, reasons in list(whose.items())[:_MOST_NAMED]]
    said += [f"{len(whose) - _MOST_NAMED} more processes do the same"] if len(whose) > _MOST_NAMED else []
    return f"{'; '.join(said)}: no probe is set there."


def _remedy(states: _States) -> str:
    """Return what would let the processes be traced."""
    off = {pid for of_image in states.values() for pid, state in of_image.items() if state is CodeState.OFF}
    if not off and all(isinstance(state, _Defect) for of_image in states.values() for state in of_image.values()):
        return "none can be until that defect is cured"
    if not off:
        return "restart it without what patches it"
    return f"restart it without {VARIABLE}" if any(map(has_variable, off)) else f"remove its line from {NEVER} to trace it"


def _name(pid: int) -> str:
    process = process_of(pid)
    return f"{process.comm if process else 'a process that has ended'} (PID {pid})"


def _targets(targets: Iterable[Target], images: tuple[TracedImage, ...], states: _States) -> tuple[Target, ...]:
    """The targets that are left, with the libraries in which they are traced."""

    def left() -> Iterator[Target]:
        for target in targets:
            gone = {library_of(images[number]).path for number, of_image in states.items() if target.pid in of_image}
            libraries = tuple(library for library in target.libraries if library.path not in gone)
            if libraries:
                yield replace(target, libraries=libraries)

    return tuple(left())
