# SPDX-License-Identifier: Apache-2.0
"""Makes a plotting library's SVG file a part of a page: its colours become the page's, its text stays text, its ids its own.

Colours are given to the library as hexadecimal stand-ins; here each becomes a CSS variable, so that the page's style sheet
decides what it is in light, in dark and on paper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from ssllatency.reports.html.words import style_name
from ssllatency.reports.words.parts import CLIENT_PIECES

_NAMES = (
    "ink", "muted", "grid", "paper", "on-work", "heat",
    "p50", "p90", "p99", "after", "before",
    "hatch", *(style_name(part) for part in CLIENT_PIECES),
)  # fmt: skip
# The stand-in of each of the page's colours.
COLOURS: Mapping[str, str] = {name: f"#fe01{number:02x}" for number, name in enumerate(_NAMES)}

_VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
_HEXADECIMAL = re.compile(r"#[0-9a-f]{6}(?![0-9a-f])")
_REFERENCE = re.compile(r"(?<=url\(#)[\w.-]+")
_DECIMALS = re.compile(r"(-?\d+\.\d)\d+")
# What the page's own style says for all text.
_FONT = re.compile(r"(?:^|; )font-family: [^;]*")
_NUMBERS = ("d", "x", "y", "width", "height")
_NOT_TURNED = "rotate(-0 "


def embedded(svg: str, key: str, title: str, description: str) -> str:
    """The drawing as an element of an HTML page, an image to assistive software, named and described by these texts.

    `key` begins all its ids; it must be another for each drawing of a page.
    """
    root = ElementTree.fromstring(svg)
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        for name in list(element.attrib):
            element.attrib[_local(name)] = element.attrib.pop(name)
        for unwanted in [child for child in element if _local(child.tag) in ("metadata", "style")]:
            element.remove(unwanted)
    _rename(root, key)
    for element in root.iter():
        _restyle(element)
    _name(root, key, title, description)
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rename(root: ElementTree.Element, key: str) -> None:
    """Short ids for what is referred to, and none for anything else."""
    elements = list(root.iter())
    used = {name for element in elements for value in element.attrib.values() for name in _REFERENCE.findall(value)}
    used |= {element.attrib["href"][1:] for element in elements if element.tag == "use"}
    names = {name: f"{key}{number}" for number, name in enumerate(sorted(used))}
    for element in elements:
        own = names.get(element.attrib.pop("id", ""))
        for attribute, value in list(element.attrib.items()):
            element.attrib[attribute] = _REFERENCE.sub(lambda match: names[match[0]], value)
        if element.tag == "use":
            element.attrib["href"] = f"#{names[element.attrib['href'][1:]]}"
        if own:
            element.attrib["id"] = own


def _restyle(element: ElementTree.Element) -> None:
    element.text, element.tail = (text.strip() if text else None for text in (element.text, element.tail))
    for attribute in _NUMBERS:
        if attribute in element.attrib:
            element.attrib[attribute] = _DECIMALS.sub(r"\1", " ".join(element.attrib[attribute].split()))
    if element.attrib.get("transform", "").startswith(_NOT_TURNED):
        del element.attrib["transform"]
    # A presentation attribute can't hold a variable, a style can.
    fill = element.attrib.pop("fill", None)
    style = "; ".join(filter(None, (element.attrib.pop("style", ""), f"fill: {fill}" if fill else "")))
    if style:
        element.attrib["style"] = _HEXADECIMAL.sub(lambda match: _VARIABLES[match[0]], _FONT.sub("", style))
    if element.tag == "image":
        element.attrib["href"] = "".join(element.attrib["href"].split())


def _name(root: ElementTree.Element, key: str, title: str, description: str) -> None:
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{key}t",
        "aria-describedby": f"{key}d",
    }
    for position, (tag, letter, text) in enumerate((("title", "t", title), ("desc", "d", description))):
        element = ElementTree.Element(tag, {"id": f"{key}{letter}"})
        element.text = text
        root.insert(position, element)
