# SPDX-License-Identifier: Apache-2.0
"""Where calls of Go functions begin and end, and which functions are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.fixtures.go_program import Code, Label, Part, To
from tests.fixtures.go_samples import CALL, HANDSHAKE, JE, LAYOUTS, MACHINES, NOP, RET, checked, grow, leaf, program, waiting

from ssllatency.code.machine import Cost
from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfSource
from ssllatency.stacks.go.plan import FunctionPlan, plan, plan_functions
from ssllatency.stacks.go.program import Program
from ssllatency.stacks.go.sites.choose import MAX_CALLS, InnerCall
from ssllatency.stacks.go.traced_functions import Purpose, Shape, TracedFunction

PUSH, POP = b"\x55", b"\x5d"
MOV_RAX = bytes.fromhex("4889c0")  # mov %rax,%rax: writes an argument
X86 = "x86-64"
OTHERS = (
    "runtime.morestack_noctxt",
    "runtime.netpollblock",
    "runtime.duffcopy",
    "runtime.panicIndex",
    "runtime.deferreturn",
    "other",
)


def planned(code: Code, machine: str = X86, shape: Shape = Shape.SPAN, callee: str = "") -> FunctionPlan:
    """The sites of a function beside those that it may call; addresses are those within the function."""
    made = replace(program(machine=machine), functions=[*(leaf(name, machine) for name in OTHERS), code])
    read = Program(Image("made", ElfSource.of(made.data(), "/srv/app"), ()))
    traced = TracedFunction(code.name, Purpose.READ, shape, callee=callee)
    (found,) = plan_functions(read, [traced])
    entry = replace(found.entry, address=found.entry.address - found.address) if found.entry else None
    calls = tuple(InnerCall(call.call - found.address, call.behind - found.address) for call in found.calls)
    return replace(found, entry=entry, exits=tuple(at - found.address for at in found.exits), calls=calls)


def entry_of(found: FunctionPlan) -> tuple[int, bool, Cost]:
    """Where the entry site is, whether it is a branch that isn't taken, and what it costs."""
    assert found.entry is not None, found.obstacle
    return found.entry.address, found.entry.not_taken, found.entry.cost


def test_the_entry_is_the_push_behind_the_check() -> None:
    found = planned(checked("f", X86))
    assert entry_of(found) == (6, False, Cost.EMULATED)
    assert found.exits == (24, 30)
    assert found.obstacle == ""


def test_the_entry_of_older_functions_is_the_check_where_it_does_not_branch() -> None:
    found = planned(checked("f", X86, old=True))
    assert entry_of(found) == (4, True, Cost.EMULATED)
    assert found.exits == (34, 44)


def test_the_entry_on_aarch64_is_the_check() -> None:
    found = planned(checked("f", "aarch64"), "aarch64")
    assert entry_of(found) == (8, True, Cost.EMULATED)
    assert found.exits == (24, 32)


def test_large_frames_are_checked_twice() -> None:
    """A stack pointer that would wrap around grows the stack as well."""
    head: list[Part] = [Label("start"), bytes.fromhex("4989e44981ec00200000"), To(b"\x72", "grow")]
    body: list[Part] = [bytes.fromhex("4d3b6610"), To(b"\x76", "grow"), PUSH, POP, b"\xc3"]
    found = planned(Code("f", [*head, *body, *grow(X86)], [(19, 0), (20, 8), (60, 0)]))
    assert entry_of(found) == (18, False, Cost.EMULATED)
    assert found.exits == (20,)


def test_functions_without_a_check() -> None:
    """The first push; where there is none, the first instruction, which takes a step."""
    assert entry_of(planned(Code("f", [PUSH, POP, b"\xc3"], [(1, 0), (2, 8), (20, 0)]))) == (0, False, Cost.EMULATED)
    late = Code("f", [bytes.fromhex("4531e4"), PUSH, POP, b"\xc3"], [(4, 0), (5, 8), (20, 0)])
    assert entry_of(planned(late)) == (3, False, Cost.EMULATED)
    assert entry_of(planned(Code("f", [bytes.fromhex("31c0"), b"\xc3"]))) == (0, False, Cost.SINGLE_STEPPED)
    stepped = planned(Code("f", [bytes.fromhex("000080d2"), RET["aarch64"]]), "aarch64")
    assert entry_of(stepped) == (0, False, Cost.SINGLE_STEPPED)


