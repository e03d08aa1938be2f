# SPDX-License-Identifier: Apache-2.0
"""The tables and sentences that say what the rounds came to. Pure functions of the measurements.

No figure is given of a tracer that the rounds don't tell from no tracing, and no quotient by what can't be told from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from bench.measuring import stated
from bench.measuring.intervals import Interval, is_told, of_added, of_mean, of_quotient, of_ratio
from bench.measuring.rounds import COST, Measured
from bench.measuring.tracers import AGAIN, FLOOR, NO_TRACING, SSLLATENCY, STOCK
from bench.measuring.works import BUSY, RATE
from bench.processes import COUNTS, DEFAULT, EACH, row_name
from ssllatency.probes.costs import HitCosts

AIM = 0.5  # of what ssllatency.bt adds
SATURATED = 0.95  # of its CPU: a worker that had less to do can keep its rate under a tracer
NOTHING = "-"


def pump_table(measured: Measured, hit: HitCosts | None) -> str:
    """Nanoseconds a call of the pump."""
    head = ("", "ns a call", "added ns a call", "in hits", "times no tracing", "of the floor's", "of ssllatency.bt's")
    rows = [(NO_TRACING, f"{fmean(measured.untraced()):,.0f}", *[""] * 5)]
    for name in measured.visits:
        cost = fmean(pair.traced for pair in measured.pairs(name))
        rows.append((name, f"{cost:,.0f}", *_added_cells(measured, name, _whole, hit), *_quotient_cells(measured, name)))
    return table(head, rows)


def worker_table(measured: Measured, hit: HitCosts | None) -> str:
    """Microseconds of the worker's CPU time a request, and the requests a second that it kept."""
    comparisons = ("added µs", "in hits", "times no tracing", "of the floor's", "of ssllatency.bt's")
    head = ("", "µs of CPU a request", *comparisons, "requests/s", "of them kept")
    rates, saturated = measured.untraced(RATE), is_saturated(measured)
    rows = [(NO_TRACING, _microseconds(fmean(measured.untraced())), *[""] * 5, f"{fmean(rates):,.0f}", "")]
    for name in measured.visits:
        cost = _microseconds(fmean(pair.traced for pair in measured.pairs(name)))
        rate = f"{fmean(pair.traced for pair in measured.pairs(name, RATE)):,.0f}"
        kept = _kept(measured, name) if saturated else NOTHING
        added = _added_cells(measured, name, _microseconds, hit)
        rows.append((name, cost, *added, *_quotient_cells(measured, name), rate, kept))
    return table(head, rows)


def is_saturated(measured: Measured) -> bool:
    """Whether the client kept the worker's CPU busy where nothing was traced."""
    return fmean(measured.untraced(BUSY)) >= SATURATED


def busy_sentence(measured: Measured) -> str:
    """How busy the worker was without a tracer, and what follows."""
    busy = fmean(measured.untraced(BUSY))
    if is_saturated(measured):
        return f"Without a tracer the worker took {100 * busy:.0f} % of its CPU."
    return f"Without a tracer the worker took only {100 * busy:.0f} % of its CPU, so what it kept of its rate says nothing."


def plain_table(measured: Measured, hit: HitCosts | None) -> str:
    """Nanoseconds a call of the pump, beside no tracing alone."""
    head = ("", "ns a call", "added ns a call", "in hits", "times no tracing")
    rows = [(NO_TRACING, f"{fmean(measured.untraced()):,.0f}", *[""] * 3)]
    for name in measured.visits:
        cost = fmean(pair.traced for pair in measured.pairs(name))
        rows.append((name, f"{cost:,.0f}", *_added_cells(measured, name, _whole, hit)))
    return table(head, rows)


def growth_table(measured: Measured) -> str:
    """What is added to a call of a traced process, by number of traced processes."""
    head = ("traced processes", "default: added ns a call", "`--links process`: added ns a call")
    rows: list[Sequence[str]] = [(f"none ({AGAIN})", _added(measured, AGAIN, _whole), "")]
    for count in COUNTS:
        names = [row_name(kind, count) for kind in (DEFAULT, EACH)]
        cells = [_added(measured, name, _whole) if name in measured.visits else NOTHING for name in names]
        if any(cell != NOTHING for cell in cells):
            rows.append((str(count), *cells))
    return table(head, rows)


def start_table(first_s: Mapping[str, Sequence[float]], later_s: Mapping[str, Sequence[float]]) -> str:
    """Seconds to attached without plans kept from before and with them."""
    rows = [
        (name, f"{_shown(of_mean(first_s[name]), _seconds)} s", f"{_shown(of_mean(later_s[name]), _seconds)} s")
        for name in first_s
    ]
    return table(("", "first start to attached", "later starts"), rows)


