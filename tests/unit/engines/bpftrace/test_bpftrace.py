# SPDX-License-Identifier: Apache-2.0
"""The bpftrace engine's text and symbols, and how its maps become series: no kernel, no bpftrace."""

from __future__ import annotations

import hashlib
import os
import random
import re
import struct
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from ssllatency.abi import Convention, Outcome, Reason, Returns
from ssllatency.code.machine import Cost
from ssllatency.engines.base import LinearRange, Side, TracedImage
from ssllatency.engines.bpftrace import judge as bpftrace_judge
from ssllatency.engines.bpftrace import numbers as bpftrace_numbers
from ssllatency.engines.bpftrace import process as bpftrace_process
from ssllatency.engines.bpftrace import script as bpftrace_script
from ssllatency.engines.bpftrace import standalone as bpftrace_standalone
from ssllatency.engines.bpftrace.numbers import Numbers
from ssllatency.engines.bpftrace.symbols import site_name, symbol_file
from ssllatency.engines.bpftrace.words import Words
from ssllatency.errors import SsllatencyError
from ssllatency.model.histogram import UNDERFLOW, LinearHistogram, counted_bucket
from ssllatency.model.snapshot import Outcome as Word
from ssllatency.probes.plan import CodeRange, FilePlan, MissingOperation, OperationPlan, Probe, Role, SslOffsets
from ssllatency.stacks.boringssl.stack import BoringSsl
from ssllatency.stacks.operation import ReturnValue

CONTENT = b"library"
OFFSETS = SslOffsets(rwstate=40, server=56, rbio=16, wbio=24, shutdown=68, version=0, state=72, bio_flags=48)


def probe(address: int, role: Role, register: str = "", *, shared: bool = False, below: int = 0) -> Probe:
    return Probe(address - 0x1000, address, role, "push rbx", Cost.EMULATED, below, register, shared)


def operation(name: str, *probes: Probe) -> OperationPlan:
    return OperationPlan(name, probes[0].address, 64, "dynamic symbol", probes)


READ = operation("SSL_read", probe(0x5000, Role.ENTRY, below=24), probe(0x5020, Role.EXIT, "rax", below=24))
CONTENT = bytes(range(256)) * 128
CODE = (CodeRange(0x4000, 0x40, hashlib.sha256(CONTENT[0x4000:0x4040]).hexdigest()),)
SIGN = operation("RSA_sign", probe(0x6000, Role.ENTRY), probe(0x6020, Role.EXIT, "r12"), probe(0x6030, Role.EXIT, "r12"))
DERIVE = operation("ecx_derive", probe(0x7000, Role.ENTRY), probe(0x7020, Role.EXIT, "rbx"))
RETURNS = operation("SSL_write", probe(0x8000, Role.RETURN))
FREE = operation("SSL_free", probe(0x9000, Role.ENTRY))


def image(
    *operations: OperationPlan, offsets: SslOffsets = OFFSETS, pids: tuple[int, ...] = (7, 8), stack: str = "openssl"
) -> TracedImage:
    plan = FilePlan("/lib/libssl.so.3", "ab" * 20, "OpenSSL 3.0", "libssl", operations, (), offsets, stack=stack)
    return TracedImage(plan, "/lib/libssl.so.3", pids)


def text(*operations: OperationPlan, everyone: bool = False, role: Side = Side.SERVER, **more: object) -> str:
    numbers = Numbers(LinearRange(), names=False)
    images = [image(*operations, **more)]  # type: ignore[arg-type]
    return bpftrace_script.render(images, numbers, role=role, everyone=everyone, begin=[])


def block(script: str, site: str) -> str:
    """The probe that attaches to a site."""
    return next(part for part in script.split("\n\n") if f":{site}\n" in part or f":{site},\n" in part)


