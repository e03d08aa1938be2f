# SPDX-License-Identifier: Apache-2.0
"""Nothing but safe_open opens, or looks at, a file of a target by its path: every other place in the rooms that deal with
targets that opens a path is listed here, with what it opens."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python/ssllatency"
ROOMS = ("code", "elf", "stacks", "probes", "targets", "host", "engines", "tracing", "output", "cli")
_OF_MODULES = {
    "os": {"open", "stat", "lstat", "access", "readlink", "listdir", "scandir", "walk", "rename", "unlink", "mkdir", "chmod"},
    "os.path": {"exists", "isfile", "isdir", "samefile", "realpath", "getsize", "getmtime", "islink"},
    "io": {"open"},
    "shutil": {"copy", "copyfile", "copytree", "move", "rmtree"},
}
_OF_PATHS = {
    *(
        "open",
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "stat",
        "lstat",
        "exists",
        "is_file",
        "is_dir",
        "is_symlink",
    ),
    *(
        "iterdir",
        "glob",
        "rglob",
        "readlink",
        "resolve",
        "samefile",
        "touch",
        "unlink",
        "mkdir",
        "symlink_to",
        "rename",
        "chmod",
    ),
}
_FUNCTIONS = {"open", "kernel_text", "kernel_lines", "kernel_fields"}  # the others are of host/kernel_text.py
# Methods of other things that have the name of one of a path's.
_OTHERS = {
    "Source.open",
    "Image.open",
    "cls.open",
    "work.open",
    "file.open",
    "self._resolve",
    "found.resolve",
    "self._probes.open",
}

PROC = "the kernel's own files below /proc"
CGROUP = "the cgroup file system"
OURS = "a part of this program"
HANDLE = "a descriptor of ours by its number, /proc/self/fd/N"
CACHE = "the cache, a folder of ours alone"
USER = "a file that the user named"
HOST = "a file of the host's kernel or administrator"
OUTPUT = "a file that the user wants written"
OWN = "a temporary folder of ours"
# By module, or by module and function, what is opened there.
ALLOWED = {
    "tracing/planning/confinement.py": PROC,
    "tracing/hit_costs.py:_boot_id": HOST,
    "host/processors.py": HOST,
    "host/kernel_text.py": "what its caller names, which is looked at there",
    "engines/cost/run_time.py:statistics_of": PROC,
    "targets/childless.py:can_have_children": PROC,
    "tracing/allowance.py:host": "the roots of this process and of the first one, which name their file systems",
    "tracing/late/files.py:_byte_of": HANDLE,
    "output/html.py:_plain_matplotlib": OWN,
    "tracing/load/matrix.py": OWN,
    "cli/live/matrix.py:run": OUTPUT,
    "output/files.py": OUTPUT,
    "output/streams.py": "/dev/null, or a standard stream by its number",
    "output/folder.py": OUTPUT,
    "tracing/planning/fork_server.py:_elsewhere": PROC,
    "tracing/planning/fork_server.py:_fork": "a descriptor of the command's, /proc/PID/fd/N",
    "cli/host/probes.py:_existing": USER,
    "output/recordings.py": USER,
    "cli/host/script.py:_at_a_path": HANDLE,
    "cli/host/script.py:_lasting": USER,
    "engines/bcc_engine.py:BccObject._compile": OURS,
    "engines/bcc_engine.py:_BccSession.name_of": PROC,
    "engines/bpftrace/process.py:Bpftrace.__init__": OWN,
    "engines/attach/code_check.py:_opened": HANDLE,
    "engines/read/cpu_time.py": PROC,
    "engines/cost/payers.py:all_pids": PROC,
    "elf/room.py": CGROUP,
    "engines/read/io_calls.py": PROC,
    "engines/doctor.py": HOST,
    "engines/follow/following.py:Following._name_cgroup": CGROUP,
    "engines/bpf/objects.py": OURS,
    "cli/kept/report.py:_of_file": USER,
    "engines/bpf/perf.py:_enable_event": HANDLE,
    "engines/bpf/perf.py:_end_slowly": "/dev/null",
    "engines/bpf/tracefs.py": HOST,
    "engines/bpf/perf.py:_uprobe_type": HOST,
    "engines/bpf/perf.py:paranoid_level": HOST,
    "host/preemption.py": HOST,
    "probes/cache/kept.py": HANDLE,
    "probes/cache/store.py": CACHE,
    "probes/cache/folder.py": CACHE,
    "targets/containers/cgroups.py": CGROUP,
    "targets/code.py": PROC,
    "targets/containers/names.py": HOST,
    "targets/containers/pods.py:pod_names": HOST,
    "targets/containers/container.py:cgroup_of": PROC,
    "targets/expected.py:_asked_for": PROC,
    "targets/expected.py:_expected": HANDLE,
    "targets/expected.py:_root_identity": PROC,
    "targets/hazards.py": PROC,
    "targets/sockets/accept_queues.py": PROC,
    "targets/sockets/listening.py": PROC,
    "targets/sockets/sock_diag.py": PROC,
    "targets/sockets/kernel_tls.py": PROC,
    "targets/maps.py": PROC,
    "targets/opening.py:_handle": PROC,
    "targets/opt_out.py": PROC,
    "targets/opening.py:_kinds_of": PROC,
    "tracing/stuck.py": PROC,
    "targets/identity.py:mapped_numbers": PROC,
    "targets/processes.py": PROC,
    "targets/roots.py:_holds": PROC,
    "targets/roots.py:_is_ours": PROC,
    "targets/roots.py:_speaks_for": HANDLE,
    "targets/selection.py:_leader": PROC,
    "targets/survey.py:_own_pid": PROC,
    "tracing/jfr/attach.py:open_jvm": PROC,
    "tracing/jfr/attach.py:_have_it_listen": "a file that this makes, in a folder opened by safe_open",
    "tracing/jfr/attach.py:remove": "a file that this has made, in a folder opened by safe_open",
}


def opened_paths(source: str) -> Iterator[tuple[str, str]]:
    """(function, call) for each call that opens a path or looks at one."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) else ""
            if isinstance(child, ast.Call) and _opens(child.func):
                yield function, ast.unparse(child.func)
            yield from visit(child, f"{function}.{inside}".strip(".") if inside else function)

    return visit(ast.parse(source), "")


