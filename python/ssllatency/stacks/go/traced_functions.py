# SPDX-License-Identifier: Apache-2.0
"""The functions of Go's crypto/tls, of what it calls, and of the runtime that tell what happens in a handshake: by their names
in the table of functions, with the versions of Go that have them.

Of a phase only the outermost functions are named: crypto/tls and the packages of keys, not crypto/internal/fips140 behind them,
where functions have moved. Handshake, HandshakeContext and ConnectionState aren't: they are inlined, or left out by the linker.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from ssllatency.abi import GoField, GoKey
from ssllatency.data_class import dataclass

OLDEST, NEWEST = 18, 27  # of Go 1.N: the versions whose sources were read


class Purpose(StrEnum):
    """The purpose for which a function's calls are traced."""

    HANDSHAKE = "handshake"
    READ = "read"
    WRITE = "write"
    CLOSE = "close"
    PRIVATE_KEY = "private key"
    KEY_EXCHANGE = "key exchange"
    CERTIFICATE = "certificate"
    SERVED = "served certificate"
    QUIC = "parameters of QUIC"
    TICKET = "ticket"
    NEW_TICKET = "new ticket"
    ALERT = "alert"
    WAIT = "wait"
    WAKE = "wake"
    PANIC = "panic"
    CALLBACK = "callback"
    COLLECTION = "collection"
    ASSIST = "assist"


class Shape(StrEnum):
    """The sites that a function needs: where calls begin and end, only where they begin, a call that it makes, what such a call
    returns, calls that it makes of closures, or one of a method of an interface."""

    SPAN = "span"
    ENTRY = "entry"
    CALL = "call"
    RESULT = "result"
    CLOSURES = "closures"
    METHOD = "method"


@dataclass(frozen=True)
class TracedFunction:
    """A function in Go 1.`since` to 1.`until` (0: to the newest). `role`: at which side it runs in handshakes, "" for both;
    `callee`: the function that it calls, of shapes CALL and RESULT, or the method, of shape METHOD; `always`: every program
    with crypto/tls has it."""

    name: str
    purpose: Purpose
    shape: Shape = Shape.SPAN
    role: str = ""
    since: int = OLDEST
    until: int = 0
    callee: str = ""
    always: bool = False

    def exists_in(self, minor: int) -> bool:
        """Whether Go 1.`minor` has it."""
        return self.since <= minor and (not self.until or minor <= self.until)


def _all(purpose: Purpose, *names: str, role: str = "", since: int = OLDEST, until: int = 0) -> Iterator[TracedFunction]:
    return (TracedFunction(name, purpose, role=role, since=since, until=until) for name in names)


TLS, _MLKEM = "crypto/tls", "crypto/internal/fips140/mlkem"
SERVER_HANDSHAKE, CLIENT_HANDSHAKE = f"{TLS}.(*Conn).serverHandshake", f"{TLS}.(*Conn).clientHandshake"

_SERVERS, _CLIENTS = f"{TLS}.(*serverHandshakeState", f"{TLS}.(*clientHandshakeState"
_CHOOSES = f"{TLS}.(*Config).getCertificate"
# Those that call functions of the application's, which a Config holds, with the versions that do: (name, side, since, until).
_CALLERS = (
    (f"{TLS}.(*Conn).readClientHello", "server", OLDEST, 0),
    (_CHOOSES, "server", OLDEST, 0),
    (f"{TLS}.(*Conn).processCertsFromClient", "server", OLDEST, 0),
    (f"{_SERVERS}).doFullHandshake", "server", OLDEST, 0),
    (f"{_SERVERS}).doResumeHandshake", "server", OLDEST, 0),
    (f"{_SERVERS}).checkForResumption", "server", 21, 0),
    (f"{_SERVERS}).sendSessionTicket", "server", 21, 0),
    (f"{_SERVERS}TLS13).checkForResumption", "server", 21, 0),
    (f"{_SERVERS}TLS13).readClientCertificate", "server", OLDEST, 0),
    (f"{TLS}.(*Conn).sendSessionTicket", "server", 21, 0),
    (f"{TLS}.(*Conn).getClientCertificate", "client", OLDEST, 0),
    (f"{TLS}.(*Conn).verifyServerCertificate", "client", OLDEST, 0),
    (f"{_CLIENTS}).handshake", "client", OLDEST, 0),
    (f"{_CLIENTS}TLS13).readServerCertificate", "client", OLDEST, 0),
)
# Those that sign, before Go 1.26 by a method of the key's, whatever that is, and since by a function; and what decrypts by one.
_SIGN_MESSAGE = "crypto.SignMessage"
SIGNS, DECRYPTS = "crypto.Signer.Sign", "crypto.Decrypter.Decrypt"
_SIGNERS = (
    (f"{TLS}.(*ecdheKeyAgreement).generateServerKeyExchange", "server"),
    (f"{_SERVERS}TLS13).sendServerCertificate", "server"),
    (f"{_CLIENTS}).doFullHandshake", "client"),
    (f"{_CLIENTS}TLS13).sendClientCertificate", "client"),
)
_DECRYPTER = f"{TLS}.rsaKeyAgreement.processClientKeyExchange"
_EXCHANGES = (("hybridKeyExchange", 26), ("ecdhKeyExchange", 26), ("mlkem1024KeyExchange", 27))

