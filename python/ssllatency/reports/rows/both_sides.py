# SPDX-License-Identifier: Apache-2.0
"""A load generator's figures compared with the server's: connections, resumption and times, in sentences."""

from __future__ import annotations

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.client import ClientReport, ConnectionBounds
from ssllatency.model.handshakes import YES, Ending, Group, Handshakes, Label
from ssllatency.model.snapshot import Snapshot
from ssllatency.units import capitalized, counted, seconds, share

# What load generators call requests or connections that came to nothing.
_FAILED = ("failed", "errored", "connect errors", "read errors", "write errors", "timeouts")


def checks(snapshot: Snapshot) -> tuple[str, ...]:
    """The sentences; none where one side is missing."""
    client, handshakes = snapshot.client, snapshot.handshakes
    if client is None or handshakes is None:
        return ()
    good = total(handshakes, Ending.SUCCESS)
    number = good.count if good else 0
    return tuple(
        sentence
        for sentence in (
            _counts(client, number, snapshot),
            _failures(handshakes),
            _resumption(client, handshakes, number),
            _own_rate(client),
            _times(client, good),
        )
        if sentence
    )


def _counts(client: ClientReport, number: int, snapshot: Snapshot) -> str:
    connections, server = client.connections, f"the server's {counted(number, 'successful handshake')}"
    if connections is None:
        return f"How many connections {client.tool} made isn't known; {server} can't be held against them."
    server, clients = capitalized(server), _client(client, connections)
    if number < connections.least:
        fewer = connections.least - number
        return f"{server} {_are(number)} {fewer} fewer than {clients}: {_missed(snapshot, fewer)}."
    if connections.most is not None and number > connections.most:
        more = number - connections.most
        return f"{server} {_are(number)} {more} more than {clients} can be: other clients were served meanwhile."
    if connections.least == connections.most:
        return f"{server} {_are(number)} {clients}, one for one."
    if failed := _failed(client):
        requests = f"{counted(failed, 'request')} of it failed" if failed == 1 else f"{failed} of its requests failed"
        return (
            f"{server} {_are(number)} within {clients} ({connections.why}), but {requests}: what became of these isn't known."
        )
    return f"{server} agree{'s' if number == 1 else ''} with {clients} ({connections.why})."


def _failed(client: ClientReport) -> int:
    """Return how many of its requests failed, as far as it says."""
    figures = (client.figure(name) for name in _FAILED)
    return round(max((figure.value for figure in figures if figure), default=0))


def _client(client: ClientReport, connections: ConnectionBounds) -> str:
    if connections.least == connections.most:
        return f"{client.tool}'s {counted(connections.least, 'connection')}"
    if connections.most is None:
        return f"{client.tool}'s connections, {connections.least} or more"
    return f"{client.tool}'s connections, {connections.least} to {connections.most}"


def _missed(snapshot: Snapshot, number: int) -> str:
    """The places where so many of the client's connections may be."""
    handshakes, losses = snapshot.handshakes, snapshot.losses
    lost = losses.map_full + losses.events_dropped
    lost += handshakes.dropped + handshakes.partial + handshakes.in_flight if handshakes else 0
    if lost:
        return f"{lost} were lost or not over, as the report says"
    if handshakes and (bad := _unsuccessful(handshakes)) >= number:
        return f"{bad} didn't succeed there, and in TLS 1.3 the client is done before the server"
    return "another process serves that port too, or something before this server ends TLS"


def _unsuccessful(handshakes: Handshakes) -> int:
    groups = (total(handshakes, ending) for ending in (Ending.FAILURE, Ending.ABANDONED))
    return sum(group.count for group in groups if group)


def _failures(handshakes: Handshakes) -> str:
    number = _unsuccessful(handshakes)
    return f"{counted(number, 'handshake')} didn't succeed on the server; its report says why." if number else ""


def _resumption(client: ClientReport, handshakes: Handshakes, number: int) -> str:
    mix = handshakes.mix.get(Label.RESUMED)
    if not number or mix is None:
        return ""
    seen, own = mix.get(YES, 0), _resumed(client)
    if seen:
        count = "" if own is None else f"; {client.tool} itself counted {own}"
        return f"{seen} of {counted(number, 'handshake')} resumed a session ({share(seen, number)}){count}."
    if client.offers_sessions is False:
        return "The client never offered a session: no gain can come from resumption."
    connections = client.connections
    if client.offers_sessions is None:
        once = connections is not None and number <= connections.least
        return (
            "Each of the client's connections was made once: none had a session to offer."
            if once
            else "None resumed a session."
        )
    if own == 0:
        return f"None resumed a session: {client.tool} got none from the server, or the server didn't know the one it offered."
    return "None resumed a session, though the client offers the last one it got: the server gives or knows none."


def _resumed(client: ClientReport) -> int | None:
    figures = [figure for figure in client.figures if figure.name.startswith("resumed")]
    return int(sum(figure.value for figure in figures)) if figures else None


def _own_rate(client: ClientReport) -> str:
    by_cpu, by_clock = client.figure("connections per user second"), client.figure("connections a second")
    if not by_cpu or not by_clock:
        return ""
    return (
        f"{by_cpu.value:.0f} connections per user second are {by_clock.value:.0f} a second by the clock:"
        f" {client.tool} divides by its own user CPU time."
    )


def _times(client: ClientReport, good: Group | None) -> str:
    if good is None:
        return ""
    mean_s = good.whole.total_ns / good.count / 1e9
    if client.tool == "wrk" and client.figure("latency, mean"):
        return f"wrk's latency holds none of the server's handshake, which took {seconds(mean_s)} in the mean."
    connect, rate = client.figure("connect, mean"), client.figure("connections a second")
    if connect:
        # A kept connection's requests count in ab's mean with a connect of 0.
        if client.figure("kept alive") or not connect.value:
            return ""
        return _difference("A mean connect", connect.value, mean_s, "TCP's connect, the network, and the client's own work")
    if client.tool == "s_time" and rate and rate.value:
        page = "the page, " if any(figure.name.startswith("bytes") and figure.value for figure in client.figures) else ""
        what = f"TCP's connect, the network, {page}the client's own work, its start and its end"
        return _difference("A connection by the clock", 1 / rate.value, mean_s, what)
    return ""


def _difference(what: str, client_s: float, mean_s: float, rest: str) -> str:
    if client_s <= mean_s:
        return (
            f"{what} took {seconds(client_s)} on the client, no more than the mean handshake's {seconds(mean_s)} on the server:"
            " they aren't the same connections, or overlap but in part."
        )
    left = client_s - mean_s
    return (
        f"{what} took {seconds(client_s)} on the client, the mean handshake {seconds(mean_s)} on the server; the other"
        f" {seconds(left)} ({share(left, client_s)}) are {rest}."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
