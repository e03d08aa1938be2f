# SPDX-License-Identifier: Apache-2.0
"""The sites around one call, on small functions in assembly. Labels name the sites: at_call is the call."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest
from tests.fixtures.assembled import Assembled, function

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import BASELINE, Cost, Emulation
from ssllatency.code.x86.machine import X86
from ssllatency.probes.sites.brackets import Begin, begin_site, end_site

NO_CALLS = Emulation(calls=False)
NONE: frozenset[str] = frozenset()
Assemble = Callable[[str], Assembled]


class Code:
    """A function f in assembly, and the sites around the call in it at a label."""

    def __init__(self, made: Assembled) -> None:
        self._made = made
        self._graph = Bodies(made.image, X86()).graph(made.symbols["f"])

    def begin(
        self,
        needed: frozenset[str] = NONE,
        wanted: frozenset[str] = NONE,
        emulation: Emulation = BASELINE,
        *,
        branches: bool = True,
        passing: Collection[str] = (),
    ) -> Begin:
        passed, call = {self._made.symbols[name] for name in passing}, self._made.symbols["at_call"]
        return begin_site(self._graph, call, needed, wanted, emulation, branches=branches, passing=passed)

    def begins(self, *arguments: frozenset[str], emulation: Emulation = BASELINE, branches: bool = True) -> str:
        return self.label(self.begin(*arguments, emulation=emulation, branches=branches))

    def label(self, begin: Begin) -> str:
        return self._made.label(begin.site.address)

    def end(self, avoid: Collection[str] = (), emulation: Emulation = BASELINE) -> str:
        avoided = {self._made.symbols[name] for name in avoid}
        return self._made.label(end_site(self._graph, self._made.symbols["at_call"], avoided, emulation).address)


@pytest.fixture
def code(assembled: Assemble) -> Callable[[str], Code]:
    return lambda body: Code(assembled(function("f", body)))


Make = Callable[[str], Code]
PLAIN = """
at_push: push %rbx
at_argument: mov %rsi,%rdx
at_before: mov %rdi,%rbx
at_call: call other@PLT
at_past: mov %rax,%rbx
test %eax,%eax
at_branch: je 1f
nop
1: pop %rbx
ret
"""


def test_a_direct_call_is_its_own_begin_and_the_branch_on_its_value_the_end(code: Make) -> None:
    made = code(PLAIN)
    begin = made.begin()
    assert (made.begins(), begin.site.cost, begin.site.stack_delta) == ("at_call", Cost.EMULATED, 8)
    assert made.end() == "at_branch"


def test_an_end_that_is_not_to_be_taken_gives_way_to_the_next_best(code: Make) -> None:
    assert code(PLAIN).end(avoid=["at_branch"]) == "at_past"


def test_without_calls_the_begin_is_before_it_with_its_arguments_in_place(code: Make) -> None:
    made = code(PLAIN)
    assert made.begins(emulation=NO_CALLS) == "at_push"
    assert made.begins(frozenset(("rdx",)), emulation=NO_CALLS) == "at_before"
    with pytest.raises(Unplannable, match="with its arguments in place"):
        made.begin(frozenset(("rbx",)), emulation=NO_CALLS)


def test_what_is_wanted_only_is_lost_where_it_would_cost_more(code: Make) -> None:
    made = code("push %rbx\nat_before: mov %rsi,%rdx\nat_call: call other@PLT\nat_past: mov %rax,%rbx\npop %rbx\nret")
    assert made.begin(NONE, frozenset(("rdx",)), NO_CALLS).lost == {"rdx"}
    assert made.begin(NONE, frozenset(("rdx",)), BASELINE).lost == NONE


INDIRECT = """
sub $8,%rsp
mov 8(%rdi),%rax
test %rax,%rax
at_branch: JCC 1f
at_argument: mov %rsi,%rdx
at_call: call *%rax
at_past: cmp $3,%eax
at_end: jne 1f
nop
1: add $8,%rsp
ret
"""


@pytest.mark.parametrize("mnemonic", ["je", "js"])
def test_an_indirect_call_begins_at_the_branch_that_leads_to_it(code: Make, mnemonic: str) -> None:
    made = code(INDIRECT.replace("JCC", mnemonic))
    begin = made.begin()
    assert (made.begins(), begin.condition, begin.taken, begin.site.cost) == ("at_branch", mnemonic, False, Cost.EMULATED)
    assert made.end() == "at_end"


def test_an_indirect_call_is_stepped_where_no_branch_may_be_the_begin(code: Make) -> None:
    made = code(INDIRECT.replace("JCC", "je"))
    assert made.begins(branches=False) == "at_call"
    assert made.begin(branches=False).site.cost is Cost.SINGLE_STEPPED
    assert made.begins(frozenset(("rdx",))) == "at_call"  # set between the branch and the call


def test_a_branch_whose_taken_way_leads_to_the_call(code: Make) -> None:
    made = code("sub $8,%rsp\ntest %rdi,%rdi\nat_branch: jne 1f\nadd $8,%rsp\nret\n1: at_call: call *%rdi\nadd $8,%rsp\nret")
    begin = made.begin()
    assert (made.begins(), begin.condition, begin.taken) == ("at_branch", "jne", True)


def test_nothing_before_a_place_that_other_ways_lead_to_is_a_begin(code: Make) -> None:
    made = code("""
        sub $8,%rsp
        test %rdi,%rdi
        at_one: je 1f
        xor %esi,%esi
        1: at_joined: mov %rdi,%rdx
        at_call: call *%rsi
        add $8,%rsp
        ret
    """)
    assert made.begins() == "at_call"
    assert made.begins(emulation=NO_CALLS) == "at_joined"


def test_nothing_before_another_call_is_a_begin(code: Make) -> None:
    """It would count that call's time as well."""
    made = code("push %rbx\nat_other: call first@PLT\nat_call: call *%rbx\npop %rbx\nret")
    assert made.begins() == "at_call"
    with pytest.raises(Unplannable):
        made.begin(emulation=NO_CALLS)