def test_a_call_is_paired_by_process_stack_and_operation() -> None:
    script = text(READ, SIGN)
    entry, leave = block(script, "SSL_read__entry_5000"), block(script, "SSL_read__exit_5020")
    assert '$stack = reg("sp") + 24;' in entry
    assert '$stack = reg("sp") + 24;' in leave
    assert '@running[pid, $stack, 0] = (nsecs, reg("di"));' in entry
    assert "delete(@running[pid, $stack, 0]);" in leave
    assert "@running[pid, $stack, 1] = (nsecs, (uint64)0);" in block(script, "RSA_sign__entry_6000")


def test_exits_that_do_the_same_are_one_probe_and_stand_after_entries() -> None:
    script = text(READ, SIGN)
    assert "uprobe:/lib/libssl.so.3:RSA_sign__exit_6020,\nuprobe:/lib/libssl.so.3:RSA_sign__exit_6030\n" in script
    assert script.count("/pid == 7 || pid == 8/") == 4
    assert max(map(script.index, ("SSL_read__entry", "RSA_sign__entry"))) < script.index("__exit_")


@pytest.mark.parametrize(
    ("register", "short"),
    [("rax", "ax"), ("rbx", "bx"), ("rbp", "bp"), ("rdi", "di"), ("r8", "r8"), ("r15", "r15"), ("x0", "r0"), ("x19", "r19")],
)
def test_registers_by_bpftraces_names(register: str, short: str) -> None:
    one = operation("RSA_sign", probe(0x6000, Role.ENTRY), probe(0x6020, Role.EXIT, register))
    assert f'$raw = reg("{short}");' in text(one)


def test_arguments_of_aarch64() -> None:
    planned = replace(image(READ, DERIVE).plan, machine="aarch64")
    numbers = Numbers(LinearRange(), names=False)
    images = [TracedImage(planned, "/lib/libssl.so.3", (7,))]
    script = bpftrace_script.render(images, numbers, role=Side.SERVER, everyone=True, begin=[])
    assert '(nsecs, reg("r0"))' in block(script, "SSL_read__entry_5000")
    assert '/reg("r1") != 0/' in block(script, "ecx_derive__entry_7000")
    assert 'reg("di")' not in script


def test_size_queries_and_shared_exits_are_no_losses() -> None:
    assert '/(pid == 7 || pid == 8) && reg("si") != 0/' in block(text(DERIVE), "ecx_derive__entry_7000")
    assert '/reg("si") != 0/' in text(DERIVE, everyone=True)
    assert "@lost[1]" not in block(text(DERIVE), "ecx_derive__exit_7020")
    shared = operation("RSA_sign", probe(0x6000, Role.ENTRY), probe(0x6020, Role.EXIT, "rax", shared=True))
    assert "@lost[1]" not in text(shared)
    assert "@lost[1]" in text(SIGN)


def test_many_processes_are_looked_up() -> None:
    script = text(SIGN, pids=tuple(range(100, 150)))
    assert "@wanted[0, 149] = 1;" in script
    assert "/@wanted[0, pid] == 1/" in script


def test_what_needs_a_return_probe_is_left_out() -> None:
    script = text(READ, RETURNS, FREE)
    assert "SSL_write" not in script
    assert "SSL_free" not in script
    assert "uretprobe" not in script
    assert [one.function for one in bpftrace_script.left_out(image(READ, RETURNS, FREE).plan)] == ["SSL_write"]


def test_the_other_side_is_left_out_where_it_can_be_told() -> None:
    assert "if ((*(int32*)uptr($ssl + 56)) == 0) {" in text(READ)
    assert "if ((*(int32*)uptr($ssl + 56)) != 0) {" in text(READ, role=Side.CLIENT)
    for script in (text(READ, role=Side.ANY), text(READ, offsets=SslOffsets(rwstate=40))):
        assert "$ssl + 56" not in script


def test_braces_match_whatever_is_known_of_the_library() -> None:
    boringssl = "rwstate boringssl server server_bits"
    for known in ("", "rwstate", "rwstate rbio wbio bio_flags", "rwstate state shutdown", "rwstate server version", boringssl):
        offsets = SslOffsets(**dict.fromkeys(known.split(), 8))
        script = text(READ, SIGN, DERIVE, offsets=offsets)
        assert script.count("{") == script.count("}")
        assert re.search(r"^\t*\}", script, re.MULTILINE)


