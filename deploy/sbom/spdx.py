# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a package as SPDX 2.3 in JSON: functions of values alone.

The package that is described contains what it ships of others (CONTAINS), and needs what the system has (DEPENDS_ON,
OPTIONAL_DEPENDENCY_OF); the comment of such a relationship is the range of versions, as the package manager writes it. The same
values give the same document: its namespace is a digest of the rest, and its time is given.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

Document = dict[str, Any]

_DOCUMENT_ID = "SPDXRef-DOCUMENT"
_NAMESPACES = uuid.uuid5(uuid.NAMESPACE_OID, "ssllatency bill of materials")


@dataclass(frozen=True)
class Component:
    """A part with a version of its own. `kind` is a purl's type (pypi, deb, generic), `qualifiers` what its purl tells besides,
    and `sha256` the digest of the file that was unpacked, "" if there is none."""

    kind: str
    name: str
    version: str
    licence: str = "NOASSERTION"
    file_name: str = ""
    sha256: str = ""
    namespace: str = ""
    qualifiers: str = ""
    source: str = ""
    purpose: str = "LIBRARY"
    supplier: str = "NOASSERTION"

    @property
    def purl(self) -> str:
        """The package URL."""
        place = f"{self.kind}/{self.namespace}/" if self.namespace else f"{self.kind}/"
        named = f"{quote(self.name, safe='')}@{quote(self.version, safe='')}"
        return f"pkg:{place}{named}{'?' if self.qualifiers else ''}{self.qualifiers}"

    @property
    def spdx_id(self) -> str:
        return identifier(self.kind, self.name)


@dataclass(frozen=True)
class Dependency:
    """What the system has to have, or may have: its name, and the whole term by which the package manager names it with its
    versions, as `python3 (>= 3.11)`. Debian's have a purl, capabilities of RPM none."""

    name: str
    term: str
    optional: bool = False
    purl: str = ""

    @property
    def spdx_id(self) -> str:
        return identifier("system", self.name)


def identifier(*words: str) -> str:
    """An SPDX identifier made of words: of letters, digits, dots and hyphens."""
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-") for word in words)


def of_contents(subject: Component, contents: Iterable[Component], created_s: int) -> Document:
    """The document of a package that contains others' parts."""
    parts = sorted(contents, key=lambda part: part.name)
    return _complete(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": _DOCUMENT_ID,
            "name": f"{subject.name}-{subject.version}",
            "creationInfo": {
                "created": datetime.fromtimestamp(created_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "creators": [f"Tool: ssllatency-sbom-{subject.version}"],
            },
            "packages": [_package(part) for part in (subject, *parts)],
            "relationships": [
                _relationship(_DOCUMENT_ID, "DESCRIBES", subject.spdx_id),
                *(_relationship(subject.spdx_id, "CONTAINS", part.spdx_id) for part in parts),
            ],
        }
    )


def with_dependencies(document: Document, dependencies: Sequence[Dependency]) -> Document:
    """The document with what its package depends on; what it had of that before is left out."""
    subject = described(document)
    old = {package["SPDXID"] for package in document["packages"] if package["SPDXID"].startswith(identifier("system", ""))}
    kept = [package for package in document["packages"] if package["SPDXID"] not in old]
    ties = [tie for tie in document["relationships"] if not {tie["spdxElementId"], tie["relatedSpdxElement"]} & old]
    packages = {dependency.spdx_id: _system_package(dependency) for dependency in dependencies}
    new = [_dependence(subject, dependency.spdx_id, dependency) for dependency in dependencies]
    return _complete({**document, "packages": [*kept, *packages.values()], "relationships": [*ties, *new]})


def of_image(document: Document, image: Component, installed: Iterable[Component]) -> Document:
    """The document of an image that has the document's package and `installed`, which includes what it depends on; of what it
    doesn't need, only what is installed is listed."""
    subject = described(document)
    parts = sorted(installed, key=lambda part: part.name)
    of_name = {part.name: part.spdx_id for part in parts}
    resolved = {
        package["SPDXID"]: of_name[package["name"]]
        for package in document["packages"]
        if package["SPDXID"].startswith(identifier("system", "")) and package["name"] in of_name
    }
    absent = {
        tie["spdxElementId"]
        for tie in document["relationships"]
        if tie["relationshipType"] == "OPTIONAL_DEPENDENCY_OF" and tie["spdxElementId"] not in resolved
    }
    packages = [one for one in document["packages"] if one["SPDXID"] not in resolved.keys() | absent]
    ties = [
        {key: resolved.get(value, value) for key, value in tie.items()}
        for tie in document["relationships"]
        if tie["relationshipType"] != "DESCRIBES" and tie["spdxElementId"] not in absent
    ]
    contained = (subject, *(part.spdx_id for part in parts))
    return _complete(
        {
            **document,
            "name": f"{image.name}-{image.version}",
            "packages": [_package(image), *packages, *(_package(part) for part in parts)],
            "relationships": [
                _relationship(_DOCUMENT_ID, "DESCRIBES", image.spdx_id),
                *(_relationship(image.spdx_id, "CONTAINS", part) for part in contained),
                *ties,
            ],
        }
    )


def described(document: Document) -> str:
    """The identifier of the package that the document is about."""
    (subject,) = (tie["relatedSpdxElement"] for tie in document["relationships"] if tie["relationshipType"] == "DESCRIBES")
    return str(subject)


def text_of(document: Document) -> str:
    """The document as it is written."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _complete(document: Document) -> Document:
    """The document with a namespace that is no other's, as SPDX asks for one; its keys in an order for people."""
    rest = {key: value for key, value in document.items() if key != "documentNamespace"}
    namespace = f"urn:uuid:{uuid.uuid5(_NAMESPACES, json.dumps(rest, sort_keys=True))}"
    head = ("spdxVersion", "dataLicense", "SPDXID", "name")
    return {**{key: rest.pop(key) for key in head}, "documentNamespace": namespace, **rest}


def _package(component: Component) -> Document:
    optional: Document = {}
    if component.file_name:
        optional["packageFileName"] = component.file_name
    if component.sha256:
        optional["checksums"] = [{"algorithm": "SHA256", "checksumValue": component.sha256}]
    if component.source:
        optional["sourceInfo"] = component.source
    return {
        "SPDXID": component.spdx_id,
        "name": component.name,
        "versionInfo": component.version,
        "supplier": component.supplier,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": component.licence,
        "licenseDeclared": component.licence,
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": component.purpose,
        **optional,
        "externalRefs": [_purl(component.purl)],
    }


def _system_package(dependency: Dependency) -> Document:
    return {
        "SPDXID": dependency.spdx_id,
        "name": dependency.name,
        "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "comment": "Not in this package: the system has it.",
        **({"externalRefs": [_purl(dependency.purl)]} if dependency.purl else {}),
    }


def _purl(purl: str) -> dict[str, str]:
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}


def _relationship(element: str, kind: str, related: str) -> dict[str, str]:
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}


def _dependence(subject: str, dependency_id: str, dependency: Dependency) -> dict[str, str]:
    if dependency.optional:
        return {**_relationship(dependency_id, "OPTIONAL_DEPENDENCY_OF", subject), "comment": dependency.term}
    return {**_relationship(subject, "DEPENDS_ON", dependency_id), "comment": dependency.term}
