# SPDX-License-Identifier: Apache-2.0
"""The object "cost" of a document: written, and read again."""

from __future__ import annotations

from dataclasses import asdict

from ssllatency.model.cost import CoreCost, PayingProcess, ProcessCost, TracingCost
from ssllatency.reports.documents.fields import DocumentField


def cost_fields(cost: TracingCost) -> dict[str, object]:
    """The object as plain data; `share` follows from the rest."""
    values = {"share": cost.share, **asdict(cost)}
    if cost.attach_ns is None:
        del values["attach_ns"]
    if not cost.others:
        del values["others"]
    return {"cost": values}


def read_cost(root: DocumentField) -> TracingCost | None:
    """The cost of the document's tracing; None where it doesn't say."""
    cost = root.optional("cost")
    if not cost:
        return None
    return TracingCost(
        hits=cost.get("hits").whole(),
        kernel_ns=cost.get("kernel_ns").whole(),
        run_ns=_perhaps(cost.get("run_ns")),
        cpu_ns=_perhaps(cost.get("cpu_ns")),
        other_hits=cost.get("other_hits").whole(),
        other_ns=cost.get("other_ns").whole(),
        elsewhere_ns=cost.get("elsewhere_ns").whole(),
        seen_ns=_perhaps(seen) if (seen := cost.optional("seen_ns")) else None,
        attach_ns=_perhaps(attach) if (attach := cost.optional("attach_ns")) else None,
        processes=cost.get("processes").rows(_read_process, "pid"),
        cores=cost.get("cores").rows(_read_core, "core"),
        others=others.rows(_read_other, "pid and comm") if (others := cost.optional("others")) else (),
    )


def _read_process(process: DocumentField) -> tuple[object, ProcessCost]:
    pid, hits, kernel_ns = (process.get(name).whole() for name in ("pid", "hits", "kernel_ns"))
    return pid, ProcessCost(pid, hits, kernel_ns, _perhaps(process.get("run_ns")), _perhaps(process.get("cpu_ns")))


def _read_core(core: DocumentField) -> tuple[object, CoreCost]:
    number = core.get("core").whole()
    return number, CoreCost(number, core.get("cost_ns").whole())


def _read_other(other: DocumentField) -> tuple[object, PayingProcess]:
    process = PayingProcess(other.get("pid").whole(), other.get("comm").text())
    return process, process


def _perhaps(value: DocumentField) -> int | None:
    return None if value.value is None else value.whole()