def test_boringssl_s_own_codes_and_its_bit_of_the_side() -> None:
    offsets = SslOffsets(rwstate=196, server=164, rbio=24, wbio=32, bio_flags=32, boringssl=48, server_bits=4)
    script = text(READ, offsets=offsets, stack="boringssl")
    assert "if ((*(int32*)uptr($ssl + 164) & 4) == 0) {" in script
    assert "$holder = *(uint64*)uptr($ssl + 48);" in script
    assert "$want = *(int32*)uptr($holder + 196);" in script
    assert "} else if ($want == 13) {" in script
    judged = bpftrace_judge.unsuccessful_ssl(offsets, BoringSsl.codes, lambda outcome, reason: f"{outcome.name} {reason.name}")
    following = dict(pairwise(judged))
    assert following["} else if ($want == 13) {"] == "RETRY WANT_PRIVATE_KEY_OPERATION"
    assert following["} else if ($want == 20) {"] == "RETRY HANDSHAKE_HINTS_READY"
    assert following["} else if ($want == 6) {"] == "CLOSED ZERO_RETURN"


def test_every_convention_has_its_condition() -> None:
    assert {one for one in Convention if not bpftrace_judge.succeeded(ReturnValue(one))} == {Convention.NONE}
    assert bpftrace_judge.succeeded(ReturnValue(Convention.SSL_HANDSHAKE, Returns.NEGATIVE_ERROR)) == "$value >= 0"
    assert bpftrace_judge.succeeded(ReturnValue(Convention.SSL_IO, Returns.NEGATIVE_ERROR)) == "$value > 0"
    assert bpftrace_judge.succeeded(ReturnValue(Convention.SSL_IO, Returns.GO_ERROR)) == "$raw == 0"


# ---- Buckets: the statements of the script, run as Python ----


def run(lines: list[str], ns: int) -> dict[str, int]:
    """The few statements that the bucket's lines are made of, as bpftrace runs them."""
    program, depth = "", 0
    for line in lines:
        plain = line.replace("$", "v_").replace("(uint64)", "").replace("/", "//").rstrip(";")
        if plain.startswith("}"):
            depth -= 1
        if "else if" in plain:
            plain = "elif " + plain.partition("else if ")[2]
        elif plain in ("}", "} else {"):
            plain = "" if plain == "}" else "else {"
        program += "\t" * depth + (plain.removesuffix(" {") + ":" if plain.endswith("{") else plain) + "\n"
        depth += line.endswith("{")
    names = {"v_ns": ns}
    exec(program, {}, names)
    return names


def samples() -> list[int]:
    edges = [2 ** (number / 16) for number in range(16 * 37)]
    near = {max(0, int(edge) + step) for edge in edges for step in (-1, 0, 1, 2)}
    chance = random.Random(7)
    return sorted(near | {chance.randrange(1 << 37) for _ in range(2000)})


def test_exponential_slots_are_the_models() -> None:
    lines = bpftrace_numbers.exponential_slot()
    assert all(run(lines, ns)["v_slot"] == counted_bucket(ns) - UNDERFLOW for ns in samples())


@pytest.mark.parametrize("wanted", [LinearRange(), LinearRange(100, 1000, 300), LinearRange(0, 10, 1)])
def test_linear_slots_are_the_models(wanted: LinearRange) -> None:
    lines = bpftrace_numbers.linear_slot(wanted)
    for ns in (0, 999, 1000, 99_999, 100_000, 200_000, 399_999, 400_000, 999_999, 1_000_000, 1_100_000, 10**9):
        slot = run(lines, ns)["v_linear"] - bpftrace_numbers.LINEAR
        expected = LinearHistogram.from_values(wanted.minimum, wanted.maximum, wanted.step, [ns]).counts.index(1)
        assert slot == expected, ns


