# SPDX-License-Identifier: Apache-2.0
"""The load generator's side in the JSON document, "client": written, and read again."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal

from ssllatency.model.client import ClientReport, ConnectionBounds, Figure
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents.fields import DocumentField
from ssllatency.reports.rows.both_sides import checks


def client_fields(snapshot: Snapshot) -> dict[str, object]:
    """The member that a document of `ssllatency load` has beside the others. `checks` follows from both sides."""
    client = snapshot.client
    if client is None:
        return {}
    fields = {
        "tool": client.tool,
        "version": client.version,
        "command": list(client.command),
        "figures": [asdict(figure) for figure in client.figures],
        "percentiles": {
            name: {_decimal(percent): time for percent, time in values.items()} for name, values in client.percentiles.items()
        },
        "facts": dict(client.facts),
        "caveats": list(client.caveats),
        "connections": asdict(client.connections) if client.connections else None,
        "offers_sessions": client.offers_sessions,
        "checks": list(checks(snapshot)),
    }
    return {"client": fields}


def _decimal(percent: float) -> str:
    """All its digits, without an exponent: 50, 99.999."""
    return format(Decimal(repr(percent)).normalize(), "f")


def read_client(root: DocumentField) -> ClientReport | None:
    """The client's side of a document, None where it has none. Raises SsllatencyError with the field that is wrong."""
    client = root.optional("client")
    if client is None:
        return None
    connections, offers = client.get("connections"), client.get("offers_sessions")
    return ClientReport(
        tool=client.get("tool").text(),
        version=client.get("version").text(),
        command=tuple(word.text() for word in client.get("command").items()),
        figures=tuple(_read_figure(figure) for figure in client.get("figures").items()),
        percentiles={name: _read_percentiles(values) for name, values in client.get("percentiles").members()},
        facts={name: fact.text() for name, fact in client.get("facts").members()},
        caveats=tuple(caveat.text() for caveat in client.get("caveats").items()),
        connections=None if connections.value is None else _read_connections(connections),
        offers_sessions=None if offers.value is None else offers.flag(),
    )


def _read_figure(figure: DocumentField) -> Figure:
    name, unit, includes = (figure.get(member).text() for member in ("name", "unit", "includes"))
    return Figure(name, figure.get("value").number(), unit, includes)


def _read_percentiles(values: DocumentField) -> dict[float, float]:
    times_s = {}
    for name, time in values.members():
        if not name.replace(".", "", 1).isdecimal() or not name.isascii() or float(name) > 100:
            time.refuse("named by a percentile such as 99.9")
        times_s[float(name)] = time.number()
    return times_s


def _read_connections(connections: DocumentField) -> ConnectionBounds:
    most = connections.get("most").whole_or_null()
    return ConnectionBounds(connections.get("least").whole(), most, connections.get("why").text())
