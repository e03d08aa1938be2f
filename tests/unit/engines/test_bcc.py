# SPDX-License-Identifier: Apache-2.0
"""What the bcc engine tells its program, against the headers that both engines share."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ssllatency import abi
from ssllatency.engines.bcc_engine import _OF_OTHERS, _VALUES
from ssllatency.engines.bpf.objects import sources_path
from ssllatency.model.histogram import octave_bounds

TOP = Path(__file__).resolve().parents[3]


def included(source: Path) -> set[Path]:
    """The file and all that it includes of bpf/. Some include each other."""
    found, work = {source}, [source]
    while work:
        names = re.findall(r'#include "([^"]+)"', work.pop().read_text())
        work += (new := {TOP / "bpf" / name for name in names} - found)
        found |= new
    return found


def test_the_boundaries_are_those_of_the_header() -> None:
    text = (TOP / "bpf" / "common" / "histogram.bpf.h").read_text()
    table = re.search(r"mantissas\[16\] = \{(.*?)\};", text, re.DOTALL)
    assert table
    assert [int(word, 16) for word in re.findall(r"0x\w+", table[1])] == octave_bounds(63)


def test_every_descriptor_that_the_headers_ask_for_is_given() -> None:
    sources = included(TOP / "bpf" / "bcc" / "ssllatency.bcc.c")
    text = "".join(source.read_text() for source in sources)
    asked = set(re.findall(r"(?:SSLL_MAP|SSLL_VALUE|DEFINE_EMPTY_PROG_ARRAY)\((\w+)\)", text)) - {"name"}
    assert asked == {*abi.MAPS, *_VALUES} - {*_OF_OTHERS}
    assert len(sources) > 5


@pytest.mark.parametrize("name", sorted(abi.MAPS))
def test_maps_have_sizes_and_entries(name: str) -> None:
    shape = abi.MAPS[name]
    assert min(shape.kind, shape.key_size, shape.value_size, shape.entries) > 0


def test_the_sources_are_found_in_a_checkout() -> None:
    assert (sources_path() / "bcc" / "ssllatency.bcc.c").is_file()


def test_no_other_module_imports_bcc() -> None:
    importing = [
        path for path in (TOP / "python").rglob("*.py") if re.search(r"^\s*(import|from) bcc\b", path.read_text(), re.M)
    ]
    assert [path.name for path in importing] == ["bcc_engine.py"]
    assert "bcc" not in " ".join(tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"])
