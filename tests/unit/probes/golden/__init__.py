# SPDX-License-Identifier: Apache-2.0
"""Golden plans: what is planned on real libraries, kept for comparison.

A golden plan is of a library, a family of its versions (for OpenSSL 1.1.1, 3.0, 3.5) and a machine. It holds what a reviewer
can judge: for each operation how its function was found, the sites by role, mnemonic, cost, return register and stack depth,
what a call costs (and at most one that fails, where that is more), and of the missing ones the reason. It holds no addresses.

A distribution's update may move code about. So a file is compared in full only where it has the build-id that the golden plan
was made from; another file of the family must plan the same operations and miss the same ones for the same reasons.

    python -m tests.unit.probes.golden           # which library here is compared how, and how that goes
    python -m tests.unit.probes.golden --write   # makes the plans and the tables of docs/internals/probe-sites.md anew
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests import foreign

from ssllatency.elf.image import Image
from ssllatency.openssl.accessors import library_version
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.costs import cost_ns, failing_ns
from ssllatency.probes.plan import ImagePlan, OperationPlan, Probe
from ssllatency.probes.planner import plan_image

FOLDER = Path(__file__).resolve().parent / "plans"
HOST = Path("/usr/lib/x86_64-linux-gnu")
ADVICE = (
    "The planner, or the library, now gives another plan. Make the plans anew with\n"
    "    PYTHONPATH=python:. python -m tests.unit.probes.golden --write\n"
    "and review `git diff tests/unit/probes/golden docs/internals`: an operation that is no longer planned, a site that\n"
    "got dearer or another return register needs a reason (compare with `objdump -d`); the order of exits alone does not."
)

Values = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A library that golden plans are kept of. `openssl` is the name of the file that tells its version, if it is OpenSSL."""

    library: str
    file: str
    openssl: str = ""


_HOST_FILES = {"libssl-host": HOST / "libssl.so.3", "libcrypto-host": HOST / "libcrypto.so.3"}
SUBJECTS = (
    Subject("libssl", "libssl-host", "libcrypto-host"),
    Subject("libcrypto", "libcrypto-host", "libcrypto-host"),
    Subject("libssl", "libssl-1.1-x86-64", "libcrypto-1.1-x86-64"),
    Subject("libcrypto", "libcrypto-1.1-x86-64", "libcrypto-1.1-x86-64"),
    Subject("libssl", "libssl-3.5-x86-64", "libcrypto-3.5-x86-64"),
    Subject("libcrypto", "libcrypto-3.5-x86-64", "libcrypto-3.5-x86-64"),
    Subject("node", "node", "node"),
    Subject("qatengine", "qatengine"),
    Subject("libcrypto_mb", "libcrypto_mb"),
    *(
        Subject(library, f"{library}-{version}-arm64", f"libcrypto-{version}-arm64")
        for version in ("1.1", "3.0", "3.5")
        for library in ("libssl", "libcrypto")
    ),
)


def locate(file: str) -> foreign.Foreign:
    """Where a file is, or why it isn't here."""
    if file not in _HOST_FILES:
        return foreign.find(file)
    path = _HOST_FILES[file]
    return foreign.Foreign(path) if path.exists() else foreign.Foreign(None, f"this machine has no {path}")


@cache
def open_image(path: Path) -> Image:
    """The image, without looking for debug files: what a machine has of them is no property of the library."""
    return Image.open(path, debug_roots=())


def family(subject: Subject, path: Path) -> str:
    """The versions that a golden plan stands for: "3.5", or "1.1.1", by OpenSSL's rules of what may change in a release; of a
    library that is no OpenSSL, the version in its name or "any"."""
    if not subject.openssl:
        found = re.search(r"\.so\.([\d.]+)$", path.name)
        return found[1] if found else "any"
    version = version_of(subject)
    found = re.match(r"OpenSSL (1\.1\.\d|\d+\.\d+)", version)
    return found[1] if found else "unknown"


def version_of(subject: Subject) -> str:
    """What the library says of its version; libssl doesn't, but the libcrypto beside it."""
    path = locate(subject.openssl).path if subject.openssl else None
    return library_version(open_image(path)) if path else ""


