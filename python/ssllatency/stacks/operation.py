# SPDX-License-Identifier: Apache-2.0
"""A function that can be timed, as a stack describes it: how it is found, and what its return value means."""

from __future__ import annotations

from enum import IntEnum

from ssllatency import abi
from ssllatency.abi import Convention, Outcome, Returns
from ssllatency.data_class import dataclass


class Tier(IntEnum):
    """Functions that are watched in windows together where tracing would cost too much, the first of them first."""

    DATA = abi.Tier.DATA  # reads and writes: many, and each of little interest
    BELOW = abi.Tier.BELOW  # what handshakes consist of
    HANDSHAKE = abi.Tier.HANDSHAKE  # handshakes themselves, and what the programs need to know of an SSL


@dataclass(frozen=True)
class MethodSlot:
    """A slot of a method table: `table` is "RSA_METHOD" or "EC_KEY_METHOD", `offset` the byte offset in it."""

    table: str
    offset: int


@dataclass(frozen=True)
class ProviderSlot:
    """A function of the default provider: `operation` as in core_dispatch.h ("SIGNATURE", "KEYEXCH", "KEM",
    "ASYM_CIPHER", "KEYMGMT"), `algorithm` one of the names in the OSSL_ALGORITHM's list, `function_id` in its OSSL_DISPATCH."""

    operation: str
    algorithm: str
    function_id: int


@dataclass(frozen=True)
class ReturnValue:
    """The meaning of a function's return value, by what the function does and by how its stack tells errors."""

    convention: Convention = Convention.ONE
    returns: Returns = Returns.OPENSSL

    @property
    def bits(self) -> int:
        """The number of its bits that count."""
        return 64 if self.returns is Returns.GO_ERROR or self.convention is Convention.POINTER else 32

    def is_success(self, returned: int) -> bool:
        """Whether a call that returned this has done its work (`succeeded` in bpf/stacks/outcome.bpf.h says the same); True
        where nothing tells."""
        match self.returns:
            case Returns.NEGATIVE_ERROR:
                return returned > 0 if self.convention is Convention.SSL_IO else returned >= 0
            case Returns.GO_ERROR:
                return returned == 0
        return _is_success_of_openssl(self.convention, returned)


def _is_success_of_openssl(convention: Convention, returned: int) -> bool:
    match convention:
        case Convention.SSL_HANDSHAKE | Convention.ONE:
            return returned == 1
        case Convention.SSL_IO | Convention.SSL_EX | Convention.POSITIVE:
            return returned > 0
        case Convention.SSL_SHUTDOWN | Convention.LENGTH:
            return returned >= 0
        case Convention.POINTER:
            return returned != 0
        case Convention.MBX8:
            unused = (returned & 0x22222222) >> 1
            return returned & 0xFFFFFFFF & ~(unused * 15) == 0
    return True


@dataclass(frozen=True)
class Operation:
    """One row of the catalogue.

    `symbols` are looked for in order, then `method`, then `providers`. `ssl_argument`: the first argument is the SSL *,
    which must still be in its register at the entry site. `skip_null` is the index of an argument whose being NULL makes
    the call a size query that is not counted. `async_job`: the call may run inside an OpenSSL ASYNC job, so it never gets a
    return probe. `length_argument` is the index of the size_t * through which it says how much it has read or written:
    worth knowing where its register still holds it at the entry site, not worth a dearer site. `only_entry`: it isn't
    timed; that it is called is all that matters (SSL_free ends what is remembered of an SSL, and an error that is raised says
    why a call fails). `callers_of`: the operation is every function of the library's that calls this one of another file.
    `tier`: with which others it is watched in windows. `returns`: how it tells errors. `twin`: the function in which its calls
    may go on, and come back from, by tail calls; where they do, calls that begin there are calls of this operation, too.
    """

    name: str
    library: str
    convention: Convention
    symbols: tuple[str, ...] = ()
    method: MethodSlot | None = None
    providers: tuple[ProviderSlot, ...] = ()
    ssl_argument: bool = False
    skip_null: int | None = None
    async_job: bool = True
    only_entry: bool = False
    length_argument: int | None = None
    callers_of: str = ""
    tier: Tier = Tier.BELOW
    returns: Returns = Returns.OPENSSL
    twin: str = ""

    @property
    def tells_outcome(self) -> bool:
        """Whether what it returns tells how a call ended."""
        return self.convention is not Convention.NONE

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Those that its calls can have."""
        return tuple(outcome for outcome in Outcome if (outcome is not Outcome.UNKNOWN) == self.tells_outcome)

    @property
    def return_value(self) -> ReturnValue:
        """The meaning of its return value."""
        return ReturnValue(self.convention, self.returns)