FUNCTIONS: tuple[TracedFunction, ...] = (
    TracedFunction(SERVER_HANDSHAKE, Purpose.HANDSHAKE, role="server", always=True),
    TracedFunction(CLIENT_HANDSHAKE, Purpose.HANDSHAKE, role="client"),
    TracedFunction(f"{TLS}.(*Conn).Read", Purpose.READ, always=True),
    TracedFunction(f"{TLS}.(*Conn).Write", Purpose.WRITE, always=True),
    TracedFunction(f"{TLS}.(*Conn).Close", Purpose.CLOSE, always=True),
    # Private keys: those of the standard library, which tell the kind, and whatever a handshake uses, also those outside of it.
    # Go 1.25 has SignMessage, but its handshakes don't call it.
    *_all(Purpose.PRIVATE_KEY, "crypto/rsa.(*PrivateKey).Sign", "crypto/rsa.(*PrivateKey).Decrypt"),
    *_all(Purpose.PRIVATE_KEY, "crypto/ecdsa.(*PrivateKey).Sign", "crypto/ed25519.PrivateKey.Sign"),
    *_all(Purpose.PRIVATE_KEY, "crypto/mldsa.(*PrivateKey).Sign", since=27),
    *(TracedFunction(name, Purpose.PRIVATE_KEY, Shape.METHOD, role, callee=SIGNS, until=25) for name, role in _SIGNERS),
    *(TracedFunction(name, Purpose.PRIVATE_KEY, Shape.CALL, role, since=26, callee=_SIGN_MESSAGE) for name, role in _SIGNERS),
    TracedFunction(_DECRYPTER, Purpose.PRIVATE_KEY, Shape.METHOD, "server", callee=DECRYPTS),
    # Key exchange: of TLS 1.3.
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.generateECDHEParameters", until=19),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.(*x25519Parameters).SharedKey", f"{TLS}.(*nistParameters).SharedKey", until=19),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.generateECDHEKey", "crypto/ecdh.(*PrivateKey).ECDH", since=20, until=25),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.kyberEncapsulate", role="server", since=23, until=23),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.kyberDecapsulate", role="client", since=23, until=23),
    *_all(Purpose.KEY_EXCHANGE, f"{_MLKEM}.(*EncapsulationKey768).encapsulate", role="server", since=24, until=25),
    *(
        TracedFunction(f"{TLS}.(*{exchange}).{role}SharedSecret", Purpose.KEY_EXCHANGE, role=role, since=since)
        for exchange, since in _EXCHANGES
        for role in ("server", "client")
    ),
    *(
        TracedFunction(f"{TLS}.(*{exchange}).keyShares", Purpose.KEY_EXCHANGE, role="client", since=since)
        for exchange, since in _EXCHANGES
    ),
    # Of TLS 1.2, which those that have been replaced above serve as well; the first contains the signature, which is known
    # whoever makes it.
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.(*ecdheKeyAgreement).generateServerKeyExchange", role="server", since=26),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.(*ecdheKeyAgreement).processClientKeyExchange", role="server", since=26),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.(*ecdheKeyAgreement).processServerKeyExchange", role="client", since=26),
    *_all(Purpose.KEY_EXCHANGE, f"{TLS}.(*ecdheKeyAgreement).generateClientKeyExchange", role="client", since=26),
    # Certificates of the peer, and session tickets.
    *_all(Purpose.CERTIFICATE, f"{TLS}.(*Conn).processCertsFromClient", role="server"),
    *_all(Purpose.CERTIFICATE, f"{TLS}.(*Conn).verifyServerCertificate", role="client"),
    *_all(Purpose.CERTIFICATE, f"{TLS}.verifyHandshakeSignature"),
    *_all(Purpose.TICKET, f"{TLS}.(*Conn).decryptTicket", role="server", until=20),
    *_all(Purpose.TICKET, f"{TLS}.(*Config).decryptTicket", role="server", since=21),
    *_all(Purpose.NEW_TICKET, f"{TLS}.(*Conn).encryptTicket", role="server", until=20),
    *_all(Purpose.NEW_TICKET, f"{TLS}.(*Config).encryptTicket", role="server", since=21),
    # Functions of the application's.
    *(TracedFunction(name, Purpose.CALLBACK, Shape.CLOSURES, role, since, until) for name, role, since, until in _CALLERS),
    # Where what a collection is to keep is marked: by its workers, and by goroutines that have to help as they allocate.
    # Sweeping isn't among it, of which each call is of a few kB; nor are the moments in which the world is stopped.
    *_all(Purpose.COLLECTION, "runtime.gcDrain", "runtime.gcDrainN"),
    # Where such a goroutine is asked for help, and may have to wait until others have given enough of it.
    *_all(Purpose.ASSIST, "runtime.gcAssistAlloc"),
    # What tells why, and whose time it was.
    TracedFunction(f"{TLS}.(*Conn).sendAlertLocked", Purpose.ALERT, Shape.ENTRY, always=True),
    TracedFunction("internal/poll.runtime_pollWait", Purpose.WAIT, Shape.CALL, callee="runtime.netpollblock"),
    TracedFunction("runtime.netpollready", Purpose.WAKE, Shape.ENTRY),
    TracedFunction("runtime.gopanic", Purpose.PANIC, Shape.ENTRY, always=True),
    TracedFunction("runtime.Goexit", Purpose.PANIC, Shape.ENTRY),
)