def _opens(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _FUNCTIONS
    if not isinstance(function, ast.Attribute):
        return False
    written = ast.unparse(function)
    module, _, name = written.rpartition(".")
    if module in _OF_MODULES:
        return name in _OF_MODULES[module]
    return name in _OF_PATHS and written not in _OTHERS


def places() -> dict[str, set[str]]:
    """Every such call by module and function."""
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for file in sorted((PACKAGE / room).glob("**/*.py")):
            for function, call in opened_paths(file.read_text()):
                found.setdefault(f"{file.relative_to(PACKAGE)}:{function}", set()).add(call)
    return found


def test_every_place_that_opens_a_path_is_known() -> None:
    unknown = {place: calls for place, calls in places().items() if not {place, place.partition(":")[0]} & ALLOWED.keys()}
    assert not unknown, "open files of targets by ssllatency.safe_open; list here what opens something else"


def test_no_listed_place_is_gone() -> None:
    there = {part for place in places() for part in (place, place.partition(":")[0])}
    assert not ALLOWED.keys() - there


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "os.open(path, 0)",
        "Path(path).open()",
        "path.read_bytes()",
        "kernel_fields(path)",
        "(root / 'etc').exists()",
        "os.path.exists(path)",
    ],
)
def test_the_check_sees_what_it_is_for(code: str) -> None:
    assert [place for place, _ in opened_paths(f"def look(path):\n    return {code}\n")] == ["look"]
    assert not list(opened_paths("def look(root, path):\n    return open_below(root, path)\n"))
