# SPDX-License-Identifier: Apache-2.0
"""The interface of a TLS stack: all that the other rooms ask about one TLS library. registry.py lists those that there are.

A stack's methods bring in what they need when they are called: commands that only ask for its tables must start without the ELF
parser and the decoder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from ssllatency import abi
from ssllatency.abi import Outcome, Reason, Wait
from ssllatency.data_class import dataclass
from ssllatency.stacks.operation import Operation
from ssllatency.stacks.phases import Callee, ErrorFunction, MissingPart, Offer, Phase, PhaseFunction, Runtime, Transport

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Emulation, Machine
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Function, Image
    from ssllatency.stacks.handshake_code import HandshakeCode
    from ssllatency.stacks.names import Names


@dataclass(frozen=True)
class Codes:
    """The codes at `rwstate` in a connection, which tell why its last call didn't succeed.

    `reading` and `writing`: it waited for its BIO, which tells more. `reasons`: the names of the other waits. `ends`: how the
    call ended, of codes that tell it themselves; where there are none, the connection's other fields tell it. `waits`: what
    each name means in the words that all stacks share, also of its BIO's; its header in bpf/stacks says the same.
    """

    reading: int
    writing: int
    reasons: Mapping[int, Reason]
    ends: Mapping[int, tuple[Outcome, Reason]] = field(default_factory=dict)
    waits: Mapping[Reason, Wait] = field(default_factory=dict)


@dataclass(frozen=True)
class Library:
    """A file of a stack, by the name that operations have for it.

    Any of `functions` tells that an image is or contains it; in a stripped one its soname, one of `sonames`, and the function
    `always` do; without either its stack tells. `file_names`: patterns of the names that its files have; `loaded_as`: by that
    name, followed by one of `loaded_versions`, programs load it, the usual ones first. `called`: applications call it; the
    others are companions, which one of those calls. `same_suffix`: of several, that is called whose file name ends as the
    caller's, as libssl.so.3 and libcrypto.so.3 do. `lower`: what connections read from and write to lies in it, and the
    functions that raise errors. `wakes` is its function (context, key, descriptor, ...) that says by which descriptor an
    offloaded operation tells its end.
    `offloads`: with it operations are offloaded; `batches`: its functions work on several at a time.
    """

    name: str
    functions: tuple[str, ...]
    sonames: tuple[str, ...] = ()
    always: str = ""
    file_names: tuple[str, ...] = ()
    loaded_as: str = ""
    loaded_versions: tuple[str, ...] = ()
    called: bool = False
    same_suffix: bool = False
    lower: bool = False
    wakes: str = ""
    offloads: bool = False
    batches: bool = False


@dataclass(frozen=True)
class HandshakeCalls:
    """The operations of a stack by which its handshakes are followed, by name.

    `shakes` makes a handshake, "" where they can't be followed; `around`: those that only call it, or have it inlined;
    `beside`: others that are always watched, as those with early data and what frees a connection. `data`: reads and writes,
    which are watched where handshakes may take place within them. In `pauses` an asynchronous job pauses. `software`: the
    private-key methods of the library itself, whose calls show that nothing was offloaded.
    """

    shakes: str
    around: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    pauses: str = ""
    software: tuple[str, ...] = ()


def _present(_piece: bytes, _at: int) -> str | None:
    return ""


@dataclass(frozen=True)
class Mark:
    """Bytes by which an implementation is known in a file, with or without symbols. `version` reads its version in a piece of
    the file where they begin, "" where it is unknown, None where they mean something else."""

    text: bytes
    version: Callable[[bytes, int], str | None] = _present

    def first(self, piece: bytes) -> str | None:
        """The version where a piece of the file first has the mark, None where it hasn't."""
        at = piece.find(self.text)
        while at >= 0 and (version := self.version(piece, at)) is None:
            at = piece.find(self.text, at + 1)
        return version if at >= 0 else None


class CallingConvention(StrEnum):
    """The way in which functions are called: where arguments, results and the flow of control that a call belongs to are
    found."""

    C = "C"  # a call belongs to a stack, which stays where it is
    GO = "Go"  # to a goroutine, whose stack moves


