# SPDX-License-Identifier: Apache-2.0
"""A survey of what does TLS on this host: processes, their containers and ports, and the TLS implementations that they map.
Reads /proc and the files; attaches nothing."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError, Unforeseen, about_one_of_many, phrase
from ssllatency.facts import FileFacts
from ssllatency.host.kernel_text import kernel_fields, number_in
from ssllatency.stacks.registry import INSTEAD, called, has_lower
from ssllatency.targets.containers.container import Container, containers_of
from ssllatency.targets.containers.names import container_names
from ssllatency.targets.files import MOST_MAPPED, ProcessMaps, Unopened, may_hold_tls, read_processes, too_many
from ssllatency.targets.identity import Identity, MappedFile
from ssllatency.targets.opening import open_mapped
from ssllatency.targets.opt_out import opt_out_reason
from ssllatency.targets.processes import PROC, Process, root_of
from ssllatency.targets.sockets.kernel_tls import kernel_tls
from ssllatency.targets.sockets.listening import Listener, listeners, serving_others

HeldTls = tuple[MappedFile, FileFacts]


@dataclass(frozen=True)
class ProcessStack:
    """One TLS implementation in one process: `linked` "shared" or "static"; `why_not` says why it isn't traced, "" if it is.
    `traceable`: other files of the implementation are traced; `doubt`: a sentence where it is uncertain whether the process
    does TLS by it; `instead`: one on what tells something of it, where it isn't traced. `files`: those that hold it, as the
    process maps them, and what is in each."""

    implementation: str
    version: str
    linked: str
    why_not: str
    files: tuple[HeldTls, ...] = ()
    traceable: bool = True
    doubt: str = ""
    instead: str = ""


@dataclass(frozen=True)
class TlsProcess:
    """A process that does TLS, or could. `listens` is None if there is no permission to read it; `own_pid` is its number in a
    PID namespace of its own."""

    process: Process
    stacks: tuple[ProcessStack, ...]
    container: Container | None = None
    own_pid: int | None = None
    listens: tuple[Listener, ...] | None = None


@dataclass(frozen=True)
class Survey:
    """Those that listen come first. `crypto_only`: processes that map libcrypto and nothing that does TLS; `closed`: processes
    that may not be inspected; `unread`: files that may not be opened, or are damaged, each with the sentence that says so;
    `kernel_tls`: the sentence on connections whose records the kernel makes, "" where there are none."""

    processes: tuple[TlsProcess, ...]
    crypto_only: tuple[Process, ...] = ()
    closed: tuple[Process, ...] = ()
    unread: tuple[str, ...] = ()
    kernel_tls: str = ""


Describe = Callable[[int, str, str], FileFacts]


def survey(processes: Iterable[Process], describe: Describe, proc: Path = PROC) -> Survey:
    """Surveys these processes. `describe(fd, path, root)` returns what is in a file, `root` being its process's root; it is
    called once per file."""
    closed: list[Process] = []
    maps = read_processes(processes, lambda process, _: closed.append(process), proc)
    facts, unread = _facts(maps, describe, {}, proc)
    many = tuple(too_many(each.process, each.number) for each in maps if each.number > MOST_MAPPED)
    stacks = {each.process: _left_alone(each.process.pid, _stacks(each, facts), proc) for each in maps}
    with_tls = [process for process, implementations in stacks.items() if implementations]
    crypto = [each.process for each in maps if not stacks[each.process] and _has_lower(each, facts)]
    found = listeners((process.pid for process in with_tls), proc)
    ports = {pid: None if each is None else serving_others(each, proc) for pid, each in found.items()}
    containers = _containers(with_tls, proc)
    rows = [
        TlsProcess(process, stacks[process], containers.get(process.pid), _own_pid(process.pid, proc), ports[process.pid])
        for process in with_tls
    ]
    return Survey(tuple(sorted(rows, key=_order)), tuple(crypto), tuple(closed), (*many, *unread), kernel_tls(proc))


def tls_stacks(
    maps: Iterable[ProcessMaps], describe: Describe, known: Mapping[Identity, FileFacts], proc: Path = PROC
) -> dict[Process, tuple[ProcessStack, ...]]:
    """The TLS implementations in each of these processes, without containers and ports: descriptors, of which there may be as
    many as connections, aren't read. `describe` as for survey(), for files of which no facts are `known`."""
    maps = list(maps)
    facts, _ = _facts(maps, describe, known, proc)
    return {each.process: _stacks(each, facts) for each in maps}