TEST = bytes.fromhex("4885c0")
CHECK: list[Part] = [Label("start"), bytes.fromhex("493b6610"), To(b"\x76", "grow")]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([Label("start"), TEST, To(JE, "start"), b"\xc3"], "which isn't the check of its stack"),
        ([Label("start"), TEST, To(JE, "grow"), PUSH, POP, b"\xc3", Label("grow"), To(b"\xeb", "start")], "isn't the check"),
        ([Label("start"), TEST, To(JE, "grow"), b"\xc3", *grow(X86)], "the check of its stack isn't known"),
        ([*CHECK, PUSH, POP, b"\xc3", Label("grow"), To(CALL, "other", 4), To(b"\xeb", "start")], "isn't the check"),
        ([Label("start"), MOV_RAX, *CHECK[1:], PUSH, POP, b"\xc3", *grow(X86)], "its arguments change"),
        ([b"\xc3"], "no instruction at its entry"),
        ([b"\xcc"], "no instruction at its entry"),
        ([PUSH, POP, To(b"\xe9", "other", 4)], "leaves for"),
        ([PUSH, TEST, To(b"\x0f\x84", "other", 4), POP, b"\xc3"], "leaves for"),
        ([PUSH, POP, bytes.fromhex("ffe0")], "can't be followed"),
        ([PUSH, To(CALL, "runtime.panicIndex", 4), b"\x90"], "never returns"),
        ([PUSH, Label("on"), To(b"\xeb", "on")], "never returns"),
        ([PUSH, b"\xc3"], "doesn't balance"),
        ([PUSH, POP, b"\x06"], "can't be decoded"),
        ([PUSH, POP, To(b"\xeb", "on"), b"\xc3", Label("on"), b"\xc3"], "nothing is known to lead to its return"),
        ([PUSH, POP, TEST, To(b"\x74", "start"), b"\xc3"], "isn't the check of its stack"),
        (
            [PUSH, *[TEST, To(JE, "out")] * 4, Label("out"), POP, *[TEST, To(JE, "a"), b"\xc3", Label("a")] * 300, b"\xc3"],
            "ways out",
        ),
    ],
)
def test_functions_of_another_shape_are_refused(parts: Sequence[Part], reason: str) -> None:
    body: list[Part] = [part if part != To(b"\x74", "start") else To(JE, "begin") for part in parts]
    found = planned(Code("f", [Label("begin"), *_with_own_labels(body)], [(1 << 14, 0)]))
    assert reason in found.obstacle
    assert (found.entry, found.exits, found.calls) == (None, (), ())
    assert not found.obstacle.endswith(".")


def _with_own_labels(parts: Sequence[Part]) -> list[Part]:
    """The same, each jump to "a" to the next label of that name."""
    made: list[Part] = []
    number = 0
    for part in parts:
        if part == Label("a"):
            made.append(Label(f"a{number}"))
            number += 1
        else:
            made.append(To(part.opcode, f"a{number}", part.size) if isinstance(part, To) and part.target == "a" else part)
    return made


def test_a_table_of_stack_depths_that_disagrees_refuses_the_function() -> None:
    good = checked("f", X86)
    for depths in ([(6, 0), (1 << 10, 8)], [(1 << 10, 16)], [(3, 0)]):
        assert "its table of stack depths" in planned(replace(good, depths=depths)).obstacle


def test_what_follows_a_recovered_panic_leaves_by_its_own_return() -> None:
    """Nothing in the code leads there: the function's record names the place."""
    body: list[Part] = [PUSH, bytes.fromhex("4883ec10"), b"\x90", bytes.fromhex("4883c410"), POP, b"\xc3"]
    recovered: list[Part] = [To(CALL, "other", 4), bytes.fromhex("4883c410"), POP, b"\xc3"]
    depths = [(1, 0), (5, 8), (10, 24), (11, 8), (12, 0), (21, 24), (22, 8), (30, 0)]
    found = planned(Code("f", [*body, *recovered], depths, recovery=12))
    assert found.exits == (11, 22)
    assert "nothing is known to lead" in planned(Code("f", [*body, *recovered], depths)).obstacle
    wrong = [(1, 0), (5, 8), (10, 24), (11, 8), (12, 0), (21, 32), (22, 8), (30, 0)]
    assert "doesn't balance at its return" in planned(Code("f", [*body, *recovered], wrong, recovery=12)).obstacle