LARGEST_FRAME = 1 << 16  # bytes; a site's cookie has 16 bits for how far the stack is from where it was at the entry
_WORD = 8  # bytes
_MOST_WORDS, _FARTHEST_WORDS = 31, 15  # from the stack pointer at a site up to a number in a frame, and from there to the error


def fits_cookie(slots: Sequence[int]) -> bool:
    """Whether a site's cookie has room for these slots, of a number and of an error: bytes above the stack pointer."""
    if len(slots) != 2:
        return False
    (words, rest), (farther, more) = divmod(slots[0], _WORD), divmod(slots[1] - slots[0], _WORD)
    return rest == more == 0 and 0 <= words <= _MOST_WORDS and 0 < farther <= _FARTHEST_WORDS


@dataclass(frozen=True)
class CalleeSite:
    """A site in the function from `start` to `end` that another one calls as it ends. `not_taken`: it is a branch, and counts
    where it isn't taken. `depth`: bytes from the stack pointer there up to where it was when the other one was called;
    `results`: bytes up to the slots of what that returns."""

    start: int
    end: int
    address: int
    not_taken: bool
    depth: int
    results: tuple[int, ...]


@dataclass(frozen=True)
class FunctionSites:
    """The places where calls of a function begin and end, by the rules of its stack.

    Each call crosses the instruction `entry` once, and exactly one of `exits`, where the register `result` tells how it ended,
    or `deferred`. `not_taken`: the entry is a branch, and a call begins where it isn't taken. `found`: how the function was
    found.
    """

    name: str
    address: int
    size: int
    found: str
    entry: int
    not_taken: bool = False
    exits: tuple[int, ...] = ()
    result: str = ""
    deferred: CalleeSite | None = None


@dataclass(frozen=True)
class PhaseSites:
    """The sites of a phase of handshakes, of a wait in them, or of a runtime's work, in the function from `start` to `end`, by
    the rules of its stack: `entry`, `not_taken` and `exits` as in FunctionSites; without exits as PhaseCall of a handshake's
    plan without ends. `operation` as there."""

    phase: Phase | Transport | Runtime
    name: str
    start: int
    end: int
    entry: int
    exits: tuple[int, ...]
    not_taken: bool = False
    operation: str = ""


class SitePlanner(Protocol):
    """Finds the sites of functions that aren't planned as C's are."""

    def sites(self, operation: Operation) -> FunctionSites | None:
        """Those of the operation's function; None where the file doesn't have it. Unplannable, or ElfError, with the reason
        where it can't be probed."""

    def phases(self) -> tuple[Sequence[PhaseSites], Sequence[MissingPart]]:
        """Those of the phases of handshakes and of their waits, and which of them can't be seen. ElfError where the image's
        tables are damaged."""

    def chooses(self) -> Sequence[FunctionSites]:
        """Those of the function that chooses the certificate which a server serves, or of all that call it, where it has just
        returned; nothing where the file has none that returns it as it is expected. Unplannable, or ElfError, with the reason
        where it can't be probed."""

    def parameters(self) -> Sequence[FunctionSites]:
        """Those of the function that returns the transport parameters of a connection over QUIC; nothing where the file has
        none. Errors as from `chooses`."""


class Tables(Protocol):
    """The facts that an image's own tables hold of functions that no symbol names."""

    def find(self, operation: Operation) -> Function | None:
        """The function of the operation, None where no table leads to it."""

    def may_hold(self, operation: Operation) -> bool:
        """Whether the image may contain a function that wasn't found."""

    def obstacle(self, operation: Operation) -> str:
        """Return why it wasn't found, where the stack looked for it; else ""."""


class Tails(Protocol):
    """The places where the functions of an image end in calls through tables."""

    def targets(self, function: int, slot: int) -> Sequence[int] | None:
        """Return where the function at the address `function` jumps through the displacement `slot`; None if that isn't known,
        empty where the library never makes that call."""


class NoTables:
    """Those of an image in which no table leads to a function, or takes a call."""

    def find(self, operation: Operation) -> Function | None:  # noqa: ARG002
        """None."""
        return None

    def may_hold(self, operation: Operation) -> bool:  # noqa: ARG002
        """No."""
        return False

    def obstacle(self, operation: Operation) -> str:  # noqa: ARG002
        """Nothing looked for it."""
        return ""

    def targets(self, function: int, slot: int) -> Sequence[int] | None:  # noqa: ARG002
        """Unknown."""
        return None


