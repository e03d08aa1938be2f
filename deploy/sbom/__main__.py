# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials (SBOM) of a package, SPDX 2.3 in JSON, while the package is built.

    python -m deploy.sbom contents FOLDER FILE WHEELS…       FILE tells what FOLDER holds, which was made of the wheels
    python -m deploy.sbom debian CONTROL FILE                and what a Debian package depends on
    python -m deploy.sbom rpm REQUIRES RECOMMENDS FILE       and what an RPM depends on
    python -m deploy.sbom image SUITE FILE IMAGE <PACKAGES   IMAGE tells what an image with that package holds
    python -m deploy.sbom format                             the format in which dpkg-query lists PACKAGES

The time in it is SOURCE_DATE_EPOCH, if that is set. Takes Python alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from deploy.sbom import dependencies, wheels
from deploy.sbom.spdx import Component, Dependency, of_contents, of_image, text_of, with_dependencies

PROGRAM = "ssllatency"
SUPPLIER = "Organization: The ssllatency authors"


def write_contents(folder: str, file: str, *wheel_folders: str) -> None:
    """The SBOM of what was staged: ssllatency, and the wheels of others that it ships."""
    found = wheels.contents(wheels.files_below(Path(folder)), wheels.all_in(map(Path, wheel_folders)))
    (own,) = (part for part in found if part.name == PROGRAM)
    subject = Component("generic", PROGRAM, own.version, own.licence, purpose="APPLICATION", supplier=SUPPLIER)
    created_s = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    document = of_contents(subject, (part for part in found if part is not own), created_s)
    Path(file).write_text(text_of(document), encoding="utf-8")


def add_dependencies(file: str, found: list[Dependency]) -> None:
    """The SBOM in the file, with what its package depends on."""
    document = with_dependencies(json.loads(Path(file).read_text(encoding="utf-8")), found)
    Path(file).write_text(text_of(document), encoding="utf-8")


def add_debians(control: str, file: str) -> None:
    add_dependencies(file, dependencies.of_debian(Path(control).read_text(encoding="utf-8")))


def add_rpms(requires: str, recommends: str, file: str) -> None:
    add_dependencies(file, dependencies.of_rpm(*(Path(each).read_text().splitlines() for each in (requires, recommends))))


def write_images(suite: str, file: str, image: str) -> None:
    """The SBOM of an image: the package's, and what of Debian is in the image."""
    document = json.loads(Path(file).read_text(encoding="utf-8"))
    installed = [part for part in dependencies.installed(sys.stdin, suite) if part.name != PROGRAM]
    (version,) = (package["versionInfo"] for package in document["packages"] if package["name"] == PROGRAM)
    named = f"{PROGRAM}-image"
    subject = Component("generic", named, version, qualifiers=f"distro={suite}", purpose="CONTAINER", supplier=SUPPLIER)
    Path(image).write_text(text_of(of_image(document, subject, installed)), encoding="utf-8")


def print_format() -> None:
    print(dependencies.DPKG_FORMAT, end="")


ACTIONS = {"contents": write_contents, "debian": add_debians, "rpm": add_rpms, "image": write_images, "format": print_format}


def main() -> int:
    action, *words = sys.argv[1:] or [""]
    if action not in ACTIONS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        ACTIONS[action](*words)  # type: ignore[operator]
    except (wheels.WrongContentsError, ValueError) as error:
        print(f"deploy.sbom: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
