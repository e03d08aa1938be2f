# SPDX-License-Identifier: Apache-2.0
"""Sites of handshakes in words, for `ssllatency probes --handshakes`: the calls that are phases, where errors are seen, where
labels lie, and what is missing and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ssllatency.probes import codec
from ssllatency.probes.costs import REFERENCE, HitCosts
from ssllatency.probes.listing import ABSENT, fact, hit_fields, hit_words, reasons, table
from ssllatency.probes.plan import FilePlan, HandshakeSites, PhaseCall, Probe
from ssllatency.stacks.phases import Transport
from ssllatency.stacks.registry import WAKES

_HEADER = ("PHASE", "CALL OF", "NS/CALL", "SITE", "OFFSET", "COST", "INSTRUCTION", "NOTE")
_GOES = ("INSTRUCTION", "NOTE", "COST")


def render(plans: Sequence[FilePlan], costs: HitCosts = REFERENCE, most: int | None = None) -> str:
    """The text: for each file a header, a table with a row a site, and what is missing. `costs`: what a hit takes; `most`: how
    many columns there are, as in the other listing."""
    return "\n".join("\n".join(_file(plan, costs, most)) + "\n" for plan in plans)


def to_document(plans: Sequence[FilePlan], costs: HitCosts = REFERENCE) -> dict[str, Any]:
    """The listing as one JSON document; `cost_ns` is what the sites add to one call, `hit_ns` as in that of the other plans."""
    return {
        "schema": "ssllatency-handshake-probes/1",
        "hit_ns": hit_fields(costs),
        "files": [_document(plan, costs) for plan in plans],
    }


def _document(plan: FilePlan, costs: HitCosts) -> dict[str, Any]:
    sites = plan.handshake
    values = codec.handshake_values(sites)
    for name in ("calls", "transport", "collections"):
        for call, record in zip(getattr(sites, name), values[name], strict=True):
            record["cost_ns"] = cost_ns(call, costs)
    if sites.state_machine:
        del values["state_machine"]["debug_file"]  # a library's tables name it
    return {"path": plan.path, "build_id": plan.build_id, "kind": plan.kind, **values}


def cost_ns(call: PhaseCall, costs: HitCosts = REFERENCE) -> int:
    """The time that the probes add to one call at most, before the program's own work."""
    return costs.of(call.begin.cost) + max((costs.of(end.cost) for end in call.ends), default=0)


def _file(plan: FilePlan, costs: HitCosts, most: int | None) -> Iterator[str]:
    yield plan.path
    yield f"  {'holds':<11}{plan.kind}"
    yield f"  {'build-id':<11}{plan.build_id or 'none'}"
    yield from fact("ns a hit", hit_words(costs), most)
    for name, path in sorted(plan.handshake.labels.items()):
        bits = f", bits {path.bits:#x}" if path.bits else ""
        yield from fact("label", f"{name}: {' -> '.join(map(str, path.offsets))}, {path.size} bytes{bits}", most)
    rows = list(_rows(plan.handshake, costs))
    if rows:
        yield ""
        yield from table([_HEADER, *rows], most, _GOES)
    if plan.handshake.missing:
        yield ""
        yield ABSENT[1]
        yield from reasons(((part.reason, part.what) for part in plan.handshake.missing), most)


def _rows(sites: HandshakeSites, costs: HitCosts) -> Iterator[tuple[str, ...]]:
    for call in (*sites.calls, *sites.transport, *sites.collections):
        yield (call.phase, call.callee, f"{cost_ns(call, costs)}", "begin", *_site(call.begin), _note(call))
        for end in call.ends:
            yield ("", "", "", "end", *_site(end), _depth(end))
    if sites.state_machine:
        entry, *exits = sites.state_machine.probes
        cost = costs.of(entry.cost) + max(costs.of(each.cost) for each in exits)
        yield ("call", sites.state_machine.operation, f"{cost}", "entry", *_site(entry), _depth(entry))
        for each in exits:
            yield ("", "", "", "exit", *_site(each), ", ".join(filter(None, (_depth(each), each.value_note()))))
    for error in sites.errors:
        yield ("error", error.function, f"{costs.of(error.probe.cost)}", "entry", *_site(error.probe), error.kind)
    for each in sites.chosen:
        yield ("certificate", "", f"{costs.of(each.cost)}", "exit", *_site(each), _depth(each))
    if sites.signs:
        yield ("signature", "", f"{costs.of(sites.signs.cost)}", "entry", *_site(sites.signs), "")
    if sites.transcript:
        yield ("quic", "", f"{costs.of(sites.transcript.cost)}", "entry", *_site(sites.transcript), "")
    if sites.adds_parameters:
        yield ("quic", "", f"{costs.of(sites.adds_parameters.cost)}", "entry", *_site(sites.adds_parameters), "")
    for each in sites.parameters:
        yield ("quic", "", f"{costs.of(each.cost)}", "exit", *_site(each), _depth(each))
    if sites.wake:
        yield ("offload", " or ".join(WAKES), f"{costs.of(sites.wake.cost)}", "entry", *_site(sites.wake), "")


def _site(probe: Probe) -> tuple[str, str, str]:
    return f"{probe.offset:#x}", probe.cost, probe.instruction


def _depth(probe: Probe) -> str:
    return f"{probe.stack_delta} below" if probe.stack_delta else ""


def _note(call: PhaseCall) -> str:
    notes = [_depth(call.begin)] if call.begin.stack_delta else []
    notes += ["only where calls sleep"] if isinstance(call.phase, Transport) else []
    notes += [f"if {'' if call.taken else 'not '}taken"] if call.condition else []
    notes += [call.operation] if call.operation else []
    notes += [f"not if argument {call.skip_null} is NULL"] if call.skip_null is not None else []
    notes += (
        [f"size {'at' if call.size_is_pointer else 'in'} argument {call.size_argument}"]
        if call.size_argument is not None
        else []
    )
    return ", ".join(notes)
