# SPDX-License-Identifier: Apache-2.0
"""Nothing is attached to a file that doesn't have the code by which its sites were chosen."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.engines.attach import code_check
from ssllatency.engines.attach.code_check import check_code, is_overwritten, is_probed, status_of
from ssllatency.engines.base import AttachError, TracedImage
from ssllatency.probes.plan import CodeRange, FilePlan

CONTENT = bytes(range(256)) * 16


def image_of(path: Path, *ranges: tuple[int, int]) -> TracedImage:
    """A file with a plan whose sites lie in these ranges of it: offset and size."""
    content = path.read_bytes()
    code = tuple(CodeRange(at, size, hashlib.sha256(content[at : at + size]).hexdigest()) for at, size in ranges)
    return TracedImage(FilePlan("/lib/libssl.so.3", "", "", "libssl", (), (), code=code), str(path), ())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "libssl.so.3"
    path.write_bytes(CONTENT)
    return path


def test_the_file_that_was_planned_is_attached_to(file: Path) -> None:
    image = image_of(file, (16, 100), (512, 64), (560, 16))
    check_code(image, [16, 115, 512, 575])
    check_code(image_of(file), [])


@pytest.mark.parametrize("site", [0, 15, 116, 511, 576, 1 << 40])
def test_a_site_outside_of_confirmed_code_is_refused(file: Path, site: int) -> None:
    with pytest.raises(AttachError, match="wasn't confirmed"):
        check_code(image_of(file, (16, 100), (512, 64)), [16, site])


@pytest.mark.parametrize("written", [16, 60, 115])
def test_a_file_that_was_overwritten_in_place_is_refused(file: Path, written: int) -> None:
    """Through the descriptor that it is attached by, too."""
    image = image_of(file, (16, 100))
    with file.open("r+b") as opened:
        held = replace(image, file=f"/proc/self/fd/{opened.fileno()}")
        check_code(held, [20])
        opened.seek(written)
        opened.write(b"\xcc")
        opened.flush()
        for changed in (image, held, replace(image, file=f"/proc/{os.getpid()}/fd/{opened.fileno()}")):
            with pytest.raises(AttachError, match="was overwritten"):
                check_code(changed, [20])


def test_a_file_that_takes_the_place_of_the_one_that_is_attached_to_is_not_looked_at(file: Path) -> None:
    with file.open("rb") as opened:
        image = replace(image_of(file, (16, 100)), file=f"/proc/self/fd/{opened.fileno()}")
        file.rename(file.with_suffix(".old"))
        file.write_bytes(bytes(4096))
        check_code(image, [20])


def test_a_file_that_was_cut_short_or_is_gone_is_refused(file: Path) -> None:
    image = image_of(file, (16, 100))
    os.truncate(file, 100)
    with pytest.raises(AttachError, match="was overwritten"):
        check_code(image, [20])
    file.unlink()
    with pytest.raises(AttachError, match="was overwritten"):
        check_code(image, [20])


@pytest.mark.parametrize("before", ["it is mapped", "its pages are read"])
def test_a_file_that_is_cut_short_while_it_is_compared_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Whoever reads a page of a mapping that the file no longer has is killed."""
    image, check = image_of(file, (16, 100)), code_check._check

    def cutting(image: TracedImage, offsets: Collection[int], read: Callable[[CodeRange], bytes]) -> None:
        if before == "its pages are read" and not offsets:
            os.truncate(file, 0)
        check(image, offsets, read)
        os.truncate(file, 0)

    monkeypatch.setattr(code_check, "_check", cutting)
    with pytest.raises(AttachError, match="was overwritten"):
        check_code(image, [20])


def test_a_file_that_is_mapped_otherwise_than_it_is_read_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, read = image_of(file, (16, 100)), file.read_bytes()
    file.write_bytes(bytes(len(CONTENT)))
    answers, pread = iter([read[16:116]]), os.pread
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", lambda *words: next(answers, None) or pread(*words))
        with pytest.raises(AttachError, match="was overwritten"):
            check_code(image, [20])


def test_a_file_that_is_overwritten_while_it_is_traced(file: Path) -> None:
    """Whatever times whoever wrote to it gives it; and not one of which other bytes were written."""
    image = image_of(file, (16, 100))
    assert not is_overwritten(image)
    with file.open("r+b") as opened:
        opened.seek(200)
        opened.write(b"other")
    assert not is_overwritten(image)
    with file.open("r+b") as opened:
        opened.seek(60)
        opened.write(b"other")
    os.utime(file, ns=(0, 0))
    assert is_overwritten(image)
    file.write_bytes(CONTENT[:60])
    assert is_overwritten(image)


@pytest.mark.parametrize("offset", [0, 100, len(CONTENT) - 1, 4095])
def test_a_file_without_breakpoints_is_not_probed(file: Path, offset: int) -> None:
    """It is mapped to see whether they are there."""
    assert not is_probed(image_of(file), offset)


def test_what_cannot_be_told_of_a_file_is_taken_for_probed(file: Path) -> None:
    image = image_of(file)
    assert is_probed(image, 1 << 40)
    file.unlink()
    assert is_probed(image, 0)
    assert status_of(image) is None


def test_the_status_of_a_file_changes_when_it_is_touched(file: Path) -> None:
    before = status_of(image_of(file))
    os.utime(file, ns=(1, 1))
    assert status_of(image_of(file)) not in (None, before)
