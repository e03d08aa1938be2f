# SPDX-License-Identifier: Apache-2.0
"""The places at which a function is called: directly in the image's code, or through its PLT stub.

The code isn't decoded: every address whose bytes would be such a call, if an instruction began there, counts. So each result is
a candidate, to be confirmed by decoding its function. Tail jumps of 32 bits are found as well.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ssllatency.elf.image import Image, Range

_ENDBR64, _BND = b"\xf3\x0f\x1e\xfa", b"\xf2"
_THROUGH_SLOT = re.compile(rb"\xff[\x15\x25](?=(.{4}))", re.DOTALL)  # call or jmp *slot(%rip)
_CALL_THROUGH_SLOT = 0x15
_X86_DIRECT = re.compile(rb"[\xe8\xe9](?=(.{4}))", re.DOTALL)
_LONGEST = 16  # bytes of a candidate with what may stand before it
_MOST_INDEXED = 1 << 20  # bytes of code of an image all of whose calls are kept: it is asked for some again and again
_MOST_CALLS = 1 << 17  # in the same: OpenSSL's libssl has a tenth of it, bytes that are all calls eight times as many
_ADRP_X16, _ADRP_MASK = 0x90000010, 0x9F00001F


_indexes: WeakKeyDictionary[Image, dict[int, list[int]] | None] = WeakKeyDictionary()


def calls_to(image: Image, addresses: Collection[int], within: Range | None = None) -> dict[int, list[int]]:
    """The addresses of the direct calls and jumps to each of `addresses`, ascending; of those in [start, end) if given."""
    sites: dict[int, list[int]] = {address: [] for address in addresses}
    if not sites:
        return sites
    is_x86 = image.machine == "x86-64"
    index = _index(image)
    if index is None:
        direct = _x86_direct if is_x86 else _aarch64_direct
        pieces = image.code_pieces(_LONGEST, within)
        return sites | _by_target(chain.from_iterable(direct(start, code, sites) for start, code in pieces))
    start, end = within or (0, 1 << 64)
    for address in sites:
        found = index.get(address, [])
        sites[address] = found[bisect_left(found, start) : bisect_left(found, end - (4 if is_x86 else 3))]  # whole ones
    return sites


def _index(image: Image) -> dict[int, list[int]] | None:
    """All direct calls and jumps of the image by what they lead to; None where there is too much code, or too
    many of them."""
    if image not in _indexes:
        _indexes[image] = None
        sizes = [(start, len(code)) for start, code in image.code_pieces(0)]
        if sizes and sum(size for _, size in sizes) <= _MOST_INDEXED:
            within = range(min(start for start, _ in sizes), max(start + size for start, size in sizes))
            direct = _all_x86_direct if image.machine == "x86-64" else _aarch64_direct
            pieces = image.code_pieces(_LONGEST)
            found = chain.from_iterable(direct(start, code, within) for start, code in pieces)
            calls = list(islice(found, _MOST_CALLS + 1))
            if len(calls) <= _MOST_CALLS:
                _indexes[image] = _by_target(calls)
    return _indexes[image]


def _by_target(found: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The addresses of calls, which come in the order of pieces of code that overlap, by what they lead to."""
    sites: dict[int, list[int]] = {}
    for site, target in found:
        known = sites.setdefault(target, [])
        if not known or known[-1] < site:
            known.append(site)
    return sites


def calls_of(image: Image, names: Iterable[str], within: Range | None = None) -> dict[str, list[int]]:
    """The calls of functions by their names, be they the image's own or imported."""
    targets: dict[int, str] = {}
    sites: dict[str, list[int]] = {name: [] for name in names}
    for name in sites:
        function = image.function(name)
        if function:
            targets[function.address] = name
    slots = image.symbol_slots(sites)
    stubs = _x86_stubs if image.machine == "x86-64" else _aarch64_stubs
    for place, name, is_call in stubs(image, slots) if slots else ():
        if is_call:
            sites[name].append(place)
        else:
            targets[place] = name
    for target, places in calls_to(image, targets, within).items():
        sites[targets[target]] += places
    return {name: sorted(set(places)) for name, places in sites.items()}


def calls_through(image: Image, slots: Collection[int]) -> Iterator[int]:
    """The addresses of x86-64 calls and jumps through one of these words, as those of functions of another unit of Rust's."""
    for start, code in image.code_pieces(_LONGEST) if slots else ():
        for match in _THROUGH_SLOT.finditer(code):
            if start + match.start() + 6 + struct.unpack("<i", match[1])[0] in slots:
                yield start + match.start()


def _x86_direct(start: int, code: bytes, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """call rel32 and jmp rel32. Few bytes that look like one have a displacement whose upper half can lead to a target, so
    these upper halves are searched for."""
    halves = _upper_halves(start, len(code), targets)
    if not halves:
        return
    any_half = b"|".join(re.escape(struct.pack("<h", half)) for half in sorted(halves))
    for match in re.finditer(rb"[\xe8\xe9](?=..(?:" + any_half + rb"))", code, re.DOTALL):
        (displacement,) = struct.unpack_from("<i", code, match.end())
        target = start + match.end() + 4 + displacement  # from the end of the instruction
        if target in targets:
            yield start + match.start(), target


def _all_x86_direct(start: int, code: bytes, targets: range) -> Iterator[tuple[int, int]]:
    """All call rel32 and jmp rel32 to any of very many targets."""
    for match in _X86_DIRECT.finditer(code):
        site = start + match.start()
        target = site + 5 + int.from_bytes(match[1], "little", signed=True)
        if target in targets:
            yield site, target


def _upper_halves(start: int, size: int, targets: Iterable[int]) -> set[int]:
    """The upper 16 bits of all displacements from an instruction in [start, start + size) to a target, as signed numbers."""
    return {
        half
        for target in targets
        for half in range((target - start - size - 5) >> 16, ((target - start) >> 16) + 1)
        if -0x8000 <= half < 0x8000
    }


def _aarch64_direct(start: int, code: bytes, targets: Collection[int]) -> Iterator[tuple[int, int]]:
    """bl and b."""
    for number, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & ~3])):
        if word & 0x7C000000 == 0x14000000:
            distance = (word & 0x03FFFFFF) - ((word & 0x02000000) << 1)
            target = start + 4 * (number + distance)
            if target in targets:
                yield start + 4 * number, target


def _x86_stubs(image: Image, slots: dict[int, str]) -> Iterator[tuple[int, str, bool]]:
    """(address, name, whether it is a call itself): the starts that a stub can be called at, and calls through the slot."""
    for start, code in image.code_pieces(_LONGEST):
        for match in _THROUGH_SLOT.finditer(code):
            at = match.start()
            name = slots.get(start + at + 6 + struct.unpack("<i", match[1])[0])
            if name is None:
                continue
            yield start + at, name, code[at + 1] == _CALL_THROUGH_SLOT
            if code[at + 1] != _CALL_THROUGH_SLOT:
                at -= code[max(at - 1, 0) : at] == _BND
                yield start + at, name, False
                if code[max(at - 4, 0) : at] == _ENDBR64:
                    yield start + at - 4, name, False


def _aarch64_stubs(image: Image, slots: dict[int, str]) -> Iterator[tuple[int, str, bool]]:
    names = frozenset(slots.values())
    for start, code in image.code_pieces(_LONGEST):
        for number, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & ~3])):
            if word & _ADRP_MASK == _ADRP_X16:
                at = start + 4 * number
                for place in (at, at - 4):  # perhaps after bti c
                    name = image.plt_target(place)
                    if name in names:
                        yield place, name, False