def golden_path(subject: Subject, path: Path) -> Path:
    """The file that holds the golden plan for the library at `path`."""
    return FOLDER / f"{subject.library}-{family(subject, path)}-{open_image(path).machine}.json"


def current(subject: Subject, path: Path) -> Values:
    """The plan of the library as it is now, as the golden one is kept."""
    image = open_image(path)
    plan, preferring = plan_image(image), plan_image(image, prefer_return_probes=True)
    return {
        "library": subject.library,
        "family": family(subject, path),
        "machine": image.machine,
        "version": version_of(subject),
        "build_id": plan.build_id,
        "offsets": {name: value for name, value in vars(plan.offsets).items() if value is not None},
        "operations": _operations(plan, preferring),
        "missing": {each.operation: _without_addresses(each.reason) for each in plan.missing},
    }


def _operations(plan: ImagePlan, preferring: ImagePlan) -> Values:
    """By name. Where return probes are wanted when they are cheaper, and are, those sites are kept as well."""
    other = {each.operation: each for each in preferring.operations}
    found = {}
    for each in plan.operations:
        found[each.operation] = {"found": each.found, **_sites(each)}
        if other[each.operation].probes != each.probes:
            found[each.operation]["preferring_return_probes"] = _sites(other[each.operation])
    return found


def _sites(plan: OperationPlan) -> Values:
    dearest = {"failing_ns": failing_ns(plan)} if failing_ns(plan) > cost_ns(plan) else {}
    return {"ns": cost_ns(plan), **dearest, "sites": [_site(probe) for probe in plan.probes]}


def _site(probe: Probe) -> str:
    """A site in a line, without its address: "exit jne emulated, value in rax, 24 below, shared"."""
    parts = [f"{probe.role} {probe.instruction.split()[0]} {probe.cost}"]
    parts += [probe.value_note()] if probe.value_note() else []
    parts += [f"{probe.stack_delta} below"] if probe.stack_delta else []
    parts += ["shared"] if probe.shared else []
    parts += ["failed calls"] if probe.fails else []
    parts += [f"after {probe.passed} more"] if probe.passed else []
    return ", ".join(parts)


def _without_addresses(reason: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x…", reason)


def load(path: Path) -> Values:
    """A golden plan as it was kept."""
    values: Values = json.loads(path.read_text())
    return values


def all_golden() -> list[Values]:
    """All golden plans, by library and family."""
    return sorted((load(path) for path in FOLDER.glob("*.json")), key=lambda each: (each["library"], each["family"]))


@dataclass(frozen=True)
class Comparison:
    """`exact`: the file is the one that the golden plan was made from. `differences` are lines, none where all is well."""

    exact: bool
    differences: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "in full, same build-id" if self.exact else "operations and reasons only, another build of the family"


def compare(golden: Values, now: Values) -> Comparison:
    """The golden plan with the plan of a file of the same library, family and machine."""
    exact = bool(golden["build_id"] == now["build_id"])
    differences = _of_mapping("missing", golden["missing"], now["missing"])
    if exact:
        differences += _of_mapping("operation", golden["operations"], now["operations"])
        differences += _of_mapping("offset", golden["offsets"], now["offsets"])
    else:
        planned, before = set(now["operations"]), set(golden["operations"])
        differences += [f"operation {name}: planned before, now not" for name in sorted(before - planned)]
        differences += [f"operation {name}: planned now, before not" for name in sorted(planned - before)]
    return Comparison(exact, tuple(differences))


def _of_mapping(what: str, golden: Values, now: Values) -> list[str]:
    names = [*golden, *(name for name in now if name not in golden)]
    return [
        f"{what} {name}:\n  golden {json.dumps(golden.get(name))}\n  now    {json.dumps(now.get(name))}"
        for name in names
        if golden.get(name) != now.get(name)
    ]


def unknown_operations(golden: Values) -> set[str]:
    """Operations of the golden plan that the catalogue doesn't have."""
    return {*golden["operations"], *golden["missing"]} - set(BY_NAME)