def test_more_calls_like_the_one_after_a_recovered_panic_leave_by_their_own_returns() -> None:
    """The runtime uses one of them; the record names it."""
    out = [bytes.fromhex("4883c410"), POP, b"\xc3"]
    recovered: list[Part] = [To(CALL, "runtime.deferreturn", 4), *out]
    body: list[Part] = [PUSH, bytes.fromhex("4883ec10"), b"\x90", *out, *recovered, *recovered]
    depths = [(1, 0), (5, 8), (10, 24), (11, 8), (12, 0), (21, 24), (22, 8), (23, 0), (32, 24), (33, 8), (40, 0)]
    assert planned(Code("f", body, depths, recovery=12)).exits == (11, 22, 33)
    assert "nothing is known to lead" in planned(Code("f", body, depths)).obstacle, "without a defer there is none"


@pytest.mark.parametrize("machine", MACHINES)
def test_waits_are_seen_at_the_call_and_the_branch_behind_it(machine: str) -> None:
    code = waiting(machine)
    found = planned(code, machine, Shape.CALL, "runtime.netpollblock")
    (call,) = found.calls
    assert call.call < call.behind <= call.call + 8
    assert "doesn't call" in planned(code, machine, Shape.CALL, "other").obstacle
    assert "no functions called" in planned(code, machine, Shape.CALL, "missing").obstacle
    straight = checked("f", machine, [NOP[machine]])
    assert "doesn't call" in planned(straight, machine, Shape.CALL, "runtime.netpollblock").obstacle


def test_a_wait_without_a_branch_at_once_is_refused() -> None:
    for body in (
        [To(CALL, "other", 4), b"\x90"],
        [To(CALL, "other", 4), To(CALL, "runtime.netpollblock", 4), TEST, To(JE, "early")],
    ):
        found = planned(checked("f", X86, body), X86, Shape.CALL, "other")
        assert "no branch comes first" in found.obstacle


CLOSURE = {  # by which its field is read, its code loaded, an argument set, and the call made
    X86: [bytes.fromhex(part) for part in ("488b5038", "488b0a", "4889d8", "ffd1")],
    "aarch64": [bytes.fromhex(part) for part in ("1a1c40f9", "410340f9", "e00303aa", "20003fd6")],
}


def calling(machine: str, *left_out: int, more: Sequence[Part] = ()) -> FunctionPlan:
    """A function that calls the closure in a Config's GetCertificate, without some of the instructions, or with more of them
    behind the load."""
    field, load, *others = (part for number, part in enumerate(CLOSURE[machine]) if number not in left_out)
    return planned(checked("f", machine, [field, load, *more, *others]), machine, Shape.CLOSURES)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_call_of_a_callback_is_seen_where_its_code_is_loaded(machine: str) -> None:
    """On aarch64 at the call itself, which is emulated."""
    found = calling(machine)
    assert found.obstacle == ""
    (call,) = found.calls
    assert call.call < call.behind
    without = calling(machine, 2)
    assert len(without.calls) == 1, "it may have been set before"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([bytes.fromhex("488b4910")], "the code comes from elsewhere: mov 0x10(%rcx),%rcx"),
        ([bytes.fromhex("4889c2")], "another closure is passed: mov %rax,%rdx"),
        ([To(CALL, "other", 4)], "a call may change both"),
        ([TEST, To(JE, "early")], "it isn't always called"),
    ],
)
def test_what_may_be_another_call_is_no_callback(more: Sequence[Part], why: str) -> None:
    assert calling(X86, more=more).obstacle == "no call of a closure is seen in it", why


