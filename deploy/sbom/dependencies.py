# SPDX-License-Identifier: Apache-2.0
"""What package managers say of dependencies, and of what is installed, as values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from deploy.sbom.spdx import Component, Dependency

# Fields of a binary package's control file, and whether the package works without what they name.
_DEBIAN_FIELDS = {"Pre-Depends": False, "Depends": False, "Recommends": True, "Suggests": True}
_DEBIAN_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")
# What rpm requires of itself, and of the package's own configuration files.
_RPMS_OWN = ("rpmlib(", "config(")


def of_debian(control: str) -> list[Dependency]:
    """Those that a control file names. Of alternatives the first gives the name; the term has them all."""
    unfolded = re.sub(r"\n[ \t]+", " ", control)
    fields = dict(line.split(": ", 1) for line in unfolded.splitlines() if ": " in line)
    return [
        _debian(term, optional)
        for field, optional in _DEBIAN_FIELDS.items()
        for term in re.split(r"\s*,\s*", fields.get(field, "").strip())
        if term
    ]


def _debian(term: str, optional: bool) -> Dependency:
    found = _DEBIAN_NAME.match(term)
    if not found:
        raise ValueError(f"no name of a Debian package: {term}")
    return Dependency(found[0], term, optional, f"pkg:deb/debian/{quote(found[0], safe='')}")


def of_rpm(requires: Iterable[str], recommends: Iterable[str]) -> list[Dependency]:
    """Those that `rpm -q --requires` and `rpm -q --recommends` print, without what only rpm itself means."""
    terms = [(term, False) for term in requires] + [(term, True) for term in recommends]
    return [
        Dependency(term.split()[0], term, optional)
        for term, optional in dict.fromkeys((term.strip(), optional) for term, optional in terms)
        if term and not term.startswith(_RPMS_OWN)
    ]


# What `dpkg-query --show` is asked for of each package.
DPKG_FORMAT = r"${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"


def installed(lines: Iterable[str], suite: str) -> list[Component]:
    """The packages that dpkg-query lists in DPKG_FORMAT, as those of that suite."""
    return [_installed(*line.rstrip("\n").split("\t"), suite=suite) for line in lines if line.strip()]


def _installed(name: str, version: str, architecture: str, source: str, source_version: str, suite: str) -> Component:
    return Component(
        "deb",
        name,
        version,
        namespace="debian",
        qualifiers=f"arch={architecture}&distro={suite}",
        source=f"built of Debian's source package {source} {source_version}",
    )
