# SPDX-License-Identifier: Apache-2.0
"""Files that no process maps yet, planned, so that probes are there before the first process that maps them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from ssllatency.engines.attach.sites import MOST_LIBRARIES
from ssllatency.engines.base import TracedImage
from ssllatency.errors import SsllatencyError
from ssllatency.probes.join import complete
from ssllatency.targets import ExpectedFile, MappedFile, Process, Selection, expected_files, named_files
from ssllatency.tracing.plan_source import File, PlanSource, file_of, is_traced

Planned = list[tuple[MappedFile, TracedImage]]


def find_expected(selection: Selection, processes: Iterable[Process], stack: ExitStack) -> list[ExpectedFile]:
    """The files that processes will map which the selection asks for, open as long as `stack`: those that it names, or the
    libraries in the root of those that are there. Who has only a name, a cgroup or a port yet, is expected in our own root."""
    if selection.libraries:
        return [file for library in selection.libraries for file in named_files(library, stack)]
    host = bool(selection.comms or selection.cgroup or selection.ports or selection.everything)
    return expected_files([process.pid for process in processes], stack, host=host)


def add_expected(planned: Planned, expected: Sequence[ExpectedFile], source: PlanSource) -> Planned:
    """The files that are traced already, and after them those of the expected files that hold TLS code and that nobody maps
    yet.

    A file that to the kernel may be another of them is left out. A process that maps it is found then.
    """
    source.make_ahead([as_file(file) for file in expected])
    identities = {file.identity for file, _ in planned}
    files = list(planned)
    for file in expected:
        image = None if file.mapping.identity in identities else image_of(file, source)
        if image and len(files) < MOST_LIBRARIES and not any(image.plan.may_be(other.plan) for _, other in files):
            files.append((file.mapping, image))
    return _completed(files, expected)


def image_of(file: ExpectedFile, source: PlanSource) -> TracedImage | None:
    """The file planned; None where it holds no TLS code that can be traced here, or can't be read."""
    with suppress(SsllatencyError):
        path = f"/proc/self/fd/{file.descriptor}"
        plan = source.plan(path, file.mapping.path, file.root)
        if is_traced(plan):
            return TracedImage(plan, path, (), root=file.root, read_names=source.names_of)
    return None


def as_file(file: ExpectedFile) -> File:
    """The file as it is given to be planned."""
    return file_of(f"/proc/self/fd/{file.descriptor}", file.mapping.path, file.root)


def _completed(files: Planned, expected: Sequence[ExpectedFile]) -> Planned:
    """Each plan with what the library tells that goes with it. Numbers below 0 stand for the processes that will map both."""
    pairs = {pair: -number for number, pair in enumerate(dict.fromkeys(file.pair for file in expected), 1)}
    users = {file.mapping.identity: pairs[file.pair] for file in expected}
    plans = complete([(image.plan, (*image.pids, users.get(file.identity, 0))) for file, image in files])
    return [(file, replace(image, plan=plan)) for (file, image), plan in zip(files, plans, strict=True)]
