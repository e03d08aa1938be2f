# SPDX-License-Identifier: Apache-2.0
"""A plan as plain data: which instructions of a file are probed, in which role, for which operation, and for which phase of a
handshake.

A plan is a value. It is printed by `ssllatency probes`, kept in the cache by what is in the file, and compared in tests.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from ssllatency.code.machine import Cost
from ssllatency.data_class import dataclass

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath
    from ssllatency.stacks.phases import ErrorKind, MissingPart, Phase, Runtime, Transport

NOT_IN_LIBRARY = "not in this library"  # the reason of an operation that this version or build of a library doesn't have


class Role(StrEnum):
    """The roles of a probe. ENTRY takes the time stamp; EXIT is an instruction on the way out, past which the return value is
    known to be in one register; RETURN is a kernel return probe on the function's entry, and stands for the entry probe at
    the same place as well (both in one, a uprobe session, where the kernel has it)."""

    ENTRY = "entry"
    EXIT = "exit"
    RETURN = "return"


class Leaving(StrEnum):
    """In which direction of a branch, the instruction of an exit site, the call is left; in the other it goes on."""

    BOTH = "both"
    TAKEN = "taken"
    OTHER = "other"


# The conditional branches whose way the flags of an x86-64 tell, by the condition code: the lowest four bits of jcc's opcode.
CONDITIONS = ("jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg")

# Those of an aarch64, by the condition code, as far as functions begin by them.
AARCH64_CONDITIONS = {"b.ls": 9}


def condition_number(mnemonic: str) -> int:
    """The condition code of a conditional branch, as cookies have it; 0 for no branch."""
    return AARCH64_CONDITIONS.get(mnemonic) or (CONDITIONS.index(mnemonic) if mnemonic else 0)


# The return values that an exit site can stand for without a register that holds them.
CONSTANTS = range(-2, 12)


@dataclass(frozen=True)
class Probe:
    """One probe site.

    `offset` is the file offset in bytes; `address` the virtual address in the file's own numbering. `stack_delta` is the
    stack pointer at the function's entry minus the stack pointer at the site, in bytes. `return_register` names the 64-bit
    register that holds the return value past an exit site ("rax", "rbx", …), "" for other roles. `shared` marks an exit
    that is also reached without the operation's entry (a tail-called function), so that an exit without entry is no loss; and
    an entry that a call may cross again before it ends.
    `keeps_length`: at this entry the size_t * by which the call says its bytes is still in its register.

    Where the way that a branch takes decides, `condition` is the branch's mnemonic ("jne"), `leaving` the direction in which
    the call ends, or at an entry begins. `taken_value` and `other_value` are what it then returns, None where `return_register`
    holds that; without a condition they are the same. `passed`: how many sites a call passes at most before this one without
    ending there. `fails`: only calls that fail end here. `result_slots`: bytes above the stack pointer at an exit in what a
    function defers, where that function has the results, a number and an error.
    """

    offset: int
    address: int
    role: Role
    instruction: str
    cost: Cost
    stack_delta: int = 0
    return_register: str = ""
    shared: bool = False
    keeps_length: bool = False
    condition: str = ""
    leaving: Leaving = Leaving.BOTH
    taken_value: int | None = None
    other_value: int | None = None
    passed: int = 0
    fails: bool = False
    result_slots: tuple[int, ...] = ()

    def values(self) -> tuple[str | int, ...]:
        """The values returned past an exit site, in the directions in which the call is left, taken first: a register, a slot
        or a constant. One value where the directions don't differ, none for other roles."""
        if self.role is not Role.EXIT:
            return (self.return_register,) if self.return_register else ()
        if self.result_slots:
            return (f"[sp + {self.result_slots[-1]}]",)
        taken = self.return_register if self.taken_value is None else self.taken_value
        other = self.return_register if self.other_value is None else self.other_value
        if not self.condition:
            return (taken,)
        return {Leaving.BOTH: (taken, other), Leaving.TAKEN: (taken,), Leaving.OTHER: (other,)}[self.leaving]

    def value_note(self) -> str:
        """The values returned past an exit site, in words: "value in rbx", "value 1 if jne", "value 1 if jne, else in rbx"."""
        said = [f"in {value}" if isinstance(value, str) else f"{value}" for value in self.values()]
        if not said or not self.condition:
            return f"value {said[0]}" if said else ""
        if self.leaving is Leaving.BOTH:
            return f"value {said[0]} if {self.condition}, else {said[1]}"
        return f"value {said[0]} if {'' if self.leaving is Leaving.TAKEN else 'not '}{self.condition}"