def test_maps_become_series() -> None:
    maps = {
        "@all": 6,
        "@calls": {"7,0,323": 3, "7,0,1002": 3, "8,2,0": 2, "8,2,1001": 2, "8,2,2002": 2},
        "@total": {"7,0": 3700000, "8,2": 60},
        "@least": {"7,0": 1200000, "8,2": 20},
        "@most": {"7,0": 1300000, "8,2": 40},
        "@lost": {"1": 4},
    }
    rows = bpftrace_numbers.rows(maps, {8: 0})
    made = [row.series(key, ["SSL_read"], LinearRange()) for key, row in rows.items()]
    assert [(one.pid, one.outcome, one.count, one.total_ns) for one in made] == [
        (7, Word.SUCCESS, 3, 3700000),
        (None, Word.RETRY, 2, 60),
    ]
    assert made[0].linear.counts == (0, 0, 3, 0, 0, 0, 0)
    assert made[1].exponential.underflow == 2
    assert made[1].reasons == {"WANT_READ": 2}
    assert (made[0].min_ns, made[0].max_ns) == (1200000, 1300000)
    assert bpftrace_numbers.lost(maps, 1) == 4
    assert bpftrace_numbers.lost(maps, 0) == 0
    entries = len(maps["@calls"])
    assert (bpftrace_numbers.without_room(maps, entries), bpftrace_numbers.overwritten(maps, entries)) == (1, 0)
    assert (bpftrace_numbers.without_room(maps, entries + 1), bpftrace_numbers.overwritten(maps, entries + 1)) == (0, 1)


def test_folded_processes_are_added_up() -> None:
    maps = {
        "@calls": {"7,0,323": 1, "9,0,323": 2},
        "@total": {"7,0": 5, "9,0": 6},
        "@least": {"7,0": 3, "9,0": 2},
        "@most": {"7,0": 5, "9,0": 4},
    }
    (row,) = bpftrace_numbers.rows(maps, {7: 0, 9: 0}).values()
    assert (row.total, row.least, row.most, row.slots[323]) == (11, 2, 5, 3)


# ---- Symbols, and the script for a person ----


@pytest.mark.parametrize(("machine", "number"), [("x86-64", "EM_X86_64"), ("aarch64", "EM_AARCH64")])
def test_symbol_file_names_the_sites(machine: str, number: str) -> None:
    sites = bpftrace_script.sites(image(READ, SIGN))
    assert sites == {site_name(one.operation, p): p.address for one in (READ, SIGN) for p in one.probes}
    elf = ELFFile(BytesIO(symbol_file(sites, "ab" * 20, machine)))
    assert elf["e_machine"] == number
    table = elf.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    assert {symbol.name: symbol["st_value"] for symbol in table.iter_symbols() if symbol.name} == sites
    note = elf.get_section_by_name(".note.gnu.build-id")
    assert isinstance(note, NoteSection)
    assert next(note.iter_notes())["n_desc"] == "ab" * 20


def test_symbol_file_of_a_library_without_build_id() -> None:
    content = symbol_file({"one": 0x1234}, "", "x86-64")
    assert struct.unpack_from("<H", content, 60) == (5,)
    assert ELFFile(BytesIO(content)).get_section_by_name(".symtab").num_symbols() == 2  # type: ignore[union-attr]


def test_words_name_what_they_count() -> None:
    words = Words(LinearRange(0, 500, 50))
    assert (
        words.verdict("SSL_read", Outcome.RETRY, Reason.WANT_READ)
        == '$outcome = 2; @why["SSL_read", "retry WANT_READ"] = count();'
    )
    assert words.verdict("RSA_sign", Outcome.FAILURE, Reason.NONE) == '$outcome = 1; @why["RSA_sign", "failure"] = count();'
    assert '@hist["SSL_read"] = lhist($us, 0, 500, 50);' in words.record(0, "SSL_read")