def _facts(
    maps: Iterable[ProcessMaps], describe: Describe, known: Mapping[Identity, FileFacts], proc: Path
) -> tuple[dict[Identity, FileFacts], tuple[str, ...]]:
    """The facts of each candidate, those that are `known` or read through the first process that lets us open it; and sentences
    about what couldn't be read."""
    users: dict[Identity, dict[int, MappedFile]] = defaultdict(dict)
    for each in maps:
        for mapped in each.candidates:
            if mapped.identity not in known:
                users[mapped.identity][each.process.pid] = mapped
    facts_of, unread, unopened = dict(known), [], Unopened()
    for identity, mappings in users.items():
        try:
            facts_of[identity] = _described(mappings, describe, proc)
        except SsllatencyError as error:
            if may_hold_tls(next(iter(mappings.values())).path):
                unread.append(str(error))
            else:
                unopened.add(error, mappings, proc)
    return facts_of, (*unread, *unopened.sentences())


def _described(mappings: Mapping[int, MappedFile], describe: Describe, proc: Path) -> FileFacts:
    """The facts of a file, read through the first process that lets us open it. SsllatencyError if none does."""
    first: SsllatencyError | None = None
    for pid, mapping in mappings.items():
        try:
            fd = open_mapped(pid, mapping, proc)
        except SsllatencyError as error:
            first = first or error
            continue
        try:
            return describe(fd, mapping.path, root_of(pid, proc))
        finally:
            os.close(fd)
    assert first is not None
    raise first


def _stacks(maps: ProcessMaps, facts: Mapping[Identity, FileFacts]) -> tuple[ProcessStack, ...]:
    files = [(mapped, facts[mapped.identity]) for mapped in maps.candidates if mapped.identity in facts]
    untraced = [
        replace(_untraced(named.name, "", "shared"), doubt=named.doubt, instead=named.instead) for named in maps.untraced
    ]
    for mapped, held in files:
        linked = "static" if mapped.path == maps.executable else "shared"
        untraced += [
            replace(_untraced(name, version, linked, (mapped, held)), instead=INSTEAD.get(name, ""))
            for name, version in held.others
        ]
    return (*_traceable(files, maps.executable), *untraced)


def _untraced(name: str, version: str, linked: str, *files: HeldTls) -> ProcessStack:
    return ProcessStack(name, version, linked, f"{name} isn't traced", files, traceable=False)


def _left_alone(pid: int, stacks: tuple[ProcessStack, ...], proc: Path) -> tuple[ProcessStack, ...]:
    """The stacks, none of them traced where the process has opted out."""
    try:
        with about_one_of_many():
            reason = opt_out_reason(pid, proc) if stacks else ""
    except Unforeseen as error:
        reason = f"can't be asked whether it has opted out: {phrase(error)}"
    if not reason:
        return stacks
    return tuple(replace(stack, why_not=f"it {reason}", traceable=True) if not stack.why_not else stack for stack in stacks)


def _traceable(files: list[HeldTls], executable: str | None) -> tuple[ProcessStack, ...]:
    """All implementations in one process that can be traced: one entry for the traced files of each name, and
    one for each file that isn't traced. Several traced versions in an entry are distinguished by their files."""
    parts: dict[str, list[HeldTls]] = defaultdict(list)
    for mapped, held in files:
        if held.libraries and not held.obstacle:
            parts[held.name].append((mapped, held))
    traced = [
        _stack(name, those, executable) for name, those in parts.items() if any(called(held.libraries) for _, held in those)
    ]
    hidden = (_stack(held.name, [(mapped, held)], executable, held.obstacle) for mapped, held in files if held.obstacle)
    return (*traced, *hidden)


def _stack(name: str, files: list[HeldTls], executable: str | None, obstacle: str = "") -> ProcessStack:
    versions = dict.fromkeys(held.release for _, held in files if held.release)
    static = any(mapped.path == executable for mapped, held in files if obstacle or called(held.libraries))
    return ProcessStack(name, ", ".join(versions), "static" if static else "shared", obstacle, tuple(files))


def _has_lower(maps: ProcessMaps, facts: Mapping[Identity, FileFacts]) -> bool:
    return any(has_lower(facts[mapped.identity].libraries) for mapped in maps.candidates if mapped.identity in facts)


def _containers(processes: Iterable[Process], proc: Path) -> dict[int, Container]:
    """The innermost container of each process that is in one, by PID."""
    chains = ((process.pid, containers_of(process.pid, proc)) for process in processes)
    innermost = {pid: chain[-1] for pid, chain in chains if chain}
    named = {container.id for container in innermost.values() if container.is_hosts}
    names = container_names(named) if named else {}
    return {
        pid: replace(container, name=names.get(container.id, "") if container.is_hosts else "")
        for pid, container in innermost.items()
    }


def _own_pid(pid: int, proc: Path) -> int | None:
    """Its number in its own PID namespace, None where that is ours."""
    try:
        numbers = kernel_fields(proc / str(pid) / "status").get("NSpid", "").split()
    except OSError:
        return None
    return number_in(numbers[-1]) if len(numbers) > 1 else None


def _order(row: TlsProcess) -> tuple[bool, int]:
    return not row.listens, row.process.pid
