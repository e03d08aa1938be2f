# SPDX-License-Identifier: Apache-2.0
"""A survey as a table, as sentences, and as the JSON document of schema "ssllatency-targets/1"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssllatency.data_class import dataclass
from ssllatency.targets.containers.container import Container
from ssllatency.targets.processes import Process
from ssllatency.targets.sockets.listening import Listener
from ssllatency.targets.survey import HeldTls, ProcessStack, Survey, TlsProcess

HEADINGS = ("PID", "PROCESS", "CONTAINER", "LISTENS", "TLS", "LINKED", "TRACED")
LEFT = len(HEADINGS)
_MOST_PORTS, _MOST_NAMES = 4, 4


@dataclass
class ProcessFamily:
    """Processes of one family that differ in nothing but their number."""

    first: TlsProcess
    pids: list[int]


def rows(survey: Survey) -> list[tuple[str, ...]]:
    """The cells of a table below HEADINGS: a row for each TLS implementation of each family of equal processes."""
    return [row for family in families(survey) for row in _rows(family)]


def families(survey: Survey) -> list[ProcessFamily]:
    """The families of equal processes, those that listen first."""
    return _families(survey.processes)


def sentences(survey: Survey) -> Iterator[str]:
    """Sentences for what the table doesn't show: deleted files, why something isn't traced, and what couldn't be read."""
    reasons: dict[str, list[Process]] = {}
    doubts: dict[str, None] = {}
    users_of_deleted: dict[str, list[Process]] = {}
    for row in survey.processes:
        for stack in row.stacks:
            doubts |= dict.fromkeys(filter(None, (stack.doubt, stack.instead)))
            if stack.why_not and stack.traceable:
                reasons.setdefault(stack.why_not, []).append(row.process)
        for path in dict.fromkeys(file.path for stack in row.stacks for file, _ in stack.files if file.deleted):
            users_of_deleted.setdefault(path, []).append(row.process)
    for path, processes in users_of_deleted.items():
        yield f"{path} has been replaced or deleted since {named(processes)} mapped it; the old one is what is traced."
    yield from _unnamed(survey)
    for reason, processes in reasons.items():
        yield f"Not traced in {named(processes)}: {reason}."
    yield from doubts
    if survey.crypto_only:
        alone = named(survey.crypto_only)
        yield f"These map only libcrypto; TLS that they implement on top of it isn't traced: {alone}."
    if survey.kernel_tls:
        yield survey.kernel_tls
    if survey.closed:
        yield f"Not permitted to inspect {named(survey.closed)}."
    yield from survey.unread


def _unnamed(survey: Survey) -> list[str]:
    """A sentence for each file whose functions were found without symbols."""
    stacks = [stack for row in survey.processes for stack in row.stacks]
    files = {file.path: (stack.implementation, facts) for stack in stacks for file, facts in stack.files if facts.unnamed}
    return [
        f"{implementation} in {path} has no symbols: its functions were found by the errors that they raise"
        + (
            f", but for what isn't linked or can't be told from others, functions and labels: {', '.join(facts.unfound)}."
            if facts.unfound
            else "."
        )
        for path, (implementation, facts) in files.items()
    ]


def untraced(stacks_of: Mapping[Process, Sequence[ProcessStack]], *, beside_openssl: bool) -> list[str]:
    """A sentence for each TLS implementation in these processes that isn't traced; `beside_openssl`: others of it are."""
    users: dict[tuple[ProcessStack, bool], list[Process]] = {}
    for process, stacks in stacks_of.items():
        beside = not all(stack.why_not for stack in stacks)
        for stack in stacks:
            if stack.why_not:
                untraced = replace(stack, version="", linked="", files=())
                users.setdefault((untraced, beside), []).append(process)
    return [
        _untraced(named(processes), stack, beside_openssl=beside_openssl, beside=beside)
        for (stack, beside), processes in users.items()
    ]


def _untraced(who: str, stack: ProcessStack, *, beside_openssl: bool, beside: bool) -> str:
    """`beside`: these processes have other TLS, which is traced."""
    if stack.traceable:
        reason = stack.why_not
        return f"Some of the TLS of {who} can't be traced: {reason}." if beside else f"{who} can't be traced: {reason}."
    instead = f" {stack.instead}".rstrip()
    if beside_openssl:
        return f"{stack.implementation}, which isn't traced, is mapped by {who} as well.{instead}"
    condition = ", if there is any," if stack.doubt else ""
    return f"The TLS of {who}{condition} is {stack.implementation}, which isn't traced.{instead}"


