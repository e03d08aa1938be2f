# SPDX-License-Identifier: Apache-2.0
"""Compares what is planned of a binary now with what is expected of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.unit.probes.corpus import manifest, places, text
from tests.unit.probes.corpus.manifest import Binary

from ssllatency.elf.image import ElfError

ADVICE = (
    "The planner now gives another plan. Make the expected plans anew with\n"
    "    make corpus WRITE=1\n"
    "and review `git diff tests/unit/probes/corpus docs/internals`: an operation that is no longer planned, a site that\n"
    "got dearer, another return register or another offset needs a reason (compare with `objdump -d`)."
)


@dataclass(frozen=True)
class Comparison:
    """`against`: the binary that it was compared with, None where none is like it. `exact`: it is that very binary.
    `differences` are lines, none where all is well."""

    path: Path
    against: Binary | None
    exact: bool = True
    differences: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """What of it was compared, for a count."""
        if self.against is None:
            return "unlike any of the corpus"
        return "in full" if self.exact else "as another build, by what is planned and what isn't"

    def __str__(self) -> str:
        if self.against is None:
            return f"{self.path}: {self.how}"
        return "\n".join((f"{self.path} with {self.against.plan}: {self.how}", *self.differences))


def compare(path: Path, binaries: Sequence[Binary]) -> Comparison | None:
    """The file at `path` with the corpus: in full where it is in it, else with the newest other build, of which what is planned
    and what isn't must be the same. None for a file without TLS."""
    try:
        now = text.describe(path)
    except ElfError:
        return None
    if not now:
        return None
    own = manifest.identity(path)
    known = next((binary for binary in binaries if binary.identity == own), None)
    if known:
        return Comparison(path, known, True, tuple(differences(known.expected, now, known.plan)))
    alike = _another_build(path, now, binaries)
    return Comparison(path, alike, False, tuple(of_another_build(alike.expected, now)) if alike else ())


def differences(expected: str, now: str, name: str) -> Iterable[str]:
    """The lines of a diff."""
    return difflib.unified_diff(expected.splitlines(), now.splitlines(), f"expected {name}", "planned now", n=2, lineterm="")


def _another_build(path: Path, now: str, binaries: Sequence[Binary]) -> Binary | None:
    """Only of Debian's own libraries, which any machine may have a newer build of, and of programs that are built here."""
    origins = ("built",) if places.is_built(path) else ("Debian",)
    machine_and_kind = now.split("\n", 1)[0]
    series = manifest.series(manifest.version(path))
    for binary in reversed(binaries):
        same = binary.expected.startswith(f"{machine_and_kind}\n") and manifest.series(binary.version) == series
        if same and binary.origin.split()[0] in origins:
            return binary
    return None


def of_another_build(expected: str, now: str) -> list[str]:
    """How the plans of two builds of the same sources differ where they may not."""
    before, after = (_outline(text.parse(each)) for each in (expected, now))
    return [line for what in before for line in _of_sets(what, before[what], after[what])]


def _outline(plan: text.Plan) -> dict[str, set[str]]:
    return {
        "operation": set(plan.operations),
        "not planned": {f"{name}: {reason}" for name, reason in plan.missing.items()},
        "label": set(plan.labels),
        "offset": set(plan.offsets),
        "call": {f"{call.what} {call.callee}" for call in plan.calls},
        "not seen": {f"{name}: {reason}" for name, reason in plan.unseen},
    }


def _of_sets(what: str, before: set[str], after: set[str]) -> list[str]:
    gone = [f"- {what} {name}" for name in sorted(before - after)]
    return gone + [f"+ {what} {name}" for name in sorted(after - before)]