def test_a_closure_of_another_field_is_no_callback() -> None:
    other = [bytes.fromhex(part) for part in ("488b5020", "488b0a", "ffd1")]  # mov 0x20(%rax),%rdx
    assert planned(checked("f", X86, other), X86, Shape.CLOSURES).calls == ()
    indexed = [bytes.fromhex(part) for part in ("488b1408", "488b0a", "ffd1")]  # mov (%rax,%rcx),%rdx
    assert planned(checked("f", X86, indexed), X86, Shape.CLOSURES).calls == ()
    passed = [bytes.fromhex(part) for part in ("488b542420", "488b0a", "ffd1")]  # mov 0x20(%rsp),%rdx
    assert len(planned(checked("f", X86, passed), X86, Shape.CLOSURES).calls) == 1


def test_a_closure_may_be_kept_in_another_register_while_what_is_passed_is_copied() -> None:
    """On aarch64, where what copies it changes the register in which the callee finds the closure."""
    field, load = bytes.fromhex("011c40f9"), bytes.fromhex("220040f9")  # ldr x1,[x0,#0x38]; ldr x2,[x1]
    copy, passed, call = To(b"\0\0\0\x94", "runtime.duffcopy", 26), bytes.fromhex("fa0301aa"), bytes.fromhex("40003fd6")
    parts: list[Part] = [field, load, copy, passed, call]
    found = planned(checked("f", "aarch64", parts), "aarch64", Shape.CLOSURES)
    assert [found.calls[0].behind - found.calls[0].call, found.obstacle] == [4, ""]
    for changed in (
        [field, load, To(b"\0\0\0\x94", "other", 26), passed, call],
        [bytes.fromhex("1a1c40f9"), bytes.fromhex("420340f9"), copy, call],  # ldr x26,[x0,#0x38]; ldr x2,[x26]
        [field, bytes.fromhex("620040f9"), passed, call],  # ldr x2,[x3]
        [bytes.fromhex("011040f9"), load, passed, call],  # ldr x1,[x0,#0x20]
    ):
        assert planned(checked("f", "aarch64", changed), "aarch64", Shape.CLOSURES).calls == ()


SIGN = "crypto.Signer.Sign"
LOADED = {X86: bytes.fromhex("4d8b642420"), "aarch64": bytes.fromhex("081140f9")}  # from 0x20 in the itab
CALLED = {X86: bytes.fromhex("41ffd4"), "aarch64": bytes.fromhex("00013fd6")}
PASSED = {
    X86: [bytes.fromhex(part) for part in ("31c0", "31db", "31c9", "31ff", "31f6", "4531c0", "4531c9", "4531d2")],
    "aarch64": [(0xD2800000 + register).to_bytes(4, "little") for register in range(8)],
}
TESTED: dict[str, list[Part]] = {X86: [TEST, To(JE, "early")], "aarch64": [To(b"\0\0\0\xb4", "early", 19)]}


def signing(parts: Sequence[Part], machine: str = X86, name: str = SIGN) -> FunctionPlan:
    return planned(checked("f", machine, parts), machine, Shape.METHOD, name)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_call_of_a_method_is_seen_by_its_place_in_the_itab(machine: str) -> None:
    """On x86-64 where its code is loaded, or at an emulated instruction since; on aarch64 at the call itself."""
    before, behind = [LOADED[machine], *PASSED[machine]], [CALLED[machine], *TESTED[machine]]
    found = signing([*before, *behind], machine)
    assert found.obstacle == ""
    (call,) = found.calls
    sizes = {"load": len(b"".join([LOADED[X86], *PASSED[X86], CALLED[X86], TEST])), "call": 4}
    assert call.behind - call.call == sizes["load" if machine == X86 else "call"]
    (later,) = signing([*before, NOP[machine], *behind], machine).calls
    assert later.behind - later.call == (len(NOP[X86] + CALLED[X86] + TEST) if machine == X86 else 4)