@dataclass(frozen=True)
class CodeRange:
    """Bytes of the file that sites were chosen by: from where a function begins to past its last site. `digest` is their
    SHA-256: a probe is set only where the file that it is set in has these very bytes."""

    offset: int
    size: int
    digest: str


class Covered:
    """Tells which sites lie in some ranges of code."""

    def __init__(self, code: Iterable[CodeRange]) -> None:
        self._ends: dict[int, int] = {}
        for code_range in code:
            self._ends[code_range.offset] = max(self._ends.get(code_range.offset, 0), code_range.offset + code_range.size)
        self._starts = sorted(self._ends)

    def holds(self, offset: int) -> bool:
        """Whether the byte at this offset of the file lies in one of the ranges."""
        at = bisect_right(self._starts, offset)
        return at > 0 and offset < self._ends[self._starts[at - 1]]


@dataclass(frozen=True)
class OperationPlan:
    """The probes of one operation of the catalogue in one file. `found` and `debug_file` say how the function was found, as for
    Function."""

    operation: str
    address: int
    size: int
    found: str
    probes: tuple[Probe, ...]
    debug_file: str = ""


@dataclass(frozen=True)
class MissingOperation:
    """An operation that is not probed in this file, and why (a phrase without a full stop)."""

    operation: str
    reason: str


@dataclass(frozen=True)
class SslOffsets:
    """Byte offsets inside SSL (or SSL_CONNECTION) that the library's own accessors show; None where they don't.

    `rwstate` from SSL_want, `server` from SSL_is_server, `rbio` from SSL_get_rbio, `wbio` from SSL_get_wbio, `shutdown` from
    SSL_get_shutdown, `version` from SSL_version, `state` (of the handshake's message flow) from SSL_in_before. In BoringSSL,
    `boringssl` is where SSL points to what `rwstate` lies in, one of BoringSSL's own codes, both from SSL_get_error;
    `server_bits` are the bits at `server` that count. In Go's Conn, `client` is the byte that is 1 at clients;
    `sent` is where it keeps why it writes no more. `deadline` isn't an offset, but where the itab of the error of a deadline
    lies, from that of a *net.OpError on; nor are `go_types`, the hashes of the types by which errors and sockets are known.
    `go_fields`: where records of Go's runtime and of crypto/tls have what else is read of them.

    Inside BIO, from libcrypto: `bio_flags` from BIO_test_flags, `bio_method`, whose first word is the type, from
    BIO_method_type, and `bio_descriptor`, a socket's, from the control function of BIO_s_socket. From libcrypto as well, inside
    X509, `x509_encoding` of what was signed as it came, and `x509_signature`; `stack_count` of a stack's number of members.
    """

    rwstate: int | None = None
    server: int | None = None
    rbio: int | None = None
    wbio: int | None = None
    shutdown: int | None = None
    version: int | None = None
    state: int | None = None
    bio_flags: int | None = None
    bio_method: int | None = None
    bio_descriptor: int | None = None
    x509_encoding: int | None = None
    x509_signature: int | None = None
    stack_count: int | None = None
    boringssl: int | None = None
    server_bits: int | None = None
    client: int | None = None
    deadline: int | None = None
    sent: int | None = None
    go_types: tuple[int, ...] = ()
    go_fields: tuple[int, ...] = ()


@dataclass(frozen=True)
class PhaseCall:
    """One call site of `callee`: a function's name, or of an indirect call the callback's. The call, which the TLS library
    makes, is a phase of a handshake.

    The phase begins at the call site, or at a branch that leads to it alone, and ends at the first cheap instruction past it.
    Both lie in one frame: the stack pointer at the function's entry, which is the one at the site plus `stack_delta`, is the
    same at both. An end may be reached by other ways too, without the call; it ends a phase only where one that began in the
    same frame is open. Without `ends` the call lies within another one that is a phase, and only tells what kind of key that
    uses.

    `begin` has the role ENTRY, `ends` EXIT; a call has run when any end is crossed with the frame of its begin. `skip_null` is
    an argument that is NULL where only the size is asked for: that call isn't counted. `operation` is "sign" or "decrypt" for
    PRIVATE_KEY. `size_argument` tells the key's size in bytes, or where `size_is_pointer` points to a size_t that does: before
    the call it is the buffer's size. Arguments are in their registers at `begin`.

    `condition`: where `begin` is a conditional branch in front of the call, its mnemonic ("je", …); the phase begins only where
    the branch is taken, or falls through, as `taken` says. Such a begin has no arguments to read.
    """

    phase: Phase | Transport | Runtime
    callee: str
    begin: Probe
    ends: tuple[Probe, ...]
    skip_null: int | None = None
    operation: str = ""
    size_argument: int | None = None
    size_is_pointer: bool = False
    condition: str = ""
    taken: bool = False


