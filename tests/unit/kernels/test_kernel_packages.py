# SPDX-License-Identifier: Apache-2.0
"""Which kernel of a mirror is taken."""

from __future__ import annotations

import pytest
from tests.kernels.packages import Kernel, Wanted, choose, headers_of, newest_release, packages_of, version_of

BOOKWORM = (
    "linux-image-6.1.0-9-cloud-amd64",
    "linux-image-6.1.0-50-cloud-amd64",
    "linux-image-6.1.0-51-cloud-amd64-dbg",
    "linux-image-6.1.0-52-cloud-amd64-unsigned",
    "linux-image-6.1.0-53-amd64",
    "linux-image-6.1.0-54-cloud-arm64",
    "linux-image-cloud-amd64",
)
BACKPORTS = (
    "linux-image-7.2.12+deb13-cloud-amd64",
    "linux-image-7.3.4+deb13-cloud-amd64",
    "linux-binary-7.3.4+deb13-cloud-amd64",
    "linux-modules-7.3.4+deb13-cloud-amd64",
    "linux-modules-7.4.1+deb13-cloud-amd64",
)
SID = ("linux-image-7.2.13+deb14-cloud-amd64",)


@pytest.mark.parametrize(
    ("names", "architecture", "version", "release"),
    [
        (BOOKWORM, "amd64", "6.1", "6.1.0-50-cloud-amd64"),
        (BOOKWORM, "arm64", "6.1", "6.1.0-54-cloud-arm64"),
        (BOOKWORM, "amd64", "6.12", None),
        (BACKPORTS, "amd64", "", "7.3.4+deb13-cloud-amd64"),
        (BACKPORTS, "amd64", "7.2", "7.2.12+deb13-cloud-amd64"),
        ((), "amd64", "", None),
    ],
)
def test_the_newest_release_that_fits(names: tuple[str, ...], architecture: str, version: str, release: str | None) -> None:
    assert newest_release(names, architecture, version) == release


def test_versions_are_compared_by_number() -> None:
    releases = ["6.9.12+deb13-cloud-amd64", "6.12.94+deb13-cloud-amd64", "6.12.107+deb13-cloud-amd64", "7.0.1-cloud-amd64"]
    assert sorted(set(releases), key=version_of) == releases


def test_the_newest_of_several_suites_with_its_packages() -> None:
    found = choose(Wanted(("trixie-backports", "sid")), {"trixie-backports": BACKPORTS, "sid": SID}, "amd64")
    assert found == Kernel("7.3.4+deb13-cloud-amd64", "trixie-backports", (BACKPORTS[1], BACKPORTS[2], BACKPORTS[3]))


def test_a_mirror_without_one_of_the_suites() -> None:
    found = choose(Wanted(("trixie-backports", "sid")), {"sid": SID}, "amd64")
    assert found == Kernel("7.2.13+deb14-cloud-amd64", "sid", SID)
    assert choose(Wanted(("trixie-backports",)), {}, "amd64") is None


def test_an_image_that_holds_its_modules() -> None:
    assert packages_of("6.1.0-50-cloud-amd64", BOOKWORM) == ("linux-image-6.1.0-50-cloud-amd64",)


@pytest.mark.parametrize(
    ("release", "headers"),
    [
        ("6.1.0-50-cloud-amd64", ("linux-headers-6.1.0-50-cloud-amd64", "linux-headers-6.1.0-50-common")),
        ("7.3.4+deb13-cloud-arm64", ("linux-headers-7.3.4+deb13-cloud-arm64", "linux-headers-7.3.4+deb13-common")),
    ],
)
def test_a_kernels_own_headers(release: str, headers: tuple[str, ...]) -> None:
    others = ("linux-headers-6.1.0-47-common", "linux-headers-6.1.0-50-common-rt", "linux-headers-cloud-amd64")
    assert headers_of(release, (*others, *headers)) == headers
