# SPDX-License-Identifier: Apache-2.0
"""Every way to find a function by name, each against the address that nm gave before stripping."""

from __future__ import annotations

import lzma
import os
import shutil
import struct
from pathlib import Path

import pytest
from tests.fixtures import build

from ssllatency.elf.image import Image


def found(image: Image, name: str) -> tuple[int, int, str] | None:
    function = image.function(name)
    return (function.address, function.size, f"{function.found} {function.debug_file}".rstrip()) if function else None


def expected(symbols: dict[str, build.Symbol], name: str, how: str) -> tuple[int, int, str]:
    return symbols[name].address, symbols[name].size, how


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("headers", [True, False], ids=["sections", "no-sections"])
def test_dynamic_symbols_by_either_hash_table(folder: Path, style: str, headers: bool) -> None:
    path = build.library(folder, f"lib{style}.so", build.SHAPES, f"-Wl,--hash-style={style}")
    target = build.stripped(path, f"{style}.stripped.so")
    if not headers:
        target = build.without_section_headers(target, f"{style}.bare.so")
    image = Image.open(target)
    known = build.symbols(path)
    for name in ("shape_exported", "shape_caller", "shape_other_twin"):
        assert found(image, name) == expected(known, name, "dynamic symbol")
    for name in ("shape_static", "shape_hidden", "puts", "no_such_function", ""):
        assert image.function(name) is None
    assert image.soname == f"lib{style}.so"


def test_symbol_table_holds_static_and_hidden_functions(shapes: Path) -> None:
    image = Image.open(shapes)
    known = build.symbols(shapes)
    for name in ("shape_static", "shape_hidden"):
        assert found(image, name) == expected(known, name, "symbol table")
    assert found(image, "shape_exported") == expected(known, "shape_exported", "dynamic symbol")


def test_data_an_ifunc_and_a_name_of_two_functions_are_no_functions(shapes: Path) -> None:
    image = Image.open(shapes)
    known = build.symbols(shapes)
    assert known["shape_ifunc"].kind == "i"
    for name in ("shape_data", "shape_ifunc", "shape_twin"):
        assert name in known
        assert image.function(name) is None


def test_mini_debug_information(shapes: Path) -> None:
    image = Image.open(build.with_mini_debug(shapes, "mini.so"))
    known = build.symbols(shapes)
    assert found(image, "shape_static") == expected(known, "shape_static", "mini debug info")
    assert found(image, "shape_exported") == expected(known, "shape_exported", "dynamic symbol")


@pytest.mark.parametrize("content", [b"", b"no xz at all", lzma.compress(b"no ELF")[:-4], lzma.compress(b"no ELF")])
def test_damaged_mini_debug_information_is_none(shapes: Path, content: bytes) -> None:
    assert Image.open(build.with_mini_debug(shapes, "badmini.so", content)).function("shape_static") is None


def test_mini_debug_information_that_unpacks_to_too_much_is_none(shapes: Path) -> None:
    bomb = lzma.compress(b"\x7fELF" + bytes(100 << 20), preset=0)
    assert len(bomb) < 1 << 20
    assert Image.open(build.with_mini_debug(shapes, "bomb.so", bomb)).function("shape_static") is None


def build_id_place(root: Path, image: Image) -> Path:
    return root / "usr/lib/debug/.build-id" / image.build_id[:2] / f"{image.build_id[2:]}.debug"


def test_debug_file_by_build_id_in_the_first_root_that_has_it(tmp_path: Path, shapes: Path) -> None:
    target = build.stripped(shapes, "byid.so")
    first, second = tmp_path / "target", tmp_path / "host"
    roots = (str(first), str(second))
    assert Image.open(target, debug_roots=roots).function("shape_static") is None
    for root in (second, first):
        debug = build.debug_file(shapes, build_id_place(root, Image.open(target)))
        image = Image.open(target, debug_roots=roots)
        assert found(image, "shape_static") == expected(build.symbols(shapes), "shape_static", f"debug file {debug}")
        assert image.debug_file == str(debug)


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_in_a_root_does_not_lead_to_a_debug_file_outside_of_it(tmp_path: Path, shapes: Path, link: str) -> None:
    target = build.stripped(shapes, "escapes.so")
    host, theirs = tmp_path / "host", tmp_path / "theirs"
    debug = build.debug_file(shapes, build_id_place(host, Image.open(target)))
    place = theirs / debug.relative_to(host)
    place.parent.parent.mkdir(parents=True)
    if link == "file":
        place.parent.mkdir()
        place.symlink_to(debug)
    else:
        place.parent.symlink_to(debug.parent)
    assert place.is_file()
    assert Image.open(target, debug_roots=[str(theirs)]).function("shape_static") is None
    assert Image.open(target, debug_roots=[str(theirs), str(host)]).debug_file == str(debug)


def test_build_id_too_long_for_a_file_name_leads_nowhere(tmp_path: Path, folder: Path) -> None:
    path = build.library(folder, "liblongid.so", build.SHAPES, f"-Wl,--build-id=0x{'ab' * 4000}")
    image = Image.open(build.stripped(path, "longid.so"), debug_roots=[str(tmp_path), f"/{'x' * 5000}"])
    assert image.build_id.startswith("abab")
    assert image.function("shape_static") is None