@dataclass(frozen=True)
class ErrorSite:
    """The entry of a function that records an error; the arguments that `kind` names are in their registers at `probe`."""

    kind: ErrorKind
    function: str
    probe: Probe


@dataclass(frozen=True)
class HandshakeSites:
    """The sites in one file to split its handshakes.

    `transport` are the calls by which the library reads and writes: they are watched only in processes whose calls sleep.
    `collections` are the functions of a runtime in which a thread works for a collection of garbage, from entry to return.
    `state_machine` is the function that all of the library's handshakes go through; `within_data`: reads and writes have to be
    watched as well, as handshakes that take place within them go through no other function that is. `wake` is the entry of the
    function that `wakes` of a Library names, with the first three arguments in their registers; `chosen` are the returns of the
    function that chooses the certificate that a server serves, and returns it; `signs` is the entry of the function that signs
    for a handshake, with what leads to its certificates in the first argument's register, and the algorithm's code point in the
    fifth's; `transcript` is the entry of the function that adds a message to a handshake's transcript, with its address and its
    length in the second and third argument's registers; `parameters` are the returns of the function that gives the transport
    parameters of QUIC, as a slice; `adds_parameters` is the entry of the function that adds them to a server's message, with
    what leads to them by the labels "quic_parameters" and "quic_parameters_length" in the first argument's register;
    `labels` are fields of a connection by name; `code` holds every site.
    """

    calls: tuple[PhaseCall, ...] = ()
    transport: tuple[PhaseCall, ...] = ()
    collections: tuple[PhaseCall, ...] = ()
    state_machine: OperationPlan | None = None
    within_data: bool = False
    errors: tuple[ErrorSite, ...] = ()
    wake: Probe | None = None
    chosen: tuple[Probe, ...] = ()
    signs: Probe | None = None
    transcript: Probe | None = None
    parameters: tuple[Probe, ...] = ()
    adds_parameters: Probe | None = None
    labels: Mapping[str, FieldPath] = field(default_factory=dict)
    missing: tuple[MissingPart, ...] = ()
    code: tuple[CodeRange, ...] = ()

    @property
    def tells_ids(self) -> bool:
        """Whether a site tells the IDs of a server's connections over QUIC."""
        return bool(self.transcript or self.parameters or self.adds_parameters)

    def probes(self) -> Iterator[Probe]:
        """All sites."""
        for call in (*self.calls, *self.transport, *self.collections):
            yield call.begin
            yield from call.ends
        if self.state_machine:
            yield from self.state_machine.probes
        yield from (error.probe for error in self.errors)
        if self.wake:
            yield self.wake
        yield from self.chosen
        if self.signs:
            yield self.signs
        if self.transcript:
            yield self.transcript
        yield from self.parameters
        if self.adds_parameters:
            yield self.adds_parameters


@dataclass(frozen=True)
class FilePlan:
    """The sites in one file. `code` holds every site of the operations.

    `kind` is "libssl", "libcrypto", "libcrypto_mb", "qatengine", "static" (several of them in one file) or "" (none);
    `machine` "x86-64" or "aarch64": registers are named as there; `stack` the TLS stack that these belong to, by its name in
    stacks/registry.py, "" for none. `handshake` is empty where nobody has asked for it.
    """

    path: str
    build_id: str
    version: str
    kind: str
    operations: tuple[OperationPlan, ...]
    missing: tuple[MissingOperation, ...]
    offsets: SslOffsets = SslOffsets()
    code: tuple[CodeRange, ...] = ()
    machine: str = "x86-64"
    stack: str = "openssl"
    handshake: HandshakeSites = HandshakeSites()

    def may_be(self, other: FilePlan) -> bool:
        """Whether the two may be of one file by two names, as of an image layer under two containers: by the build-id or, where
        there is none, by what is probed where."""
        if self.build_id or other.build_id:
            return self.build_id == other.build_id
        return bool(self.operations) and (self.operations, self.code) == (other.operations, other.code)
