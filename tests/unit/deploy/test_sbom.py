# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of packages, of wheels and lists that are made here."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.bills import faults

from deploy.sbom import dependencies, wheels
from deploy.sbom.spdx import Component, Dependency, of_contents, of_image, text_of, with_dependencies

TOP = Path(__file__).resolve().parents[3]
SUBJECT = Component("generic", "ssllatency", "1.0", "Apache-2.0", purpose="APPLICATION")
CAPSTONE = Component("pypi", "capstone", "5.0.9", "BSD-3-Clause AND NCSA", "capstone.whl", "ab" * 32)
PYELFTOOLS = Component("pypi", "pyelftools", "0.33", "Unlicense AND MIT", "pyelftools.whl", "cd" * 32)
WHEN_S = 1_700_000_000
CONTROL = """\
Package: ssllatency
Depends: libbpf1, python3 (>= 3.11), python3:any,
 libc6 (>= 2.14), libstdc++6
Recommends: bpftrace | bcc (<< 2)
Description: latency
 Depends: on nothing
"""
DOCUMENT = of_contents(SUBJECT, [PYELFTOOLS, CAPSTONE], WHEN_S)
OF_DEBIAN = with_dependencies(DOCUMENT, dependencies.of_debian(CONTROL))
PACKAGES = [
    "libbpf1\t1:1.5.0-3\tamd64\tlibbpf\t1:1.5.0-3\n",
    "libc6\t2.41-12+deb13u1\tamd64\tglibc\t2.41-12+deb13u1\n",
    "libstdc++6\t14.2.0-19\tamd64\tgcc-14\t14.2.0-19\n",
    "python3\t3.13.5-1\tamd64\tpython3-defaults\t3.13.5-1\n",
]
IMAGE = Component("generic", "ssllatency-image", "1.0", purpose="CONTAINER")
OF_IMAGE = of_image(OF_DEBIAN, IMAGE, dependencies.installed(PACKAGES, "trixie"))


def ties(document: dict, kind: str) -> list[tuple[str, str]]:
    return [
        (tie["spdxElementId"].removeprefix("SPDXRef-"), tie["relatedSpdxElement"].removeprefix("SPDXRef-"))
        for tie in document["relationships"]
        if tie["relationshipType"] == kind
    ]


def purls(document: dict) -> list[str]:
    return [one["referenceLocator"] for package in document["packages"] for one in package.get("externalRefs", [])]


@pytest.mark.parametrize("document", [DOCUMENT, OF_DEBIAN, OF_IMAGE], ids=["contents", "debian", "image"])
def test_it_has_what_spdx_asks_for(document: dict) -> None:
    assert faults(document) == []
    assert json.loads(text_of(document)) == document


def test_faults_are_found() -> None:
    """So that the test before says something."""
    (first, *others) = DOCUMENT["packages"]
    for wrong in (
        {"spdxVersion": "SPDX-2.2"},
        {"packages": others},
        {"packages": [first, first, *others]},
        {"packages": [{**first, "licenseDeclared": "BSD 3-Clause"}, *others]},
        {"packages": [{key: value for key, value in first.items() if key != "downloadLocation"}, *others]},
        {"creationInfo": {**DOCUMENT["creationInfo"], "created": "today"}},
        {"relationships": []},
    ):
        assert faults({**DOCUMENT, **wrong}), wrong