def test_debug_file_of_another_build_is_refused(tmp_path: Path, folder: Path, shapes: Path) -> None:
    target = build.stripped(shapes, "other.so")
    place = build_id_place(tmp_path, Image.open(target))
    build.debug_file(build.library(folder, "libotherbuild.so", build.SHAPES, "-O1"), place)
    assert Image.open(target, debug_roots=[str(tmp_path)]).function("shape_static") is None
    build.debug_file(build.library(folder, "libnoid.so", build.SHAPES, "-Wl,--build-id=none"), place)
    assert Image.open(target, debug_roots=[str(tmp_path)]).function("shape_static") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_debug_file_of_a_stranger_is_refused(tmp_path: Path, shapes: Path) -> None:
    """A label that a process chose may lead to a folder of its user's."""
    target = build.stripped(shapes, "owned.so")
    debug = build.debug_file(shapes, build_id_place(tmp_path, Image.open(target)))
    for library_owner, debug_owner, believed in ((0, 0, True), (0, 12345, False), (12345, 12345, True), (12345, 0, True)):
        os.chown(target, library_owner, -1)
        os.chown(debug, debug_owner, -1)
        image = Image.open(target, debug_roots=[str(tmp_path)])
        assert (image.function("shape_static") is not None) == believed


@pytest.mark.parametrize("place", ["opt/lib", "opt/lib/.debug", "usr/lib/debug/opt/lib"])
@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_debug_file_by_link(tmp_path: Path, folder: Path, place: str, build_id: str) -> None:
    path = build.library(folder, "liblinked.so", build.SHAPES, f"-Wl,--build-id={build_id}")
    debug = build.debug_file(path, tmp_path / place / "shapes.debug")
    target = build.with_debug_link(path, "linked.so", debug)
    image = Image.open(target, label="/opt/lib/linked.so", debug_roots=[str(tmp_path)])
    assert bool(image.build_id) == (build_id == "sha1")
    assert found(image, "shape_static") == expected(build.symbols(path), "shape_static", f"debug file {debug}")


def test_debug_file_with_another_checksum_is_refused(tmp_path: Path, folder: Path) -> None:
    path = build.library(folder, "libsum.so", build.SHAPES)
    debug = build.debug_file(path, tmp_path / "opt/lib/sum.debug")
    target = build.with_debug_link(path, "sum.so", debug)
    debug.write_bytes(debug.read_bytes() + b"\0")
    assert Image.open(target, label="/opt/lib/sum.so", debug_roots=[str(tmp_path)]).function("shape_static") is None


def test_debug_link_out_of_its_folder_is_refused(tmp_path: Path, folder: Path) -> None:
    path = build.library(folder, "libescape.so", build.SHAPES)
    debug = build.debug_file(path, tmp_path / "opt/escape.debug")
    for link, label in (("../escape.debug", "/opt/lib/escape.so"), ("escape.debug", "/opt/escape.so")):
        target = build.with_raw_debug_link(path, "escape.so", link, debug.read_bytes())
        image = Image.open(target, label=label, debug_roots=[str(tmp_path)])
        assert (image.function("shape_static") is not None) == (label == "/opt/escape.so")


def test_static_programs_fixed_and_position_independent(folder: Path) -> None:
    for name, flags in (("fixed", ("-static", "-no-pie")), ("pie", ("-static-pie",))):
        path = build.program(folder, f"static-{name}", "methods.c", *flags)
        image = Image.open(path)
        assert found(image, "ssl_accept") == expected(build.symbols(path), "ssl_accept", "symbol table")
        bare = Image.open(build.stripped(path, f"static-{name}.stripped"))
        assert bare.function("ssl_accept") is None


def test_code_and_file_offset_are_those_of_the_function(shapes: Path) -> None:
    image = Image.open(build.stripped(shapes, "code.so"))
    function = image.function("shape_exported")
    assert function is not None
    offset = image.file_offset(function.address)
    code = image.code(function.address, function.size)
    assert code == shapes.read_bytes()[offset : offset + function.size]
    listing = build.run("objdump", "-d", "--disassemble=shape_exported", shapes)
    first = next(line for line in listing.splitlines() if line.strip().startswith(f"{function.address:x}:"))
    assert code.startswith(bytes.fromhex(first.split("\t")[1].strip()))


def test_looping_hash_chain_ends(folder: Path) -> None:
    path = build.stripped(build.library(folder, "libloop.so", build.SHAPES, "-Wl,--hash-style=sysv"), "libloop.stripped.so")
    assert Image.open(path).function("shape_exported")
    data = bytearray(path.read_bytes())
    lines = build.run("readelf", "-SW", path).splitlines()
    fields = next(line for line in lines if " .hash " in line).split("]")[1].split()
    table = int(fields[3], 16)
    buckets, chains = struct.unpack_from("<II", data, table)
    for index in range(buckets):
        struct.pack_into("<I", data, table + 8 + 4 * index, 1)
    for index in range(chains):
        struct.pack_into("<I", data, table + 8 + 4 * (buckets + index), 1)
    looped = shutil.copy(path, folder / "loop.so")
    Path(looped).write_bytes(data)
    assert Image.open(looped).function("shape_exported") is None
