# SPDX-License-Identifier: Apache-2.0
"""Runs of `ssllatency trace --budget` on a server at full speed that counts and times its calls itself."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.live.clients.counted import TLS_1_3, Client
from tests.live.servers.nginx import Settings

from bench.budget.own_counts import FUNCTIONS, CountingNginx, OwnCounts, Times, build_calls
from bench.measuring.tracers import PROGRAM, BenchError
from bench.measuring.works import CONNECTIONS, LOAD_S, Cpus, cpu_ns

HANDSHAKES = 4  # during a run, beside those of the load that are over by then; as often without tracing
_SETTLE_S = 1.0
_TO_ATTACH_S = 0.1  # that the tracer's time may have begun earlier than it said so; its end isn't in what the server keeps


@dataclass(frozen=True)
class Estimated:
    """What was estimated of a function's calls that succeeded, beside the truth: their number as a part of the true one, and
    the 99th percentile in nanoseconds. The bounds are None where none were told."""

    count: tuple[float, float | None, float | None]
    p99_ns: tuple[float, float | None, float | None]
    true_p99_ns: float

    @property
    def count_held(self) -> bool:
        """Whether the interval holds the truth; one that wasn't told doesn't."""
        return _holds(self.count, 1.0)

    @property
    def p99_held(self) -> bool:
        """The same of the percentile; of one that is only bounded from above, whether it lies below."""
        return _holds(self.p99_ns, self.true_p99_ns)


@dataclass(frozen=True)
class BudgetRun:
    """One run: the part of its requests that the server kept, by time and by its CPU time; what part of that tracing says it
    took; how many times as dear as measured hits were; whether all handshakes were counted; and the estimates by function."""

    kept: float
    kept_by_cpu: float
    share: float
    dearer: float
    exact: bool
    estimated: Mapping[str, Estimated]


def _holds(interval: tuple[float, float | None, float | None], truth: float) -> bool:
    _, low, high = interval
    return low is not None and high is not None and low <= truth <= high


@dataclass(frozen=True)
class Rates:
    """Requests for each second, and for each second of the worker's CPU time."""

    by_time: float
    by_cpu: float


def _mean(one: Rates, other: Rates) -> Rates:
    return Rates((one.by_time + other.by_time) / 2, (one.by_cpu + other.by_cpu) / 2)


class Loaded:
    """An nginx of one worker that wrk keeps at full speed, from `with` to its end."""

    def __init__(self, directory: Path, cpus: Cpus, budget: str, seconds: float) -> None:
        self._directory, self._cpus, self._budget, self._seconds = directory, cpus, budget, seconds

    def __enter__(self) -> Self:
        self._counts, library = OwnCounts(self._directory), build_calls(self._directory)
        settings = Settings(workers=1, cpu=self._cpus.server, tickets=False, body=1024, kinds=("rsa",))
        with ExitStack() as stack:
            server = CountingNginx(self._directory, settings, library=library, counts_file=self._counts.file)
            self._server = stack.enter_context(server)
            command = ("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LOAD_S}s", f"https://127.0.0.1:{self._server.port['rsa']}/")
            load = subprocess.Popen((*self._cpus.client_prefix, *command), stdout=subprocess.DEVNULL, start_new_session=True)
            stack.callback(load.wait)
            stack.callback(load.send_signal, signal.SIGKILL)
            time.sleep(_SETTLE_S)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def run(self) -> BudgetRun:
        """One run, between two times of a quarter of its length without any."""
        before = self._untraced()
        with self._traced() as tracer:
            assert tracer.stderr is not None
            while not (line := tracer.stderr.readline()).startswith("Tracing"):
                if not line:
                    raise BenchError("ssllatency trace --budget did not attach.")
            times = {function: self._counts.times(function) for function in FUNCTIONS}
            traced = self._serve(self._seconds - _TO_ATTACH_S, HANDSHAKES)
            document = json.loads(tracer.communicate(timeout=60)[0])
        took = {function: self._counts.times(function) - times[function] for function in FUNCTIONS}
        return self._held_against_the_truth(document, took, traced, _mean(before, self._untraced()))

    def _traced(self) -> subprocess.Popen[str]:
        command = [PROGRAM, "trace", "-p", str(self._server.master_pid), "--links", "process", "--json"]
        command += ["--budget", self._budget, "-d", str(self._seconds)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def _look(self) -> tuple[float, int]:
        """The time, and the worker's CPU time."""
        return time.monotonic(), cpu_ns(self._server.worker_pids()[0])

    def _since(self, begin: tuple[float, int]) -> Rates:
        """There is one SSL_write for each request."""
        now_s, now_ns = self._look()
        requests = self._counts.counted("SSL_write", begin[0], now_s)
        return Rates(requests / (now_s - begin[0]), requests / (now_ns - begin[1]) * 1e9)

    def _untraced(self) -> Rates:
        return self._serve(self._seconds / HANDSHAKES, 1)

    def _serve(self, seconds: float, handshakes: int) -> Rates:
        """What the server does in that time, with so many handshakes spread over it."""
        begin = self._look()
        for number in range(1, handshakes + 1):
            time.sleep(max(0.0, begin[0] + seconds * number / (handshakes + 1) - time.monotonic()))
            Client(self._server.port["rsa"], TLS_1_3).connect_times(1)
        time.sleep(max(0.0, begin[0] + seconds - time.monotonic()))
        return self._since(begin)

    def _held_against_the_truth(
        self, document: Mapping[str, Any], took: Mapping[str, Times], traced: Rates, untraced: Rates
    ) -> BudgetRun:
        began_s = datetime.fromisoformat(document["started"]).timestamp() - time.time() + time.monotonic()
        ended_s = began_s + document["duration_s"]
        calls = {(row["function"], row["outcome"]): row["count"] for row in document["functions"]}
        sampling = document.get("sampling", [])
        estimated = {
            row["function"]: _estimated(row, self._counts.counted(row["function"], began_s, ended_s), took[row["function"]])
            for part in sampling
            for row in part["estimates"]
            if row["function"] in FUNCTIONS and row["outcome"] == "success"
        }
        return BudgetRun(
            kept=traced.by_time / untraced.by_time,
            kept_by_cpu=traced.by_cpu / untraced.by_cpu,
            share=document["cost"]["share"],
            dearer=max((part["dearer"] for part in sampling), default=1.0),
            exact=calls.get(("SSL_do_handshake", "success")) == HANDSHAKES,
            estimated=estimated,
        )


def _estimated(row: Mapping[str, Any], true_count: float, took: Times) -> Estimated:
    def interval(name: str, unit: float) -> tuple[float, float | None, float | None]:
        bounds = [None if row[name][bound] is None else row[name][bound] / unit for bound in ("low", "high")]
        return row[name]["value"] / unit, bounds[0], bounds[1]

    return Estimated(interval("count", true_count), interval("p99_ns", 1.0), took.quantile_ns(0.99))
