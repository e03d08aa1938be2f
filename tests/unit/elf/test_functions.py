# SPDX-License-Identifier: Apache-2.0
"""Where functions begin and end, what PLT stubs jump to, and what accessors tell about structures."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import capstone
import pytest
from elftools.elf.elffile import ELFFile
from tests.fixtures import build
from tests.fixtures.functions import function_ranges
from tests.parameters import slow_except

from ssllatency.code.decode import instructions
from ssllatency.elf import aarch64, plt
from ssllatency.elf.image import Image
from ssllatency.elf.unwind import pointer_encoding
from ssllatency.stacks.implementations import library_version
from ssllatency.stacks.openssl.accessors import bio_flags_offset, bio_offsets, ssl_offsets

NAMES = ("version", "rwstate", "server", "rbio", "wbio", "shutdown", "hand_state", "state", "session", "reused", "cipher")
IN_BIO = ("bio_flags", "bio_method", "bio_descriptor")


@pytest.mark.parametrize("kind", ["header", "no-header", "no-sections"])
def test_bounds_are_those_of_the_symbols(folder: Path, kind: str) -> None:
    flags = ("-Wl,--no-eh-frame-hdr",) if kind == "no-header" else ()
    path = build.library(folder, f"libbounds-{kind}.so", build.SHAPES, *flags)
    target = build.stripped(path, f"bounds-{kind}.so")
    if kind == "no-sections":
        target = build.without_section_headers(target, "bounds.bare.so")
    image = Image.open(target)
    ranges = list(function_ranges(image))
    assert ranges == sorted(ranges)
    for name, symbol in build.symbols(path).items():
        if name.startswith("shape_") and symbol.kind in "tT":
            bounds = (symbol.address, symbol.address + symbol.size)
            assert bounds in ranges
            assert image.function_bounds(symbol.address) == bounds
            assert image.function_bounds(symbol.address + symbol.size - 1) == bounds
            assert image.function_bounds(symbol.address + symbol.size) != bounds
    assert image.function_bounds(0) is None
    assert image.function_bounds(1 << 62) is None


def test_a_row_that_leads_to_another_function_s_description_tells_nothing(folder: Path) -> None:
    """The table that is searched says where each function starts; so does its description. Both must say the same."""
    target = build.stripped(build.library(folder, "libcrossed.so", build.SHAPES), "crossed.so")
    data = bytearray(target.read_bytes())
    header = next(each for each in ELFFile(io.BytesIO(data)).iter_segments() if each["p_type"] == "PT_GNU_EH_FRAME")
    rows = header["p_offset"] + 12
    data[rows + 4 : rows + 8], data[rows + 12 : rows + 16] = data[rows + 12 : rows + 16], data[rows + 4 : rows + 8]
    target.write_bytes(data)
    starts = [header["p_vaddr"] + struct.unpack_from("<i", data, rows + at)[0] for at in (0, 8)]
    image = Image.open(target)
    ranges = list(function_ranges(image))
    assert ranges
    assert all(image.function_bounds(start) == (start, end) for start, end in ranges)
    assert [image.function_bounds(start) for start in starts] == [None, None]


@pytest.mark.parametrize(
    ("entry", "encoding"),
    [
        (b"\x01zR\0\x01\x78\x10\x01\x1b", 0x1B),
        (b"\x01zPLR\0\x01\x78\x10\x07\x9b\1\2\3\4\x1b\x1b", 0x1B),
        (b"\x01zRS\0\x01\x78\x10\x01\x0b", 0x0B),
        (b"\x03zR\0\x01\x78\x90\x01\x01\x1b", 0x1B),
        (b"\x01\0\x01\x78\x10", 0),
        (b"\x01z\0\x01\x78\x10\0", 0),
        (b"\x01eh\0\x01\x78\x10", None),
        (b"\x01zR\0\x01\x78\x10\x01", None),
        (b"\x09zR\0\x01\x78\x10\x01\x1b", None),
        (b"\x01zR", None),
    ],
)
def test_pointer_encoding_of_a_common_information_entry(entry: bytes, encoding: int | None) -> None:
    assert pointer_encoding(entry) == encoding


PLT_STYLES = {
    "lazy": ("-Wl,-z,lazy", "-fcf-protection=none"),
    "now": ("-Wl,-z,now", "-fcf-protection=none"),
    "cet": ("-Wl,-z,lazy", "-Wl,-z,ibtplt", "-fcf-protection=full"),
    "cet-now": ("-Wl,-z,now", "-Wl,-z,ibtplt", "-fcf-protection=full"),
}


@pytest.mark.parametrize("kind", PLT_STYLES)
@pytest.mark.parametrize("headers", [True, False], ids=["sections", "no-sections"])
def test_plt_stubs_name_what_they_jump_to(folder: Path, kind: str, headers: bool) -> None:
    path = build.library(folder, f"libplt-{kind}.so", build.SHAPES, *PLT_STYLES[kind])
    known = build.symbols(path)
    image = Image.open(path if headers else build.without_section_headers(path, f"plt-{kind}.bare.so"))
    caller = known["shape_caller"]
    code = instructions(image.code(caller.address, caller.size), caller.address, "x86-64")
    calls = [each.operands[0].imm for each in code if each.mnemonic == "call"]
    targets = {image.plt_target(address) for address in calls}
    assert targets == {"puts", "strlen", "shape_exported", "shape_other_twin", None}
    assert known["shape_hidden"].address in calls
    assert image.plt_target(caller.address) is None
    assert image.plt_target(known["shape_data"].address) is None


@pytest.mark.parametrize("head", [0, 4], ids=["plain", "bti"])
@pytest.mark.parametrize("page", [0x1000, 0x12345000, -0x3000, -0x7FFFF000])
def test_aarch64_plt_stub_and_table_function(head: int, page: int) -> None:
    address = 0x1_0000_0000
    adrp = 0x90000000 | (page >> 12 & 3) << 29 | (page >> 14 & 0x7FFFF) << 5
    bti = struct.pack("<I", aarch64.BTI_C) * (head // 4)
    stub = bti + struct.pack("<4I", adrp | 16, 0xF9400211 | 0x2A << 10, 0x91054210, 0xD61F0220)
    function = bti + struct.pack("<3I", adrp, 0x91000000 | 0x150 << 10, 0xD65F03C0)
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    texts = [f"{each.mnemonic} {each.op_str}" for each in decoder.disasm(stub, address)][head // 4 :]
    pages = address + page
    assert texts == [f"adrp x16, #{pages:#x}", "ldr x17, [x16, #0x150]", "add x16, x16, #0x150", "br x17"]
    assert plt.slot(stub, address, "aarch64") == pages + 0x150
    assert plt.slot(function, address, "aarch64") is None
    assert [each.mnemonic for each in decoder.disasm(function, address)][head // 4 :] == ["adrp", "add", "ret"]
    assert aarch64.returned_address(function, address) == pages + 0x150
    assert aarch64.returned_address(stub, address) is None


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
@pytest.mark.parametrize("layout", [(), ("-DSINCE_3_2",)], ids=["up-to-3.1", "since-3.2"])
def test_offsets_are_those_of_the_structures(folder: Path, style: str, layout: tuple[str, ...]) -> None:
    path = build.library(folder, f"liba-{style}{len(layout)}.so", ["accessors.c"], *build.STYLES[style], *layout)
    image = Image.open(build.stripped(path, f"a-{style}.so"))
    known = build.symbols(path)
    offsets = {name: image.constant(known[f"offset_{name}"].address, 8) for name in (*NAMES, *IN_BIO)}
    assert offsets["rwstate"] == (104 if layout else 40)
    assert {**ssl_offsets(image), "bio_flags": bio_flags_offset(image), **bio_offsets(image)} == offsets


def test_a_socket_of_another_type_tells_nothing(folder: Path) -> None:
    path = build.library(folder, "libsocket.so", ["accessors.c"], "-DSOCKET_TYPE=0x401")
    assert bio_offsets(Image.open(path)) == {}


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
def test_version_is_what_the_library_states(folder: Path, style: str) -> None:
    path = build.library(folder, f"libv-{style}.so", ["accessors.c"], *build.STYLES[style])
    assert library_version(Image.open(build.stripped(path, f"v-{style}.so"))) == "OpenSSL 3.9.1 1 Apr 2031"


def test_version_is_read_from_the_data_where_no_function_states_it(folder: Path) -> None:
    path = build.library(folder, "libhidden.so", ["accessors.c"], "-fvisibility=hidden")
    image = Image.open(build.stripped(path, "hidden.so"))
    assert image.function("OpenSSL_version") is None
    assert library_version(image) == "OpenSSL 3.9.1 1 Apr 2031"


def test_images_without_accessors_tell_nothing(shapes: Path) -> None:
    image = Image.open(shapes)
    assert ssl_offsets(image) == {}
    assert bio_flags_offset(image) is None
    assert bio_offsets(image) == {}
    assert library_version(image) == ""