def test_a_call_that_takes_no_time_may_be_the_begin_or_lie_behind_it(code: Make) -> None:
    made = code("""
        push %rbx
        test %rbx,%rbx
        at_branch: je 1f
        call first@PLT
        at_after: mov %rax,%rdi
        at_brief: call brief@PLT
        at_call: call *%rbx
        1: pop %rbx
        ret
    """)
    assert made.begins() == "at_call"
    brief = made.begin(passing=["at_brief"])
    assert (made.label(brief), brief.site.cost, brief.condition) == ("at_brief", Cost.EMULATED, "")
    assert made.label(made.begin(emulation=NO_CALLS, passing=["at_brief"])) == "at_after"
    assert made.label(made.begin(frozenset(("rdi",)), passing=["at_brief"])) == "at_call"
    with pytest.raises(Unplannable):
        made.begin(frozenset(("rdi",)), emulation=NO_CALLS, passing=["at_brief"])


def test_where_a_jump_may_lead_anywhere_the_call_alone_is_sure(code: Make) -> None:
    made = code(
        "sub $8,%rsp\ntest %rdi,%rdi\nat_branch: je 1f\nat_call: call *%rdi\nat_past: mov %eax,%esi\n"
        "1: add $8,%rsp\nmovslq table(%rip),%rax\nadd %rdx,%rax\njmp *(%rax,%rsi,8)\ntable: .long 0"
    )
    assert made.begins() == "at_call"


def test_an_end_past_a_call_that_no_cheap_instruction_follows_is_stepped(code: Make) -> None:
    made = code("sub $8,%rsp\nat_call: call other@PLT\nat_past: mov %eax,%edx\nadd $8,%rsp\nret")
    assert made.end() == "at_past"


def test_an_end_may_lie_past_a_jump(code: Make) -> None:
    made = code("push %rbx\nmov %edi,%ebx\ntest %edi,%edi\nje 2f\n1: pop %rbx\nret\n2: at_call: call o@PLT\nat_end: jmp 1b")
    assert made.end() == "at_end"


def test_what_is_no_call_and_a_call_that_never_returns_are_refused(code: Make) -> None:
    with pytest.raises(Unplannable, match="is no call"):
        code("at_call: jmp other@PLT").begin()
    with pytest.raises(Unplannable, match="no instruction past the call"):
        code("push %rbx\nat_call: call abort@PLT\nnop").end()


def test_a_part_split_off_is_not_taken_for_a_function(assembled: Assemble) -> None:
    """Its frame is set up where it is entered, which only the unwind tables tell."""
    part = ".cfi_def_cfa_offset 32\ncall other@PLT\nud2"
    made = assembled(function("f", "sub $24,%rsp\n.cfi_def_cfa_offset 32\njmp part\n") + function("part", part))
    bodies = Bodies(made.image, X86())
    assert not made.image.is_part(made.symbols["f"])
    assert made.image.is_part(made.symbols["part"])
    with pytest.raises(Unplannable, match="split off"):
        bodies.graph(made.symbols["part"])
    graph = bodies.graph(made.symbols["f"])
    assert graph.delta(made.symbols["part"]) == 24