def test_it_lists_the_package_and_what_it_contains() -> None:
    assert DOCUMENT["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    assert ties(DOCUMENT, "DESCRIBES") == [("DOCUMENT", "generic-ssllatency")]
    assert ties(DOCUMENT, "CONTAINS") == [("generic-ssllatency", "pypi-capstone"), ("generic-ssllatency", "pypi-pyelftools")]
    capstone = DOCUMENT["packages"][1]
    assert (capstone["versionInfo"], capstone["licenseDeclared"]) == ("5.0.9", "BSD-3-Clause AND NCSA")
    assert capstone["checksums"] == [{"algorithm": "SHA256", "checksumValue": "ab" * 32}]
    assert purls(DOCUMENT) == ["pkg:generic/ssllatency@1.0", "pkg:pypi/capstone@5.0.9", "pkg:pypi/pyelftools@0.33"]


def test_the_same_makes_the_same_and_anything_else_has_another_namespace() -> None:
    again = of_contents(SUBJECT, [CAPSTONE, PYELFTOOLS], WHEN_S)
    assert text_of(again) == text_of(DOCUMENT)
    fewer, later = of_contents(SUBJECT, [CAPSTONE], WHEN_S), of_contents(SUBJECT, [CAPSTONE, PYELFTOOLS], WHEN_S + 1)
    others = (fewer, later, OF_DEBIAN, OF_IMAGE)
    assert len({document["documentNamespace"] for document in (DOCUMENT, *others)}) == len(others) + 1


def test_debians_dependencies_are_named_with_their_ranges() -> None:
    needed = [tie["comment"] for tie in OF_DEBIAN["relationships"] if tie["relationshipType"] == "DEPENDS_ON"]
    assert needed == ["libbpf1", "python3 (>= 3.11)", "python3:any", "libc6 (>= 2.14)", "libstdc++6"]
    optional = [tie["comment"] for tie in OF_DEBIAN["relationships"] if tie["relationshipType"] == "OPTIONAL_DEPENDENCY_OF"]
    assert optional == ["bpftrace | bcc (<< 2)"]
    assert ties(OF_DEBIAN, "OPTIONAL_DEPENDENCY_OF") == [("system-bpftrace", "generic-ssllatency")]
    assert purls(OF_DEBIAN)[3:] == [
        f"pkg:deb/debian/{name}" for name in ("libbpf1", "python3", "libc6", "libstdc%2B%2B6", "bpftrace")
    ]


def test_dependencies_are_replaced_when_they_are_told_again() -> None:
    again = with_dependencies(OF_DEBIAN, dependencies.of_debian(CONTROL))
    assert again == OF_DEBIAN
    assert with_dependencies(OF_DEBIAN, []) == DOCUMENT


def test_rpms_dependencies_are_its_capabilities() -> None:
    requires = ["/usr/bin/python3", "python(abi) >= 3.11", "libc.so.6(GLIBC_2.14)(64bit)", "rpmlib(FileDigests) <= 4.6.0-1"]
    requires += ["config(ssllatency) = 1.0-1", "/usr/bin/python3"]
    found = dependencies.of_rpm(requires, ["bpftrace"])
    assert found == [
        Dependency("/usr/bin/python3", "/usr/bin/python3"),
        Dependency("python(abi)", "python(abi) >= 3.11"),
        Dependency("libc.so.6(GLIBC_2.14)(64bit)", "libc.so.6(GLIBC_2.14)(64bit)"),
        Dependency("bpftrace", "bpftrace", optional=True),
    ]
    assert faults(with_dependencies(DOCUMENT, found)) == []


def test_an_image_contains_the_package_and_debian() -> None:
    image, own = "generic-ssllatency-image", "generic-ssllatency"
    assert ties(OF_IMAGE, "DESCRIBES") == [("DOCUMENT", image)]
    assert ties(OF_IMAGE, "CONTAINS") == [
        (image, own), (image, "deb-libbpf1"), (image, "deb-libc6"), (image, "deb-libstdc-6"), (image, "deb-python3"),
        (own, "pypi-capstone"), (own, "pypi-pyelftools"),
    ]  # fmt: skip
    assert ties(OF_IMAGE, "DEPENDS_ON") == [
        (own, f"deb-{name}") for name in ("libbpf1", "python3", "python3", "libc6", "libstdc-6")
    ]
    assert ties(OF_IMAGE, "OPTIONAL_DEPENDENCY_OF") == []
    assert "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=trixie" in purls(OF_IMAGE)
    assert "pkg:deb/debian/libbpf1@1%3A1.5.0-3?arch=amd64&distro=trixie" in purls(OF_IMAGE)
    assert not [purl for purl in purls(OF_IMAGE) if "bpftrace" in purl]


def wheel(folder: Path, name: str, licence: str = "", version: str = "1.0", files: tuple[str, ...] = ()) -> Path:
    """A wheel of these files, or of one module of its name."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"License-Expression: {licence}"] if licence else []
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\nVersion: of the description\n")
        for each in files or (f"{name}/__init__.py",):
            archive.writestr(each, "")
    return file


def test_a_wheel_tells_its_name_version_and_licence(tmp_path: Path) -> None:
    file = wheel(tmp_path, "opentelemetry_proto", "Apache-2.0", "1.45.2")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    made = wheels.read(file)
    assert made.component == Component("pypi", "opentelemetry-proto", "1.45.2", "Apache-2.0", file.name, digest)
    assert "opentelemetry_proto/__init__.py" in made.files


def test_a_wheel_without_a_licence_of_spdx_is_one_of_those_that_were_looked_at(tmp_path: Path) -> None:
    assert wheels.read(wheel(tmp_path, "capstone")).component.licence == wheels.LICENCES["capstone"]
    with pytest.raises(ValueError, match=r"other-1\.0-py3-none-any\.whl names no licence"):
        wheels.read(wheel(tmp_path, "other"))


def test_what_is_in_no_wheel_is_not_passed_over(tmp_path: Path) -> None:
    made = [wheels.read(wheel(tmp_path, name, "MIT")) for name in ("one", "other")]
    assert wheels.contents({"one/__init__.py"}, made) == [made[0].component]
    with pytest.raises(wheels.WrongContentsError, match=r"of no wheel: two/module\.py"):
        wheels.contents({"one/__init__.py", "two/module.py"}, made)
    with pytest.raises(wheels.WrongContentsError, match="more than one wheel of one"):
        wheels.contents({"one/__init__.py"}, [*made, wheels.read(wheel(tmp_path, "one", "MIT", "2.0"))])


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """A folder with a program and a library, and wheels of both and of one that isn't there."""
    for name, licence in (("ssllatency", "Apache-2.0"), ("capstone", ""), ("shtab", "Apache-2.0")):
        wheel(tmp_path, name, licence)
    for name in ("ssllatency", "capstone"):
        (tmp_path / "lib" / name).mkdir(parents=True)
        (tmp_path / "lib" / name / "__init__.py").write_text("")
    return tmp_path


def written(*words: object, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.sbom", *map(str, words)]
    environment = {"SOURCE_DATE_EPOCH": str(WHEN_S), "PYTHONPATH": str(TOP), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, input=given, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_program_writes_what_a_build_asks_for(staged: Path) -> None:
    file, image = staged / "sbom.json", staged / "image.json"
    (staged / "control").write_text(CONTROL)
    assert written("contents", staged / "lib", file, staged).returncode == 0
    assert [package["name"] for package in json.loads(file.read_text())["packages"]] == ["ssllatency", "capstone"]
    assert written("debian", staged / "control", file).returncode == 0
    assert written("image", "trixie", file, image, given="".join(PACKAGES)).returncode == 0
    for each in (file, image):
        assert faults(json.loads(each.read_text())) == []
    assert json.loads(image.read_text())["name"] == "ssllatency-image-1.0"
    (staged / "lib" / "capstone" / "added.py").write_text("")
    refused = written("contents", staged / "lib", file, staged)
    assert (refused.returncode, refused.stderr) == (1, "deploy.sbom: of no wheel: capstone/added.py\n")


def test_the_rpms_licence_is_that_of_all_it_contains() -> None:
    (tag,) = re.findall(r"^License: (.*)$", (TOP / "deploy" / "rpm" / "ssllatency.spec").read_text(), re.MULTILINE)
    (own,) = re.findall(r'^license = "(.*)"$', (TOP / "pyproject.toml").read_text(), re.MULTILINE)
    expressions = (own, *wheels.LICENCES.values())
    assert set(re.findall(r"[A-Z][\w.-]+\w", tag)) - {"AND", "OR"} == {
        word for expression in expressions for word in re.findall(r"[A-Z][\w.-]+\w", expression)
    } - {"AND", "OR"}
