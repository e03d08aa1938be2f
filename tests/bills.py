# SPDX-License-Identifier: Apache-2.0
"""What a bill of materials must have: what SPDX 2.3 requires of its JSON, as far as ours has the kinds of elements, and what is
in the package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
# Where the packages have the parts of others.
FOLDERS = {
    "capstone": "capstone",
    "pyelftools": "elftools",
    "protobuf": "google",
    "opentelemetry-proto": "opentelemetry",
    "textual": "textual",
    "rich": "rich",
    "pygments": "pygments",
    "platformdirs": "platformdirs",
    "markdown-it-py": "markdown_it",
    "mdit-py-plugins": "mdit_py_plugins",
    "linkify-it-py": "linkify_it",
    "mdurl": "mdurl",
    "typing-extensions": "typing_extensions.py",
}

_DOCUMENT = ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships")
_PACKAGE = ("SPDXID", "name", "downloadLocation", "filesAnalyzed", "licenseConcluded", "licenseDeclared", "copyrightText")
_RELATIONSHIP = ("spdxElementId", "relationshipType", "relatedSpdxElement")
_KINDS = {"DESCRIBES", "CONTAINS", "DEPENDS_ON", "OPTIONAL_DEPENDENCY_OF"}
_PURPOSES = {"APPLICATION", "LIBRARY", "CONTAINER"}
_IDENTIFIER = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PURL = re.compile(r"pkg:[a-z]+(/[A-Za-z0-9.%-]+){1,2}(@[A-Za-z0-9._~%-]+)?(\?[a-z]+=[a-z0-9_-]+(&[a-z]+=[a-z0-9_-]+)*)?")
# Those that parts of ours have, by the names of SPDX's list.
LICENCES = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "GPL-2.0-only", "MIT", "NCSA", "PSF-2.0", "Unlicense"}


def faults(document: dict[str, Any]) -> list[str]:
    """What is missing or wrong."""
    return [*_of_the_document(document), *(fault for one in document["packages"] for fault in _of_package(one))]


def _of_the_document(document: dict[str, Any]) -> Iterator[str]:
    yield from (f"no {key}" for key in _DOCUMENT if not document.get(key))
    if (document["spdxVersion"], document["dataLicense"], document["SPDXID"]) != ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"):
        yield "not a document of SPDX 2.3"
    if not re.fullmatch(r"[a-z]+:[^#\s]+", document["documentNamespace"]):
        yield f"namespace: {document['documentNamespace']}"
    creation = document["creationInfo"]
    if not _TIME.fullmatch(creation["created"]) or not all(one.startswith("Tool: ") for one in creation["creators"]):
        yield f"created: {creation}"
    identifiers = ["SPDXRef-DOCUMENT", *(package["SPDXID"] for package in document["packages"])]
    yield from (f"not unique: {one}" for one in {one for one in identifiers if identifiers.count(one) > 1})
    yield from _of_relationships(document, set(identifiers))


def _of_relationships(document: dict[str, Any], identifiers: set[str]) -> Iterator[str]:
    ties = document["relationships"]
    if [tie["spdxElementId"] for tie in ties if tie["relationshipType"] == "DESCRIBES"] != ["SPDXRef-DOCUMENT"]:
        yield "not a document about one package"
    tied = set()
    for tie in ties:
        ends = {tie[key] for key in _RELATIONSHIP if key != "relationshipType"}
        tied |= ends
        if not ends <= identifiers or tie["relationshipType"] not in _KINDS:
            yield f"relationship: {tie}"
    yield from (f"tied to nothing: {one}" for one in identifiers - tied)


def _of_package(package: dict[str, Any]) -> Iterator[str]:
    name = package.get("name")
    yield from (f"{name}: no {key}" for key in _PACKAGE if key not in package)
    if not _IDENTIFIER.fullmatch(package["SPDXID"]):
        yield f"{name}: {package['SPDXID']}"
    if package["filesAnalyzed"] or package.get("primaryPackagePurpose", "LIBRARY") not in _PURPOSES:
        yield f"{name}: {package}"
    for key in ("licenseConcluded", "licenseDeclared"):
        words = set(re.findall(r"[^\s()]+", package[key])) - {"AND", "OR"}
        if package[key] != "NOASSERTION" and not words <= LICENCES:
            yield f"{name}: {key}: {package[key]}"
    for checksum in package.get("checksums", []):
        if checksum["algorithm"] != "SHA256" or not re.fullmatch(r"[0-9a-f]{64}", checksum["checksumValue"]):
            yield f"{name}: {checksum}"
    for reference in package.get("externalRefs", []):
        kind = (reference["referenceCategory"], reference["referenceType"])
        if kind != ("PACKAGE-MANAGER", "purl") or not _PURL.fullmatch(reference["referenceLocator"]):
            yield f"{name}: {reference}"


def of(root: Path) -> dict[str, Any]:
    """The one of the package that is installed below `root`."""
    document: dict[str, Any] = json.loads((root / "usr/share/doc/ssllatency/ssllatency.spdx.json").read_text())
    return document


def terms(document: dict[str, Any], kind: str) -> list[str]:
    """What it depends on, as the package manager writes it."""
    return [tie["comment"] for tie in document["relationships"] if tie["relationshipType"] == kind]


def differences(document: dict[str, Any], root: Path) -> list[str]:
    """What it doesn't list though it is installed below `root`, and the other way round; parts whose digests aren't those that
    requirements/ allows, or whose modules say another version."""
    lib = root / "usr/lib/ssllatency"
    contained = {tie["relatedSpdxElement"] for tie in document["relationships"] if tie["relationshipType"] == "CONTAINS"}
    parts = {package["name"]: package for package in document["packages"] if package["SPDXID"] in contained}
    there = {path.name for path in lib.iterdir()} - {"ssllatency", "__pycache__"}
    found = [f"{name} isn't listed" for name in there - {FOLDERS.get(name) for name in parts}]
    found += [f"{name} isn't there" for name in parts if FOLDERS.get(name) not in there]
    allowed = "".join((TOP / "requirements" / name).read_text() for name in ("run.txt", "packages.txt"))
    for name, part in parts.items():
        (checksum,) = (one["checksumValue"] for one in part["checksums"])
        if f"--hash=sha256:{checksum}" not in allowed or f"{name}=={part['versionInfo']}" not in allowed:
            found.append(f"{name} isn't of requirements/")
    for name, module in (("pyelftools", "elftools"), ("protobuf", "google/protobuf")):  # those that say their version
        versions = re.findall(r"^__version__ = '(.*)'$", (lib / module / "__init__.py").read_text(), re.MULTILINE)
        if versions != [parts[name]["versionInfo"]]:
            found.append(f"{name} is {versions}")
    return found
