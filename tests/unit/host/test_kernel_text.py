# SPDX-License-Identifier: Apache-2.0
"""Text of the kernel's files is taken apart at newlines alone, and in one module: no name in it writes a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency.host.kernel_text import kernel_fields, kernel_lines, kernel_text, number_in

PACKAGE = Path(__file__).parents[3] / "python/ssllatency"
ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # where str.splitlines() ends a line as well


@pytest.mark.parametrize("end", ENDS)
def test_no_name_ends_a_line(tmp_path: Path, end: str) -> None:
    status = tmp_path / "status"
    status.write_bytes(f"Name:\t{end}Uid:\nUmask:\t0022\nUid:\t33\t34\t34\t34\n".encode())
    assert kernel_lines(status) == [f"Name:\t{end}Uid:", "Umask:\t0022", "Uid:\t33\t34\t34\t34"]
    fields = kernel_fields(status)
    assert (fields["Umask"], fields["Uid"], list(fields)) == ("0022", "33\t34\t34\t34", ["Name", "Umask", "Uid"])
    assert number_in(fields["Uid"]) == 33


def test_bytes_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "comm").write_bytes(b"a\r\n\xff\n")
    assert kernel_text(tmp_path / "comm") == "a\r\n\\xff\n"
    (tmp_path / "comm").write_bytes(b"")
    assert kernel_lines(tmp_path / "comm") == []


def test_of_several_fields_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Uid: 1\nno field\nUid: 2\n")
    assert kernel_fields(tmp_path / "status") == {"Uid": "1"}


@pytest.mark.parametrize(("value", "number"), [("33\t0", 33), ("", None), ("x", None), ("-1", None), ("\u0663", None)])
def test_a_number_is_one_of_the_kernels(value: str, number: int | None) -> None:
    assert number_in(value) == number


OURS = "files that this program has written"
STREAM = "a standard stream by its number"
ANOTHERS = "lines of a tool's that this has started, for people to read"
# Modules that read a file as text, or take lines apart at more than newlines, and what they read.
ALLOWED = {
    "output/streams.py": STREAM,
    "load/matrix/servers/process.py": OURS,
    "tracing/load/driving.py": ANOTHERS,
    "engines/bcc_engine.py": ANOTHERS,
    "engines/bpftrace/process.py": ANOTHERS,
    "engines/bpftrace/standalone.py": OURS,
    "engines/bpf/libbpf.py": ANOTHERS,
}


def reads_of_text(source: str) -> Iterator[str]:
    """The calls in this source that read a file as text with ends of lines of Python's own, or split at them."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        written = ast.unparse(node.func)
        name = written.rpartition(".")[2]
        if name in ("splitlines", "read_text") or (name in ("open", "fdopen") and written != "os.open" and _is_text(node)):
            yield written


def _is_text(call: ast.Call) -> bool:
    """Whether a call of open() has a file read in text mode: its mode is the first or the second argument."""
    modes = [part.value for part in (*call.args[:2], *_named(call, "mode")) if isinstance(part, ast.Constant)]
    if any("b" in mode or "w" in mode for mode in modes if isinstance(mode, str)):
        return False
    return not any(isinstance(end, ast.Constant) and end.value == "\n" for end in _named(call, "newline"))


def _named(call: ast.Call, name: str) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords if keyword.arg == name]


# Methods called open() of other things than files.
OPENS = {
    *("_OPENER.open", "Source.open", "ElfSource.open", "Image.open", "work.open", "self._handles.open", "self._probes.open"),
    *("cls.open", "file.open", "matrix_csv.MatrixTable.open", "output_files.open"),
}


def test_one_module_alone_takes_text_of_the_kernel_apart() -> None:
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        if calls := set(reads_of_text(file.read_text())) - OPENS:
            found[file.relative_to(PACKAGE).as_posix()] = calls
    assert found.keys() == ALLOWED.keys(), "read text of the kernel by ssllatency.host.kernel_text; list what reads another's"


@pytest.mark.parametrize(
    "code", ["path.read_text()", "open(path)", "path.open()", "open(path, 'r')", "text.splitlines()", "os.fdopen(handle)"]
)
def test_the_check_sees_each_way(code: str) -> None:
    assert len(list(reads_of_text(code))) == 1
    assert not list(
        reads_of_text("open(path, 'rb'); path.open('rb'); path.open(newline='\\n'); os.open(path, 0); kernel_text(path)")
    )