def to_document(survey: Survey, host: str) -> dict[str, Any]:
    """The survey as plain data."""
    return {
        "schema": "ssllatency-targets/1",
        "host": host,
        "processes": [_process(row) for row in survey.processes],
        "libcrypto_only": [_named(process) for process in survey.crypto_only],
        "not_permitted": [_named(process) for process in survey.closed],
        "unread": list(survey.unread),
    }


def named(processes: Iterable[Process]) -> str:
    """A few processes by name and PID, many by name and number: "nginx (PID 12), sshd (7 processes)"."""
    by_name: dict[str, list[int]] = {}
    for process in processes:
        by_name.setdefault(process.comm, []).append(process.pid)
    shown = [
        f"{comm} (PID {pids[0]})" if len(pids) == 1 else f"{comm} ({len(pids)} processes)" for comm, pids in by_name.items()
    ]
    rest = sum(len(pids) for pids in list(by_name.values())[_MOST_NAMES:])
    return ", ".join([*shown[:_MOST_NAMES], *([f"{rest} more"] if rest else [])])


def _families(processes: Iterable[TlsProcess]) -> list[ProcessFamily]:
    families: dict[object, list[ProcessFamily]] = {}
    for row in processes:
        stacks = [(stack.implementation, stack.version, stack.linked, stack.why_not) for stack in row.stacks]
        same = families.setdefault((row.process.comm, row.container, row.listens, tuple(stacks)), [])
        kin = (family for family in same if row.process.ppid in (family.first.process.ppid, *family.pids))
        family = next(kin, None)
        if family:
            family.pids.append(row.process.pid)
        else:
            same.append(ProcessFamily(row, [row.process.pid]))
    return [family for same in families.values() for family in same]


def shown_pid(family: ProcessFamily) -> str:
    """The first PID, and how many more there are: "812 +2"."""
    more = len(family.pids) - 1
    return f"{family.first.process.pid}{f' +{more}' if more else ''}"


def _rows(family: ProcessFamily) -> Iterator[tuple[str, ...]]:
    row = family.first
    who = (shown_pid(family), row.process.comm, _container(row), _ports(row))
    for stack in row.stacks:
        version = f"{stack.implementation} {stack.version}".rstrip()
        yield (*who, version, stack.linked, "no" if stack.why_not else "yes")
        who = ("", "", "", "")


def _container(row: TlsProcess) -> str:
    if row.container:
        return row.container.shown
    return "" if row.own_pid is None else f"(PID {row.own_pid} inside)"


def _ports(row: TlsProcess) -> str:
    if row.listens is None:
        return "?"
    ports = list(dict.fromkeys(_port(listener) for listener in row.listens))
    return ", ".join([*ports[:_MOST_PORTS], *(["..."] if len(ports) > _MOST_PORTS else [])])


def _port(listener: Listener) -> str:
    return f"{listener.port}/udp" if listener.protocol == "udp" else str(listener.port)


def _process(row: TlsProcess) -> dict[str, Any]:
    return {
        **_named(row.process),
        "ppid": row.process.ppid,
        "container": _container_fields(row.container) if row.container else None,
        "pid_in_namespace": row.own_pid,
        "listens": None
        if row.listens is None
        else [{"address": listener.address, "port": listener.port, "protocol": listener.protocol} for listener in row.listens],
        "tls": [_stack(stack) for stack in row.stacks],
    }


def _container_fields(container: Container) -> dict[str, str | None]:
    return {"runtime": container.runtime, "id": container.id, "name": container.name or None, "pod": container.pod or None}


def _named(process: Process) -> dict[str, Any]:
    return {"pid": process.pid, "comm": process.comm}


def _stack(stack: ProcessStack) -> dict[str, Any]:
    return {
        "implementation": stack.implementation,
        "version": stack.version or None,
        "linked": stack.linked,
        "traced": not stack.why_not,
        "reason": stack.why_not or None,
        "files": [_file(file) for file in stack.files],
    }


def _file(held: HeldTls) -> dict[str, Any]:
    file, facts = held
    return {
        "path": file.path,
        "deleted": file.deleted,
        "build_id": facts.build_id,
        "libraries": list(facts.libraries),
        "version": facts.version or None,
        "unnamed": facts.unnamed,
        "unfound": list(facts.unfound),
    }