@pytest.mark.parametrize(
    "path",
    [
        "/lib/$(reboot).so",
        "/lib/a b.so",
        "/lib/`x`.so",
        "/lib/a\n.so",
        "/lib/a;b.so",
        "/lib/*.so",
        "lib.so",
        "/a/../b.so",
        "/l'.so",
    ],
)
def test_a_path_that_may_break_out_is_refused(path: str) -> None:
    odd = TracedImage(image(READ).plan, path, (7,))
    with pytest.raises(SsllatencyError, match="characters that a script can't hold"):
        bpftrace_standalone.standalone([odd], [CONTENT], ["x"], role=Side.SERVER, linear=LinearRange(), everyone=True)


def test_names_of_the_target_cant_end_the_comment(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("library") / "libssl.so.3"
    file.write_bytes(CONTENT)
    missing = (MissingOperation("SSL_write", "*/ system(1)"),)
    plan = FilePlan(str(file), "ab", "*/ BEGIN { }\n/*", "libssl", (READ,), missing, OFFSETS, CODE)
    script = bpftrace_standalone.standalone(
        [TracedImage(plan, str(file), (7,))],
        [CONTENT],
        ["comm */\n//bin/true; reboot"],
        role=Side.SERVER,
        linear=LinearRange(),
        everyone=False,
    )
    assert script.count("*/") == 2
    assert "\n//bin/true; reboot" not in script
    assert script.startswith("#!/bin/sh\n//bin/true;")


def test_the_root_of_a_process_is_not_taken_off_its_files(tmp_path: Path) -> None:
    """bpftrace does so where it is spelled in the common way, when it looks for the names of sites."""
    here = tmp_path / "libssl.so.3"
    here.write_bytes(CONTENT)
    files = [str(here), f"/proc/{os.getpid()}/root{here}"]
    script = bpftrace_standalone.standalone(
        [TracedImage(replace(image(READ).plan, code=CODE), file, (7,)) for file in files],
        [CONTENT] * len(files),
        ["x"],
        role=Side.SERVER,
        linear=LinearRange(),
        everyone=True,
    )
    shown = [str(here), f"/proc/{os.getpid()}/./root{here}"]
    assert [line.split()[-1] for line in script.splitlines() if "bin/true; name " in line] == shown
    assert {line.split(":")[1] for line in script.splitlines() if line.startswith("uprobe:")} == set(shown)


# ---- bpftrace's versions ----


@pytest.mark.parametrize(("said", "expected"), [("bpftrace v0.17.0", (0, 17)), ("bpftrace v0.23.2", (0, 23)), ("usage", None)])
def test_the_version_that_a_bpftrace_tells(tmp_path: Path, said: str, expected: tuple[int, int] | None) -> None:
    program = tmp_path / "bpftrace"
    program.write_text(f"#!/bin/sh\necho {said}\n")
    program.chmod(0o755)
    if expected:
        assert bpftrace_process.version(str(program)) == expected
        return
    with pytest.raises(SsllatencyError, match="doesn't report its version"):
        bpftrace_process.version(str(program))


def test_a_signal_prints_all_maps_the_mark_last() -> None:
    script = "\n".join([*bpftrace_process.BEGIN, "@calls[pid] = count();", "@all = count();", "@calls[0] = count();"])
    lines = bpftrace_process.print_at_signal(script).split()
    assert lines == ["self:signal:SIGUSR1", "{", *(f"print(@{name});" for name in ("all", "calls", "wake", "zz_end")), "}"]


def test_a_bpftrace_that_sets_no_probes_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bpftrace"
    program.write_text('#!/bin/sh\n[ "$1" != --version ] || exec echo bpftrace v0.17.0\nexec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setattr(bpftrace_process, "program", lambda: str(program))
    monkeypatch.setattr(bpftrace_process, "_ATTACH_TIMEOUT_S", 0.2)
    run = bpftrace_process.Bpftrace("BEGIN {}", {}, probes=1, keys=1)
    try:
        with pytest.raises(SsllatencyError, match=r"^bpftrace didn't set its probes within 0 s and gave no reason\. Try"):
            run.wait_attached()
    finally:
        run.close()
