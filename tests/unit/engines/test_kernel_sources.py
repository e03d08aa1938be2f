# SPDX-License-Identifier: Apache-2.0
"""The names in bpf/, as docs/internals/bpf.md rules them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

BPF = Path(__file__).resolve().parents[3] / "bpf"
_DEFINED = re.compile(r"^(?:static )?(?:__always_inline|__noinline)[^;{]*?(\w+)\([^;{]*\)\n\{", re.MULTILINE)


def definitions() -> dict[str, list[Path]]:
    """The files that define each function, but the hooks; of the architectures' own only those of one."""
    files = defaultdict(list)
    for path in sorted([*BPF.rglob("*.bpf.h"), *BPF.glob("*.bpf.c")]):
        for name in _DEFINED.findall(path.read_text()):
            if path.name != "aarch64.bpf.h":
                files[name].append(path)
    return {name: paths for name, paths in files.items() if not name.startswith("on_")}


def test_a_function_is_defined_once() -> None:
    files = definitions()
    assert {"lookup_or_init", "find_handshake", "judge_ssl", "argument"} <= set(files)
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_both_architectures_define_the_same_functions() -> None:
    x86, arm = (set(_DEFINED.findall((BPF / "common" / f"{name}.bpf.h").read_text())) for name in ("x86_64", "aarch64"))
    assert {"argument", "returned_value", "branch_taken", "give_back"} <= x86
    assert arm - {"general_register"} == x86


def test_functions_have_no_prefix() -> None:
    assert [name for name in definitions() if name.startswith("ssll_")] == []