class Implementation(ABC):
    """One TLS library, traced or not, as files show it."""

    marks: Mapping[str, Mark]
    texts: tuple[bytes, ...]
    """Texts of which a file with it has one, where no symbol shows it."""
    file_names: tuple[str, ...] = ()
    """Patterns of the names of its own libraries, where these names tell it."""
    unless: tuple[str, ...] = ()
    """Patterns of the names of libraries by which a process with one of `file_names` does its TLS instead."""
    doubt: str = ""
    """A sentence about processes that have it, where it is uncertain whether they do TLS by it."""
    instead: str = ""
    """A sentence on what of it can't be seen, and what tells something of it instead, where it isn't traced."""

    @abstractmethod
    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """Its name and version where a file has these of all marks, each with its version; None where it isn't in the file."""

    def is_inside(self, image: Image) -> bool:  # noqa: ARG002
        """Whether it is in an image that has its marks, by a closer look."""
        return True


class Stack(Implementation):
    """One whose calls can be traced."""

    name: str
    """As plans have it, "openssl"."""
    title: str
    """As people know it, "OpenSSL"."""
    number: abi.Stack
    """The kernel side's number of it."""
    libraries: tuple[Library, ...]
    """Its files, but for those that have the functions of the stack that it descends from."""
    operations: tuple[Operation, ...]
    """Its functions that can be timed, but for those that the stack that it descends from has already."""
    states_version: bool
    """Whether every build says its version, so that the name alone is none."""
    codes: Codes
    callees: tuple[Callee, ...]
    """The functions whose calls are phases of a handshake."""
    transport: tuple[Callee, ...]
    """Those by which the library reads and writes, in handshakes and else."""
    handshake_calls: HandshakeCalls
    """Those of its operations by which handshakes are followed."""
    inlines_handshake: bool
    """Whether the calls around the one that makes a handshake may have it built in, so that a probe in it misses theirs."""
    ends_protocol_in_zero: bool = False
    """Whether the protocol that was agreed on is a text that a zero byte ends, so that it has no length."""
    keeps_name_in_one_place: bool = False
    """Whether the name that a client asked for has one place, whether a session is resumed or not."""
    rooms: Mapping[str, str] = {}
    """By part of what is found out about a file ("handshake", "names"), its package that is brought in for that part alone."""
    offers: Mapping[str, Offer]
    """The callees whose calls tell of what the client has offered."""
    keys: Mapping[str, int] = {}
    """The callees that use one kind of private key, each with its number to the kernel side."""
    convention: CallingConvention = CallingConvention.C
    """How its functions are called."""
    scripted: bool = True
    """Whether scripts of bpftrace tell how its calls ended: by OpenSSL's fields, in its own codes."""
    errors_in_threads: bool = False
    """Whether calls say why they fail in a thread-local variable, which takes a program that knows the kernel's records."""
    shows_waits: str = "SSL_want"
    """The function whose code shows where it is read why a call didn't succeed; "" where the call's result alone says it."""
    has_symbols: bool = True
    """Whether symbols tell that an image has its functions, or else tables of its own."""

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """By its mark, where that has its title."""
        return (self.title, "") if self.title in versions else None

    @abstractmethod
    def recognises(self, image: Image) -> bool:
        """Whether the image's functions may be this library's. Of several stacks that recognise it, it is the last one's."""

    def tables(self, image: Image) -> Tables:  # noqa: ARG002
        """The image's tables of functions; none, unless the stack knows some."""
        return NoTables()

    def tails(self, image: Image) -> Tails:  # noqa: ARG002
        """The tail calls through tables of the image's functions; the same."""
        return NoTables()

    def bio(self, image: Image) -> Mapping[str, int | None]:  # noqa: ARG002
        """Byte offsets of what a connection reads from and writes to, as connection() has its own; empty where that is no
        structure of the library's."""
        return {}

    @abstractmethod
    def connection(self, image: Image) -> Mapping[str, int]:
        """Byte offsets of what a connection shows, by the names of SslOffsets; what the image doesn't show is missing."""

    def known_types(self, image: Image) -> tuple[int, ...]:  # noqa: ARG002
        """Return what tells the types of values in its memory, by GoType; empty for a stack whose values have none."""
        return ()

    def runtime_fields(self, image: Image) -> tuple[int, ...]:  # noqa: ARG002
        """Byte offsets in records of Go's, by GoField, or the numbers of MbedtlsField, 0 where one isn't known; empty for
        another stack."""
        return ()

    @abstractmethod
    def labels(self, image: Image) -> dict[str, FieldPath]:
        """Paths from a connection to its labels, by the label's name; those that are uncertain are missing."""

    @abstractmethod
    def names(self, image: Image) -> Names:
        """Names of the library's codes, as far as the image shows them. ElfError where its relocations are damaged."""

    def own_libraries(self, image: Image) -> tuple[str, ...]:  # noqa: ARG002
        """Those of its libraries that the image is or holds, where no symbols tell that."""
        return ()

    def unnamed_functions(self, image: Image) -> Mapping[str, Function]:  # noqa: ARG002
        """Its functions in an image whose symbols name none that applications call, by their names, as far as something else
        tells them."""
        return {}

    def unfound(self, image: Image) -> tuple[str, ...]:  # noqa: ARG002
        """The functions that unnamed_functions() has looked for in the image and not found, by their names."""
        return ()

    def untold(self, image: Image) -> tuple[str, ...]:  # noqa: ARG002
        """The labels of handshakes that an image without symbols doesn't show, as documents name them; and "certificates"."""
        return ()

    def site_planner(self, image: Image, emulation: Emulation) -> SitePlanner | None:  # noqa: ARG002
        """Finds the sites of its functions where they aren't planned as C's. ElfError where the image's tables are damaged."""
        return None

    def obstacle(self, image: Image) -> str:  # noqa: ARG002
        """Return why it can't be traced in an image that has its marks, and none of its libraries; "" where it only lacks
        symbols."""
        return ""

    @abstractmethod
    def version(self, image: Image) -> str:
        """The library's name for itself, as "OpenSSL 3.0.19 27 Jan 2026"; "" if it doesn't."""

    def name_and_release(self, version: str) -> tuple[str, str]:
        """Return what of the text that version() gives is the library's name, and what its release, which follows the name; ""
        where that is unknown."""
        return self.title, version.removeprefix(self.title).lstrip() if version.startswith(self.title) else ""

    def handshake_code(self, image: Image, machine: Machine, bodies: Bodies, libraries: Collection[str]) -> HandshakeCode:  # noqa: ARG002
        """The calls that are phases of a handshake, in an image that is or holds these of its libraries; by their names alone,
        unless the stack knows more. Unplannable where they can't be told from others."""
        from ssllatency.stacks.handshake_code import HandshakeCode

        return HandshakeCode(image, bodies, self.callees, self.transport)

    def phase_functions(self, image: Image) -> Sequence[PhaseFunction]:  # noqa: ARG002
        """The functions that are phases as a whole, beside the calls that handshake_code() finds."""
        return ()

    def signing_function(self, image: Image) -> Function | None:  # noqa: ARG002
        """The function that signs for a handshake, where that alone shows by which algorithm: as its fifth argument. What it is
        called with first leads to the certificates by the path "sent_certificates". None where the library keeps both, or the
        function isn't looked for. Unplannable, or ElfError, where it can't be told."""
        return None

    def transcript_function(self, image: Image, bodies: Bodies) -> Function | None:  # noqa: ARG002
        """The function (connection, address, length) that adds a message of a handshake to its transcript, which shows what a
        server of QUIC tells; None where it isn't looked for. Unplannable, or ElfError, where it can't be told."""
        return None

    def parameters_function(self, image: Image) -> Function | None:  # noqa: ARG002
        """The function by which a server adds its transport parameters of QUIC to a message. It is called with what leads to
        them. None where it isn't looked for. Unplannable, or ElfError, where it can't be told."""
        return None

    def state_machine(self, image: Image, bodies: Bodies) -> Function | None:  # noqa: ARG002
        """The function that all handshakes go through, in whatever call; None where the library has none. Unplannable where it
        can't be told."""
        return None

    def error_functions(self, image: Image) -> Sequence[ErrorFunction]:  # noqa: ARG002
        """The functions of its lower library that raise errors."""
        return ()

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether, without a state machine, reads and writes call SSL_do_handshake for a handshake instead of its own parts."""
        return False
