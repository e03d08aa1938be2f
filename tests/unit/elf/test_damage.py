# SPDX-License-Identifier: Apache-2.0
"""Files that are no ELF images, or cut short, or damaged on purpose: ElfError or an answer, soon, and nothing else."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fixtures import build
from tests.fixtures.functions import function_ranges
from tests.parameters import slow_except

from ssllatency.elf.headers import Headers
from ssllatency.elf.image import ElfError, Image
from ssllatency.elf.room import most_copied
from ssllatency.elf.source import MAX_FILE, ElfSource
from ssllatency.stacks.implementations import library_version
from ssllatency.stacks.openssl.accessors import bio_flags_offset, ssl_offsets
from ssllatency.stacks.openssl.labels import label_paths
from ssllatency.stacks.openssl.names.library import names
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method, ssl_methods
from ssllatency.stacks.openssl.tables.providers import algorithms

SOURCES = ("shapes.c", "shapes2.c", "methods.c", "provider.c", "accessors.c")
SOURCES_OF_LABELS = ("shapes.c", "shapes2.c", "labels.c")
NAME_TABLES = ("names.c",)
pytestmark = pytest.mark.timeout(120)  # an image that keeps the parser busy is a defect
NAMES = ("shape_static", "shape_exported", "RSA_PKCS1_OpenSSL", "no_such_function")


def questions(image: Image) -> Iterator[object]:
    """Asks everything that can be asked; each question is one step, so that one's ElfError doesn't hide the next."""
    for name in NAMES:
        yield lambda name=name: image.function(name)
    for address in (0, 0x1000, 0x1100, 0x1139, 0x4000, 0x401000, 1 << 63, (1 << 64) - 1):
        for ask in (image.file_offset, image.pointer, image.pointers_to, image.function_bounds, image.plt_target, image.text):
            yield lambda ask=ask, address=address: ask(address)
        yield lambda address=address: image.code(address, 1 << 62)
        yield lambda address=address: image.constant(address, 8)
    for table in (
        rsa_method,
        ec_key_method,
        ssl_methods,
        algorithms,
        ssl_offsets,
        bio_flags_offset,
        library_version,
        label_paths,
        names,
    ):
        yield lambda table=table: table(image)
    yield lambda: list(function_ranges(image))
    yield lambda: list(image.find_string(b"ECDSA"))
    yield lambda: (image.soname, image.build_id, image.machine, image.debug_file)


def interrogate(data: bytes) -> int:
    """How many questions about the image in `data` were answered rather than refused."""
    answered = 0
    try:
        image = Image("memory", ElfSource.of(data, "/memory/image"), ("/nonexistent",))
    except ElfError:
        return 0
    for question in questions(image):
        try:
            question()  # type: ignore[operator]
            answered += 1
        except ElfError:
            continue
    return answered


@pytest.fixture(
    scope="module", params=slow_except(("rela", "relr", "sysv", "no-header", "symbols", "labels", "names"), "relr", "names")
)
def good(request: pytest.FixtureRequest, folder: Path) -> bytes:
    flags = {
        "rela": (),
        "relr": ("-Wl,-z,pack-relative-relocs",),
        "sysv": ("-Wl,--hash-style=sysv",),
        "no-header": ("-Wl,--no-eh-frame-hdr",),
        "symbols": (),
        "labels": (),
        "names": (),
    }[request.param]
    sources = {"labels": SOURCES_OF_LABELS, "names": NAME_TABLES}.get(request.param, SOURCES)
    path = build.library(folder, f"libgood-{request.param}.so", sources, *flags)
    if request.param == "symbols":
        return build.with_mini_debug(path, "good-mini.so").read_bytes()
    return build.stripped(path, f"good-{request.param}.so").read_bytes()


def test_good_image_answers_almost_everything(good: bytes) -> None:
    assert interrogate(good) > 50


def test_cut_short_anywhere(good: bytes) -> None:
    step = max(1, len(good) // 150)
    for length in [*range(0, 200, 7), *range(200, len(good), step)]:
        interrogate(good[:length])


def interesting(data: bytes) -> list[tuple[int, int]]:
    """The (start, size) of what describes the image: headers, dynamic tags, hash tables, symbols, relocations, frames."""
    headers = Headers(ElfSource.of(data, "good"))
    sections = [section for section in headers.sections if section.name not in (".text", ".rodata", ".comment")]
    places = [
        (section.sh_offset, section.sh_size) for section in sections if section.sh_size and section.sh_type != "SHT_NOBITS"
    ]
    section_headers = len(data) - 64 * len(headers.sections)
    return [(0, 64), (0, 64 + 56 * len(headers.segments)), (section_headers, len(data) - section_headers), *places]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(draw=st.data())
@pytest.mark.slow
def test_damaged_anywhere(good: bytes, draw: st.DataObject) -> None:
    data = bytearray(good)
    places = [*interesting(good), (0, len(good))]
    for _ in range(draw.draw(st.integers(1, 8))):
        start, size = draw.draw(st.sampled_from(places))
        position = start + draw.draw(st.integers(0, size - 1))
        width = draw.draw(st.sampled_from([1, 1, 2, 4, 8]))
        value = draw.draw(st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x80", None]))
        fill = value * width if value else draw.draw(st.binary(min_size=width, max_size=width))
        data[position : position + width] = fill[: max(0, len(data) - position)]
    interrogate(bytes(data))


@given(st.binary(max_size=200), st.integers(0, 64))
def test_noise_after_a_good_beginning(noise: bytes, kept: int) -> None:
    head = b"\x7fELF\2\1\1" + bytes(9) + b"\3\0\x3e\0\1\0\0\0" + bytes(8) + b"\x40" + bytes(7) + b"\xff" * 24
    interrogate(head[:kept] + noise)


def patched(good: bytes, offset: int, value: bytes) -> ElfSource:
    return ElfSource.of(good[:offset] + value + good[offset + len(value) :], "the file")


@pytest.mark.parametrize(
    ("offset", "value", "sentence"),
    [
        (0, b"text", "the file is not an ELF file."),
        (4, b"\1", "the file is not a 64-bit little-endian ELF file."),
        (5, b"\2", "the file is not a 64-bit little-endian ELF file."),
        (16, b"\1", "the file is neither a program nor a shared library."),
        (16, b"\4", "the file is neither a program nor a shared library."),
        (18, b"\x28", "the file is for another machine than x86-64 and aarch64."),
        (32, b"\xff" * 8, "the file is cut short or damaged."),
        (56, b"\xff\xff", "the file has more than 128 program headers."),
        (80, b"\x00" + b"\xff" * 7, "the file has a segment beyond the addresses that a process has."),
    ],
)
def test_what_is_wrong_with_the_file_is_said(good: bytes, offset: int, value: bytes, sentence: str) -> None:
    with pytest.raises(ElfError) as caught:
        Image("path", patched(good, offset, value), ())
    assert str(caught.value) == sentence


def test_aarch64_is_known(good: bytes) -> None:
    image = Image("path", patched(good, 18, b"\xb7\0"), ())
    assert image.machine == "aarch64"
    assert ssl_offsets(image) == {}


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match="cannot be opened: No such file"):
        Image.open(tmp_path / "missing")
    with pytest.raises(ElfError, match="not a regular file"):
        Image.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ElfError, match="not a regular file"):
        Image.open(tmp_path / "pipe")
    with pytest.raises(ElfError, match="cannot be opened"):
        Image.open("a\0b")
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(ElfError, match="not an ELF file"):
        Image.open(empty, label="/usr/lib/libssl.so.3")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(ElfError, match="not a regular file"):
            Image.open(tmp_path / "socket")


def test_huge_sparse_file_is_refused(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "huge"
    path.write_bytes(good)
    os.truncate(path, MAX_FILE + 1)
    with pytest.raises(ElfError, match="larger than"):
        Image.open(path)


def test_file_that_shrinks_while_it_is_copied(tmp_path: Path, good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shrinks"
    path.write_bytes(good)
    read = os.preadv

    def shrinking(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        os.truncate(path, 100)
        return read(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", shrinking)
    with pytest.raises(ElfError, match="cut short"):
        Image.open(path)


def test_what_is_written_once_the_file_was_copied_is_not_seen(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "written"
    path.write_bytes(good)
    answers = [_answer(ask) for ask in questions(Image.open(path, debug_roots=()))]
    image = Image.open(path, debug_roots=())
    path.write_bytes(b"\xcc" * len(good))
    os.truncate(path, 100)
    assert [_answer(ask) for ask in questions(image)] == answers


def _answer(ask: Callable[[], object]) -> str:
    try:
        found = ask()
        return repr(list(found) if isinstance(found, Iterator) else found)
    except ElfError as error:
        return str(error)


def test_holes_of_a_file_take_no_memory(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "sparse"
    path.write_bytes(good)
    os.truncate(path, most_copied())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = ElfSource.copied(path, "sparse")
    assert (source.read(0, len(good)), source.read(most_copied() - 1, 1)) == (good, b"\0")
    assert source.stored < len(good) + 65536
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < most_copied() >> 12


def test_the_digest_tells_every_byte_and_where_the_holes_are(tmp_path: Path) -> None:
    digests = set()
    for number, pieces in enumerate(
        ([(0, b"a")], [(0, b"b")], [(1 << 20, b"a")], [(0, b"a"), (1 << 20, b"a")], [(0, b"a" * 4097)])
    ):
        path = tmp_path / str(number)
        with path.open("wb") as file:
            for offset, data in pieces:
                os.pwrite(file.fileno(), data, offset)
            os.truncate(path, 2 << 20)
        digests.add(ElfSource.copied(path, "").digest)
        os.truncate(path, (2 << 20) + 1)
        digests.add(ElfSource.copied(path, "").digest)
    assert len(digests) == 10


def test_label_is_what_people_read(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no ELF file")
    with path.open("rb") as file, pytest.raises(ElfError) as caught:
        Image.open(f"/proc/self/fd/{file.fileno()}", label="/usr/lib/libssl.so.3 of process 7")
    assert str(caught.value) == "/usr/lib/libssl.so.3 of process 7 is not an ELF file."
