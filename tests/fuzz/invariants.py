# SPDX-License-Identifier: Apache-2.0
"""What must hold of a plan, whatever bytes it was made from: an ElfError, or else

- each site lies in code whose digest the plan holds, and which the file has;
- the file itself confirms a function there: its unwind tables, or a symbol of its own that gives the size;
- an instruction begins there, by two decoders that walk in a straight line from where that code begins;
- the plan comes back from its JSON values as it was.

No other exception may leave the parsers. That it takes no more than some time and memory is the runner's to see to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import capstone

from ssllatency.code.boundaries import boundaries
from ssllatency.elf.image import ElfError, Function, Image
from ssllatency.elf.source import ElfSource
from ssllatency.fields import FieldError
from ssllatency.probes import codec
from ssllatency.probes.cache import names as names_codec
from ssllatency.probes.cache.parts import FACTS
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import CodeRange, Covered, FilePlan, HandshakeSites, Probe
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.boringssl.unnamed import found_in
from ssllatency.stacks.openssl.unnamed.found import found_in as openssl_found_in
from ssllatency.stacks.registry import stack_of
from ssllatency.stacks.rustls.functions import FOUND, functions_in
from tests.fixtures import hostile
from tests.fixtures.functions import function_ranges

_MOST_FUNCTIONS = 64
_NAMED = ("SSL_do_handshake", "SSL_read", "SSL_write", "EVP_DigestSign", "RSA_sign", "ERR_vset_error", "hidden", "other")


def image_of(data: bytes, debug_roots: Iterable[str] = ()) -> Image:
    """The image that these bytes are; ElfError where they are none."""
    return Image("fuzzed", ElfSource.of(data, "/usr/lib/libssl.so.3"), tuple(debug_roots))


def check_image(data: bytes) -> None:
    """Of what is read of a file with this content: functions and their bounds lie in its code, and its bytes are its own."""
    try:
        image = image_of(data)
        for start, end in islice(function_ranges(image), _MOST_FUNCTIONS):
            assert start < end
            _check_bytes(image, data, start)
            bounds = image.function_bounds(start)
            assert bounds is not None
            assert bounds[0] <= start < bounds[1]
        for name in _NAMED:
            function = image.own_function(name)
            assert function is None or image.executable(function.address)
            address = function.address if function else 0
            for place in image.pointers_to(address) if address else ():
                assert image.pointer(place) in (address, None)
            image.plt_target(address)
        assert isinstance(image.soname, str)
    except ElfError:
        return


def _check_bytes(image: Image, data: bytes, address: int) -> None:
    """Of an address that is said to be code: its bytes are those of the file at its offset."""
    if image.executable(address):
        offset, code = image.file_offset(address), image.code(address, 16)
        assert code == data[offset : offset + len(code)]
        assert code


def kept_plan(image: Image, data: bytes) -> FilePlan:
    """The plan of an image of a file with this content, which comes back from its JSON values. ElfError where there is none."""
    plan = plan_image(image)
    assert codec.from_values(_through_json(codec.to_values(plan)), file_size=len(data)) == plan
    return plan


def kept_handshake_plan(image: Image, data: bytes) -> HandshakeSites:
    """The same of the sites of handshakes."""
    plan = plan_handshake(image)
    assert codec.handshake_from_values(_through_json(codec.handshake_values(plan)), file_size=len(data)) == plan
    return plan


def check_plan(data: bytes) -> None:
    """Of the plan of a file with this content."""
    try:
        image = image_of(data)
        plan = kept_plan(image, data)
    except ElfError:
        return
    check_sites(image, data, plan.code, _probes(plan), _own_functions(image, plan))


def check_handshake_plan(data: bytes) -> None:
    """Of the sites of handshakes in a file with this content."""
    try:
        image = image_of(data)
        plan = kept_handshake_plan(image, data)
    except ElfError:
        return
    check_sites(image, data, plan.code, list(plan.probes()), [])


def check_names(data: bytes) -> None:
    """Of the names in a file with this content: what is kept of them can be read again, or is refused."""
    try:
        image = image_of(data)
        found = stack_of(image).names(image)
        values = _through_json(names_codec.to_values(found))
    except ElfError:
        return
    with suppress(FieldError):
        assert names_codec.from_values(values) == found


def check_unnamed(data: bytes) -> None:
    """What is found without symbols begins where the unwind tables know a function, each another one."""
    with suppress(ElfError):
        image = image_of(data)
        _check_found(image, found_in(image).functions)


def check_unnamed_openssl(data: bytes) -> None:
    """Of OpenSSL's functions that are found without symbols, as above, and of the plans that they give. Accessors are functions
    and labels lie near."""
    check_plan(data)
    check_handshake_plan(data)
    with suppress(ElfError):
        image = image_of(data)
        found = openssl_found_in(image)
        _check_found(image, found.functions)
        for function in found.accessors.values():
            assert image.function_bounds(function.address) == (function.address, function.address + function.size)
        for path in found.labels.values():
            assert 1 <= len(path.offsets) <= 4
            assert all(0 <= offset < 1 << 16 for offset in path.offsets)
            assert path.size in (1, 2, 4, 8)


def _check_found(image: Image, functions: Mapping[str, Function]) -> None:
    assert len({function.address for function in functions.values()}) == len(functions)
    for function in functions.values():
        assert image.function_bounds(function.address) == (function.address, function.address + function.size)


def check_rust(data: bytes) -> None:
    """Functions of rustls and ring that no symbol names begin where the unwind tables know one, each another."""
    try:
        image = image_of(data)
    except ElfError:
        return
    found = functions_in(image).values()
    assert len({function.address for function in found}) == len(found)
    for function in found:
        if function.found == FOUND:
            assert image.function_bounds(function.address) == (function.address, function.address + function.size)


def check_debug_file(library: bytes, root: Path) -> Callable[[bytes], None]:
    """Of the plan of this library beside a debug file with any content, which is written below `root`."""
    place = hostile.build_id_place(root, image_of(library).build_id)
    place.parent.mkdir(parents=True)

    def check(data: bytes) -> None:
        place.write_bytes(data)
        image = image_of(library, [str(root)])
        if not image.debug_file:
            return  # it says nothing
        plan = plan_image(image)
        check_sites(image, library, plan.code, _probes(plan), _own_functions(image, plan))
        for planned in plan.operations:
            bounds = image.function_bounds(planned.address)
            assert not planned.found.startswith("debug file") or bounds == (planned.address, planned.address + planned.size)

    return check


def check_kept(data: bytes) -> None:
    """Of what was kept on disk: names, what is in a file, a plan all of whose sites lie in code that will be compared, or
    nothing."""
    size = 1 << 20
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return
    with suppress(FieldError, RecursionError):
        kept = names_codec.from_values(values)
        assert names_codec.from_values(_through_json(names_codec.to_values(kept))) == kept
    with suppress(FieldError, RecursionError):
        facts = FACTS.read(values, size)
        assert FACTS.read(_through_json(FACTS.to_values(facts)), size) == facts
    with suppress(FieldError, RecursionError):
        plan = codec.from_values(values, file_size=size)
        _check_ranges(plan.code, _probes(plan), size)
        _check_ranges(plan.handshake.code, plan.handshake.probes(), size)
    with suppress(FieldError, RecursionError):
        sites = codec.handshake_from_values(values, file_size=size)
        _check_ranges(sites.code, sites.probes(), size)


def _check_ranges(code: Sequence[CodeRange], probes: Iterable[Probe], size: int) -> None:
    covered = Covered(code)
    assert all(covered.holds(probe.offset) and probe.offset < size for probe in probes)
    assert all(each.offset + each.size <= size for each in code)


def _through_json(values: object) -> Any:
    return json.loads(json.dumps(values))


def _probes(plan: FilePlan) -> list[Probe]:
    return [probe for planned in plan.operations for probe in planned.probes]


def _own_functions(image: Image, plan: FilePlan) -> list[tuple[int, int]]:
    """The functions that the file's own symbols name, with the sizes that these tell."""
    named = (image.own_function(name) for planned in plan.operations for name in BY_NAME[planned.operation].symbols)
    return [(function.address, function.address + function.size) for function in named if function]