def verdicts(works: Mapping[str, Measured]) -> str:
    """One line for each work: whether ssllatency adds no more than AIM of what ssllatency.bt adds."""
    return "\n".join(f"- {work}: {_verdict(measured)}" for work, measured in works.items())


def _verdict(measured: Measured) -> str:
    if not is_told(measured.pairs(SSLLATENCY)):
        return f"ssllatency is {_untold(measured, SSLLATENCY)}."
    if STOCK not in measured.visits:
        return f"{STOCK} was left out, so there is nothing to compare with."
    share = added_quotient(measured, SSLLATENCY, STOCK)
    if share is None:
        return f"nothing to compare with: ssllatency.bt is {_untold(measured, STOCK)}."
    met = "met" if share.high <= AIM else "missed" if share.low > AIM else "neither met nor missed for certain"
    return f"{_shown(share, _parts)} of what ssllatency.bt adds; the aim, at most {AIM}, is {met}."


def against(works: Mapping[str, Measured], tracer: str, base: str) -> str:
    """One line for each work: what a tracer adds, as a part of what another one does."""
    lines = []
    for work, measured in works.items():
        share = added_quotient(measured, tracer, base)
        untold = tracer if not is_told(measured.pairs(tracer)) else base
        lines.append(f"- {work}: {_shown(share, _parts) if share else f'{untold} is {_untold(measured, untold)}'}.")
    return "\n".join(lines)


def added_quotient(measured: Measured, tracer: str, base: str) -> Interval | None:
    """What a tracer adds divided by what another one adds in the same rounds; None where the rounds don't tell either from no
    tracing."""
    pairs, base_pairs = measured.pairs(tracer), measured.pairs(base)
    if not (is_told(pairs) and is_told(base_pairs)):
        return None
    if tracer == base:
        return Interval(1.0, 1.0, 1.0)
    return of_quotient([pair.added for pair in pairs], [pair.added for pair in base_pairs])


def stated_table(rows: Sequence[tuple[str, Measured, str, str]]) -> str:
    """What ssllatency says of its own cost beside what was lost, by name of a work, its rounds, tracer and quantity stated."""
    cells = []
    for work, measured, tracer, quantity in rows:
        show = _percent if quantity == stated.SHARE else _whole
        unit = "" if quantity == stated.SHARE else " ns"
        check = stated.check(measured.visits[tracer], quantity)
        if check:
            quotient = _shown(check.quotient, _parts) if check.quotient else NOTHING
            values = (f"{_shown(value, show)}{unit}" for value in (check.stated, check.measured))
            cells.append((f"{work}: {tracer}", *values, quotient, check.verdict))
    if not cells:
        return "The traces' documents have no field `cost`: nothing is stated that could be checked."
    return table(("", "stated", "measured", "stated / measured", ""), cells)


def _added_cells(measured: Measured, name: str, show: Callable[[float], str], hit: HitCosts | None) -> tuple[str, str, str]:
    """What a tracer adds, that in hits at an emulated site, and the ratio to no tracing."""
    pairs = measured.pairs(name)
    if not is_told(pairs):
        return (_untold(measured, name), NOTHING, NOTHING)
    hits = f"{of_added(pairs).middle / hit.emulated:.1f}" if hit else NOTHING
    return (_added(measured, name, show), hits, _shown(of_ratio(pairs), _parts))


def _added(measured: Measured, name: str, show: Callable[[float], str]) -> str:
    pairs = measured.pairs(name)
    return _shown(of_added(pairs), show) if is_told(pairs) else _untold(measured, name)


def _quotient_cells(measured: Measured, name: str) -> tuple[str, ...]:
    quotients = (added_quotient(measured, name, base) if base in measured.visits else None for base in (FLOOR, STOCK))
    return tuple(_shown(quotient, _parts) if quotient else NOTHING for quotient in quotients)


def _kept(measured: Measured, name: str) -> str:
    pairs = measured.pairs(name, RATE)
    return _shown(of_ratio(pairs), _percent) if is_told(pairs) else _untold(measured, name, RATE)


def _untold(measured: Measured, name: str, quantity: str = COST) -> str:
    ratio = of_ratio(measured.pairs(name, quantity))
    return f"not to be told from no tracing ({_parts(ratio.low)} to {_parts(ratio.high)})"


def _shown(interval: Interval, show: Callable[[float], str]) -> str:
    if interval.low == interval.high:
        return show(interval.middle)
    return f"{show(interval.middle)} ({show(interval.low)} to {show(interval.high)})"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _parts(value: float) -> str:
    """With so many digits that what differs from 1 is seen to."""
    if value == 1:
        return "1"
    return f"{value:.3f}" if 0.95 < value < 1.05 else f"{value:.2f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _seconds(value: float) -> str:
    return f"{value:.2f}"


def _microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.2f}" if abs(nanoseconds) < 100_000 else f"{nanoseconds / 1000:,.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown; all columns but the first are flush right."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