LOAD, CALL_IT, PASS = LOADED[X86], CALLED[X86], PASSED[X86]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([*PASS, CALL_IT, *TESTED[X86]], "no calls of the method"),
        ([LOAD, *PASS[1:], CALL_IT, *TESTED[X86]], "no calls of the method"),
        ([bytes.fromhex("4d8b642418"), *PASS, CALL_IT, *TESTED[X86]], "no calls of the method"),
        ([bytes.fromhex("4d8b2404"), *PASS, CALL_IT, *TESTED[X86]], "no calls of the method"),  # mov (%r12,%rax),%r12
        ([LOAD, *PASS, TEST, To(JE, "early"), CALL_IT, *TESTED[X86]], "no calls of the method"),
        ([LOAD, *PASS, CALL_IT, *TESTED[X86]] * 2, "2 calls of the method"),
        ([LOAD, *PASS, CALL_IT, To(CALL, "other", 4), *TESTED[X86]], "no branch comes first"),
    ],
)
def test_what_may_be_another_method_is_refused(parts: Sequence[Part], reason: str) -> None:
    """One whose code comes from elsewhere, that gets less, or that isn't the only one."""
    found = signing(parts)
    assert (found.calls, reason in found.obstacle) == ((), True), found.obstacle


def test_a_method_of_an_interface_that_the_program_does_not_have_is_refused() -> None:
    for name in ("crypto.Signer.Verify", "crypto.Decrypter.Decrypt"):
        assert signing([LOAD, *PASS, CALL_IT, *TESTED[X86]], name=name).obstacle == f"the program's types don't show {name}"


def test_a_result_must_be_in_its_register_at_the_branch_behind_the_call() -> None:
    kept: list[Part] = [To(CALL, "other", 4), TEST, To(JE, "early")]
    lost: list[Part] = [To(CALL, "other", 4), bytes.fromhex("31c0"), TEST, To(JE, "early")]
    assert len(planned(checked("f", X86, kept), X86, Shape.RESULT, "other").calls) == 1
    assert len(planned(checked("f", X86, lost), X86, Shape.CALL, "other").calls) == 1
    assert "is gone before the branch" in planned(checked("f", X86, lost), X86, Shape.RESULT, "other").obstacle


@pytest.mark.parametrize("shape", [Shape.CALL, Shape.CLOSURES])
def test_a_function_with_more_calls_than_any_is_refused(shape: Shape) -> None:
    """Each would be a probe."""
    field, load, argument, call = CLOSURE[X86]
    wait = [To(CALL, "other", 4), TEST, bytes.fromhex("7400")]  # je to the next instruction
    body: list[Part] = [field, load, argument, call] if shape is Shape.CLOSURES else wait

    def calls(number: int) -> FunctionPlan:
        code = Code("f", [PUSH, *(body * number), POP, RET[X86]], [(1, 0), (1 << 14, 8)])
        return planned(code, X86, shape, callee="other")

    assert len(calls(MAX_CALLS).calls) == MAX_CALLS
    refused = calls(MAX_CALLS + 1)
    assert (refused.calls, refused.obstacle) == ((), f"it has more than {MAX_CALLS} calls that would need a probe")


def test_only_the_entry_of_a_function_that_may_not_return() -> None:
    code = Code("f", [PUSH, To(CALL, "runtime.panicIndex", 4), b"\x90"], [(1, 0), (20, 8)])
    assert entry_of(planned(code, shape=Shape.ENTRY)) == (0, False, Cost.EMULATED)
    assert "never returns" in planned(code).obstacle


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_program_is_planned_as_a_whole(layout: int, machine: str) -> None:
    read = Program(Image("made", ElfSource.of(program(layout, machine, pie=True).data(), "/srv/app"), ()))
    plans = {found.traced.name: found for found in plan(read)}
    assert plans[HANDSHAKE].entry is not None
    assert len(plans[HANDSHAKE].exits) == 2
    assert plans["crypto/tls.(*Conn).Close"].obstacle == "the file doesn't have it"
    assert len(plans["internal/poll.runtime_pollWait"].calls) == 1
    assert plans["runtime.gopanic"].entry is not None
    minor = read.build_info.minor
    assert minor is not None
    assert all(found.traced.exists_in(minor) for found in plans.values())


def test_of_two_functions_of_a_name_neither_is_planned() -> None:
    made = replace(program(), functions=[leaf("f", X86), leaf("f", X86), checked("host", X86, inlined=("f",))])
    read = Program(Image("made", ElfSource.of(made.data(), "/srv/app"), ()))
    (found,) = plan_functions(read, [TracedFunction("f", Purpose.READ)])
    assert found.obstacle == "the file has 2 functions of this name"
    assert found.inlined_into == ("host",)
