# SPDX-License-Identifier: Apache-2.0
"""docs/README.md, the index: every document once, grouped as the folders are, and no folder that is too full to survey."""

from __future__ import annotations

import re
from collections import Counter

from pages import DOCUMENTS, TOP, links

DOCS = TOP / "docs"
INDEX = DOCS / "README.md"


def test_every_document_is_in_the_index() -> None:
    there = {str(document.relative_to(DOCS)) for document in DOCUMENTS if DOCS in document.parents and document != INDEX}
    named = Counter(link for line in INDEX.read_text().splitlines() if line.startswith("|") for link in links(line))
    assert set(named) == there
    assert set(named.values()) == {1}


def test_a_document_stands_in_the_group_of_its_folder() -> None:
    for group, rows in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", INDEX.read_text(), re.MULTILINE | re.DOTALL):
        folders = {link.partition("/")[0] for link in links(rows) if "/" in link and link.endswith(".md")}
        assert folders == {group.lower()}


def test_no_folder_shows_more_than_fifteen_files() -> None:
    folders = [DOCS, *(folder for folder in DOCS.rglob("*") if folder.is_dir())]
    assert {str(folder): count for folder in folders if (count := sum(file.is_file() for file in folder.iterdir())) > 15} == {}


def test_a_documents_name_is_its_own() -> None:
    """The tests and the man pages look for a subcommand's document by its name."""
    names = Counter(document.stem for document in DOCUMENTS if DOCS in document.parents)
    assert [name for name, count in names.items() if count > 1] == []