def check_sites(
    image: Image, data: bytes, code: Iterable[CodeRange], probes: Iterable[Probe], own: list[tuple[int, int]]
) -> None:
    begins: dict[CodeRange, frozenset[int]] = {}
    for each in code:
        content = data[each.offset : each.offset + each.size]
        assert hashlib.sha256(content).hexdigest() == each.digest
        begins[each] = boundaries(image.machine, content) - _amid_instructions(image.machine, content)
    for probe in probes:
        assert image.file_offset(probe.address) == probe.offset
        assert image.executable(probe.address)
        bounds = image.function_bounds(probe.address)
        confirmed = [bounds] if bounds else [each for each in own if each[0] <= probe.address < each[1]]
        assert confirmed, f"nothing confirms a function around {probe.address:#x}"
        starts = {image.file_offset(start) for start, _ in confirmed}
        walked = [(each.offset, known) for each, known in begins.items() if each.offset in starts]
        assert any(probe.offset - start in known for start, known in walked), f"no instruction begins at {probe.address:#x}"


def _amid_instructions(machine: str, code: bytes) -> frozenset[int]:
    """The offsets at which no instruction begins, by Capstone, as far as it can go from the start: data may lie further on."""
    if machine == "aarch64":
        return frozenset(at for at in range(len(code)) if at % 4)
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    return frozenset(at for start, size, *_ in decoder.disasm_lite(code, 0) for at in range(start + 1, start + size))
