# SPDX-License-Identifier: Apache-2.0
"""bpftrace's script judges each connection as the programs do: its lines, as C, beside the kernel side's own headers, for every
code that a connection may hold."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.verdicts.test_verdicts import BPF, SANITIZERS, VERDICTS, build

from ssllatency.abi import Outcome, Reason
from ssllatency.engines.attach.sites import library_record
from ssllatency.engines.bpftrace.judge import unsuccessful_ssl
from ssllatency.probes.plan import SslOffsets
from ssllatency.stacks.base import Stack
from ssllatency.stacks.registry import STACKS

pytestmark = pytest.mark.slow
OPENSSL = SslOffsets(rwstate=40, server=56, rbio=16, wbio=24, shutdown=68, version=0, state=72, bio_flags=48)
BORINGSSL = SslOffsets(rwstate=40, server=56, rbio=16, wbio=24, version=4, bio_flags=32, boringssl=48, server_bits=4)
TYPED = replace(OPENSSL, version=64)  # since OpenSSL 3.2
PARTS = ("rbio", "wbio", "shutdown", "state", "bio_flags")
READS = (("*(int32*)uptr(", "read32("), ("*(uint64*)uptr(", "read64("))
UNSCRIPTED = (Reason.APPLICATION_INPUT, Reason.EARLY_DATA)  # of stacks that scripts don't know
ASSIGNED = re.compile(r"\$(\w+) = ")


def layouts() -> Iterator[tuple[SslOffsets, Stack]]:
    """What libraries show of themselves: all, or all but one thing."""
    for stack in (stack for stack in STACKS if stack.scripted):
        whole = [replace(BORINGSSL, version=None)] if stack.name == "boringssl" else [OPENSSL, TYPED]
        for offsets in whole:
            yield offsets, stack
            for part in PARTS:
                if getattr(offsets, part) is not None:
                    yield replace(offsets, **{part: None}), stack


def as_c(line: str) -> str:
    """A line of bpftrace's language, which takes of C what is needed here, but for how memory is read, and for variables."""
    for read, call in READS:
        line = line.replace(read, call)
    return re.sub(r"\$(\w+)", r"v_\1", line.replace("(uint64)", "(__u64)"))


def judge(number: int, offsets: SslOffsets, stack: Stack) -> str:
    """The script's judge of a library with this layout, and its record, in C."""
    lines = unsuccessful_ssl(offsets, stack.codes, lambda outcome, reason: f"return TOLD({outcome:d}, {reason:d});")
    variables = sorted({name for line in lines for name in ASSIGNED.findall(line)})
    declared = [f"__u64 v_{name} = 0;" if name in ("bio", "holder") else f"__s32 v_{name} = 0;" for name in variables]
    record = ", ".join(map(str, bytes(library_record(offsets, stack))))
    return "\n".join(
        [
            f"static const unsigned char record_{number}[sizeof(struct ssll_library)] = {{{record}}};",
            f"static __u32 scripted_{number}(__u64 v_ssl, __s32 v_value)",
            "{",
            *declared,
            *map(as_c, lines),
            "}",
        ]
    )


def header() -> str:
    """All of them, in a table."""
    every = list(layouts())
    assert len(every) > 15
    rows = ", ".join(f"{{record_{number}, scripted_{number}}}" for number in range(len(every)))
    table = f"static const struct {{ const unsigned char *record; judge *scripted; }} layouts[] = {{{rows}}};"
    return "\n".join([*(judge(number, *layout) for number, layout in enumerate(every)), table, ""])


def told(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "scripted.h").write_text(text)
    program = build("scripted", folder, BPF, f"-I{folder}", *SANITIZERS)
    return subprocess.run([program], capture_output=True, text=True, check=False)


def test_the_script_judges_as_the_programs_do(tmp_path: Path) -> None:
    done = told(tmp_path, header())
    assert (done.returncode, done.stderr) == (0, "")
    verdicts = {tuple(map(int, line.split()[:2])) for line in done.stdout.splitlines()}
    assert verdicts == {(outcome, reason) for outcome, reason in VERDICTS if reason not in UNSCRIPTED}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (f"return TOLD({Outcome.RETRY:d}, {Reason.WANT_ASYNC:d});", f"return TOLD({Outcome.RETRY:d}, {Reason.UNKNOWN:d});"),
        ("(v_flags & 4) == 4", "(v_flags & 8) == 8"),
        ("v_want == 20)", "v_want == 21)"),
        ("v_value == 0", "v_value <= 0"),
    ],
)
def test_another_verdict_of_the_script_is_found(tmp_path: Path, right: str, wrong: str) -> None:
    text = header()
    assert right in text
    done = told(tmp_path, text.replace(right, wrong))
    assert done.returncode == 1
    assert "verdict of the script" in done.stderr
