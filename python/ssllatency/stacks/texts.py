# SPDX-License-Identifier: Apache-2.0
"""Texts that tables point to, and the tables that point to a text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ssllatency.elf.image import Image

MAX_OCCURRENCES = 16
MAX_PLACES = 1024


def readable(image: Image, address: int) -> str:
    """The text at `address` if it is one of printable ASCII, else ""."""
    text = image.text(address)
    return text if text.isascii() and text.isprintable() else ""


def text_at(image: Image, place: int) -> str:
    """The readable text that the word at `place` points to, "" if none."""
    target = image.pointer(place)
    return readable(image, target) if target is not None else ""


def pointers_to_text(image: Image, text: bytes, most: int = MAX_PLACES) -> Iterator[int]:
    """The addresses, `most` at most, of words that point to `text`; only its first MAX_OCCURRENCES are looked at."""
    addresses = islice(image.find_string(text), MAX_OCCURRENCES)
    return islice((place for address in addresses for place in image.pointers_to(address)), most)