# What returns the certificate that a server serves. It is traced as a caller of the application's as well.
CHOOSES = TracedFunction(_CHOOSES, Purpose.SERVED, role="server")
# Those that call it, one of them before TLS 1.3.
CHOOSERS = tuple(
    TracedFunction(name, Purpose.SERVED, Shape.RESULT, "server", callee=_CHOOSES)
    for name in (f"{_SERVERS}).processClientHello", f"{_SERVERS}TLS13).pickCertificate")
)
PARAMETERS = TracedFunction(f"{TLS}.(*Conn).quicGetTransportParameters", Purpose.QUIC, since=21)

# The application's functions, by the fields of a Config that hold them. Clients' session caches are interfaces instead.
CALLBACKS = {
    GoField.GET_CERTIFICATE: "GetCertificate",
    GoField.GET_CLIENT_CERTIFICATE: "GetClientCertificate",
    GoField.GET_CONFIG: "GetConfigForClient",
    GoField.VERIFY_PEER: "VerifyPeerCertificate",
    GoField.VERIFY_CONNECTION: "VerifyConnection",
    GoField.UNWRAP_SESSION: "UnwrapSession",
    GoField.WRAP_SESSION: "WrapSession",
    GoField.GET_ECH_KEYS: "GetEncryptedClientHelloKeys",
}

# The kinds of private keys that functions use, which their first argument holds or is.
KEYS = {
    "crypto/rsa.(*PrivateKey).Sign": GoKey.RSA,
    "crypto/rsa.(*PrivateKey).Decrypt": GoKey.RSA,
    "crypto/ecdsa.(*PrivateKey).Sign": GoKey.ECDSA,
    "crypto/ed25519.PrivateKey.Sign": GoKey.ED25519,
}


def functions_of(minor: int | None) -> list[TracedFunction]:
    """The functions of Go 1.`minor`; of an unknown version all, and of one newer than NEWEST those of NEWEST."""
    return [function for function in FUNCTIONS if minor is None or function.exists_in(minor)]
