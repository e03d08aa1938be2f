# SPDX-License-Identifier: Apache-2.0
"""Which kernels of the mirror are booted, told from the names of its packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Of 7.x `image` is an empty package that depends on the two others.
_PARTS = ("image", "binary", "modules")


@dataclass(frozen=True)
class Wanted:
    """A kernel by the suites that may have it, oldest first; the newest whose version begins so is taken."""

    suites: tuple[str, ...]
    version: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel of the mirror. `release` is what `uname -r` says in it."""

    release: str
    suite: str
    packages: tuple[str, ...]
    headers: tuple[str, ...] = ()


# What is booted, by the name that KERNELS= and the results give it. "newest" is looked up at each set-up.
WANTED = {
    "6.1": Wanted(("bookworm",), "6.1"),
    "6.12": Wanted(("trixie",), "6.12"),
    "newest": Wanted(("trixie", "trixie-backports", "sid")),
    "sid": Wanted(("sid",)),
}


def version_of(release: str) -> tuple[int, ...]:
    """What releases are compared by: (7, 2, 12, 13) of "7.2.12+deb13-cloud-amd64"."""
    return tuple(int(number) for number in re.findall(r"\d+", release.partition("-cloud-")[0]))


def newest_release(names: Iterable[str], architecture: str, version: str = "") -> str | None:
    """The newest release among packages' names whose version begins so; None where there is none.

    Debian's cloud kernels, which have the drivers of virtual machines only; not their unsigned or debug packages.
    """
    pattern = re.compile(rf"linux-image-(\d[\w.+~-]*-cloud-{re.escape(architecture)})")
    releases = [found[1] for name in names if (found := pattern.fullmatch(name))]
    asked = tuple(int(number) for number in version.split(".") if number)
    fitting = [release for release in releases if version_of(release)[: len(asked)] == asked]
    return max(fitting, key=version_of, default=None)


def packages_of(release: str, names: Iterable[str]) -> tuple[str, ...]:
    """The packages that hold a release's image and modules."""
    present = set(names)
    return tuple(name for part in _PARTS if (name := f"linux-{part}-{release}") in present)


def headers_of(release: str, names: Iterable[str]) -> tuple[str, ...]:
    """The packages that hold a release's headers, those of its architecture first."""
    present = set(names)
    parts = (f"linux-headers-{release}", f"linux-headers-{release.partition('-cloud-')[0]}-common")
    return tuple(name for name in parts if name in present)


def choose(wanted: Wanted, names_by_suite: Mapping[str, Iterable[str]], architecture: str) -> Kernel | None:
    """The newest kernel that fits among the suites that the mirror has; None where none of them has one."""
    found: Kernel | None = None
    for suite in wanted.suites:
        names = list(names_by_suite.get(suite, ()))
        release = newest_release(names, architecture, wanted.version)
        if release and (found is None or version_of(release) > version_of(found.release)):
            found = Kernel(release, suite, packages_of(release, names), headers_of(release, names))
    return found
