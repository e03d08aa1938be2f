# SPDX-License-Identifier: Apache-2.0
"""The screenshots in docs/pictures: light and dark, small, shown somewhere, and of what the program makes now."""

from __future__ import annotations

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from pages import DOCUMENTS, TOP
from PIL import Image

FOLDER = TOP / "docs" / "pictures"
_BYTES = 60_000


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """tools/pictures as a module."""
    loader = SourceFileLoader("pictures", str(TOP / "tools" / "pictures"))
    spec = spec_from_loader("pictures", loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_each_is_there_in_light_and_dark_and_small() -> None:
    names = {re.sub(r"-(light|dark)$", "", file.stem) for file in FOLDER.iterdir()}
    assert "page" in names
    assert {file.name for file in FOLDER.iterdir()} == {
        f"{name}-{scheme}.png" for name in names for scheme in ("light", "dark")
    }
    assert [file.name for file in FOLDER.iterdir() if file.stat().st_size > _BYTES] == []


def test_each_is_shown() -> None:
    shown = {
        (document.parent / path).resolve()
        for document in DOCUMENTS
        for path in re.findall(r'(?:srcset|src)="([^"]+\.png)"', document.read_text())
    }
    assert shown == set(FOLDER.iterdir())


def test_the_page_is_as_the_program_makes_it(pictures: ModuleType) -> None:
    expected = pictures.digest(pictures.page())
    found = {file.name: Image.open(file).info["content"] for file in FOLDER.glob("page-*.png")}
    assert found == dict.fromkeys(found, expected), "run `make pictures`"


@pytest.mark.slow
def test_the_screen_of_top_is_as_the_program_makes_it(pictures: ModuleType) -> None:
    expected = pictures.digest(pictures.top())
    found = {file.name: Image.open(file).info["content"] for file in FOLDER.glob("top-*.png")}
    assert found == {"top-light.png": expected, "top-dark.png": expected}, "run `make pictures`"


def test_a_name_without_a_file_is_refused(pictures: ModuleType, tmp_path: Path) -> None:
    shot = tmp_path / "top.svg"
    shot.write_text("<svg/>")
    assert pictures.named(f"top={shot}") == ("top", shot)
    for text in ("top", "top=/nowhere.svg", f"../top={shot}"):
        with pytest.raises(Exception, match=r"isn't NAME=FILE\.svg"):
            pictures.named(text)
