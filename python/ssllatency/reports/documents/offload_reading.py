# SPDX-License-Identifier: Apache-2.0
"""Reads what a JSON document says of an offload, under "async"."""

from __future__ import annotations

from ssllatency.model.offload import Batches, Offload, PollingThread
from ssllatency.reports.documents.fields import DocumentField


def read_offload(offload: DocumentField) -> Offload:
    """The offload of a document. Raises SsllatencyError with the field that isn't as it must be."""
    return Offload(
        offload.get("engine").text(),
        offload.get("waiting").whole(),
        offload.get("most_waiting").whole_or_null(),
        offload.get("pauses").whole(),
        offload.get("handshakes").whole(),
        offload.get("software").whole(),
        offload.get("unseen").whole(),
        offload.get("batches").rows(_read_batches, "function and lanes"),
        tuple(_read_poller(poller) for poller in offload.get("pollers").items()),
    )


def _read_batches(row: DocumentField) -> tuple[object, Batches]:
    fill, lanes, count = row.get("fill"), row.get("lanes"), row.get("count")
    batches = Batches(row.get("function").text(), fill.wholes())
    if batches.lanes < 1:
        fill.refuse("a list of two or more numbers")
    if lanes.whole() != batches.lanes:
        lanes.refuse(f"one less than fill is long, {batches.lanes}")
    if count.whole() != batches.count:
        count.refuse(f"the sum of fill, {batches.count}")
    return (batches.function, batches.lanes), batches


def _read_poller(poller: DocumentField) -> PollingThread:
    cpu = poller.get("cpu_s")
    return PollingThread(
        poller.get("pid").whole(),
        poller.get("tid").whole(),
        poller.get("comm").text(),
        poller.get("completions").whole(),
        None if cpu.value is None else cpu.number(),
    )
