# SPDX-License-Identifier: Apache-2.0
"""What the kernel is told of the labels that tell rows apart, and of the sites at which phases begin."""

from __future__ import annotations

import ctypes

import pytest

from ssllatency import abi
from ssllatency.code.machine import Cost
from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.handshake_sites import error_sites, phase_sites, raised_sites, row_mask, tell_why, watched
from ssllatency.model.handshakes import Label
from ssllatency.probes.plan import ErrorSite, FilePlan, HandshakeSites, MissingOperation, OperationPlan, PhaseCall, Probe, Role
from ssllatency.stacks.phases import ErrorKind, Phase
from ssllatency.stacks.registry import stack_named


def masked(labels: abi.Labels, mask: abi.Labels) -> abi.Labels:
    """As row_key in bpf/handshakes/tables.bpf.h."""
    return abi.Labels.from_buffer_copy(bytes(a & b for a, b in zip(bytes(labels), bytes(mask), strict=True)))


def kept_of(labels: abi.Labels) -> set[str]:
    """The labels and other members that have a value, and all of it."""
    values = {Label[abi.Label(number).name]: labels.values[number] for number in range(abi.Label.LABELS)}
    assert set(values.values()) <= {0, 0xFFFFFFFF}
    assert (labels.library, labels.ending) in ((0, 0xFF), (0xFFFF, 0xFF))
    return {label for label, value in values.items() if value} | ({"library"} if labels.library else set())


ALL = abi.Labels.from_buffer_copy(b"\xff" * ctypes.sizeof(abi.Labels))


@pytest.mark.parametrize(("by", "library"), [
    ((), False),
    ((Label.VERSION,), True),
    ((Label.CIPHER,), True),
    ((Label.RESUMED,), False),
    ((Label.GROUP, Label.RESUMED), True),
    ((Label.SIGNATURE,), True),
    ((Label.CLIENT_CERTIFICATE,), False),
    ((Label.ROLE, Label.PROCESS), False),
    ((Label.SNI, Label.PEER), False),
])  # fmt: skip
def test_rows_differ_by_the_labels_asked_for_and_by_the_ending(by: tuple[Label, ...], library: bool) -> None:
    key = masked(ALL, row_mask(by))
    assert kept_of(key) == {*by, *(["library"] if library else [])}
    known = {abi.Label(bit) for bit in range(32) if key.known >> bit & 1}
    assert known == {abi.Label.OTHER, *(abi.Label[label.name] for label in by)}


@pytest.mark.parametrize(("callee", "mark"), [
    ("tls_decrypt_ticket", 0),
    ("EVP_CIPHER_CTX_new", 1 << abi.PhaseCookie.TICKET),
    ("lookup_sess_in_cache", 1 << abi.PhaseCookie.CACHE),
])  # fmt: skip
def test_session_lookups_are_marked_by_what_they_look_at(callee: str, mark: int) -> None:
    begin, end = (Probe(at, at, role, "call 0x10", Cost.EMULATED, 8) for at, role in ((16, Role.ENTRY), (21, Role.EXIT)))
    ((_, cookie),), _ = phase_sites([PhaseCall(Phase.SESSION_LOOKUP, callee, begin, (end,))], stack_named("openssl").offers)
    assert cookie == abi.Part.SESSION_LOOKUP | 8 << abi.PhaseCookie.STACK | mark


def plan(*kinds: ErrorKind, makes_handshakes: bool) -> HandshakeSites:
    """A library with an error site of each kind, 16 bytes apart."""
    errors = tuple(
        ErrorSite(kind, "", Probe(16 * n, 16 * n, Role.ENTRY, "call", Cost.EMULATED)) for n, kind in enumerate(kinds, 1)
    )
    begin, end = Probe(0, 0, Role.ENTRY, "call", Cost.EMULATED), Probe(5, 5, Role.EXIT, "test", Cost.EMULATED)
    calls = (PhaseCall(Phase.CALLBACKS, "cert_cb", begin, (end,)),) if makes_handshakes else ()
    return HandshakeSites(calls=calls, errors=errors)


LIBCRYPTO = plan(ErrorKind.RAISE, makes_handshakes=False)
LIBSSL = plan(ErrorKind.FATAL, ErrorKind.OWN, makes_handshakes=True)
OLDER = plan(ErrorKind.FATAL, makes_handshakes=True)
WHOLE = plan(ErrorKind.FATAL, ErrorKind.RAISE, makes_handshakes=True)


@pytest.mark.parametrize(("plans", "told"), [
    ((LIBSSL, LIBCRYPTO), True),
    ((LIBCRYPTO,), True),  # nothing makes handshakes yet
    ((), True),
    ((LIBSSL, LIBCRYPTO, OLDER), False),
    ((WHOLE,), False),
])  # fmt: skip
def test_errors_below_matter_where_a_library_does_not_tell_why(plans: tuple[HandshakeSites, ...], told: bool) -> None:
    assert tell_why(plans) is told


def test_what_is_raised_is_all_but_what_a_library_tells_itself() -> None:
    assert [offset for offset, _ in raised_sites(WHOLE)] == [32]
    assert raised_sites(LIBSSL) == []
    assert [cookie for _, cookie in error_sites(LIBSSL.errors)] == [1 << abi.ErrorCookie.FATAL | 1, 1]


ENTRY = Probe(16, 16, Role.ENTRY, "push rbp", Cost.EMULATED)


def image(*operations: str, machine: bool = False, missing: str = "", stack: str = "openssl") -> TracedImage:
    """A file in which these operations are planned, and maybe the state machine."""
    machine_plan = OperationPlan("state_machine", 16, 64, "tables", (ENTRY,)) if machine else None
    return TracedImage(
        plan=FilePlan(
            path="/lib/libssl.so.3",
            build_id="",
            version="",
            kind="libssl",
            operations=tuple(OperationPlan(name, 16, 64, "symbols", (ENTRY,)) for name in operations),
            missing=(MissingOperation(missing, "it runs off its end"),) if missing else (),
            stack=stack,
            handshake=HandshakeSites(state_machine=machine_plan),
        ),
        file="/lib/libssl.so.3",
        pids=(1,),
    )


@pytest.mark.parametrize(("libssl", "libcrypto", "expected"), [
    (image("SSL_do_handshake", "SSL_free", machine=True), image("ASYNC_pause_job"), {"SSL_free"}),
    (image("SSL_do_handshake", "SSL_free"), image("ASYNC_pause_job"), {"SSL_do_handshake", "SSL_free"}),
    (image("SSL_do_handshake", "SSL_free", machine=True), image(missing="ASYNC_pause_job"), {"SSL_do_handshake", "SSL_free"}),
    (image("SSL_do_handshake", "SSL_free", machine=True), image(), {"SSL_do_handshake", "SSL_free"}),
])  # fmt: skip
def test_the_call_around_the_state_machine_is_watched_where_that_is_not_enough(
    libssl: TracedImage, libcrypto: TracedImage, expected: set[str]
) -> None:
    """A job that pauses where it isn't seen would look like a call that takes as long as the offload."""
    first, _ = watched([libssl, libcrypto], [libssl, libcrypto])
    assert {planned.operation for planned in first.plan.operations} == expected


def test_one_library_whose_pauses_are_not_seen_has_the_calls_of_all_watched() -> None:
    """It isn't known which of them a program's jobs pause in."""
    libssl = image("SSL_do_handshake", machine=True)
    [only] = watched([libssl], [libssl, image("ASYNC_pause_job"), image(missing="ASYNC_pause_job")])
    assert [planned.operation for planned in only.plan.operations] == ["SSL_do_handshake"]
