# SPDX-License-Identifier: Apache-2.0
"""The bench of `ssllatency load --matrix`: the servers, traced, and each run of a tool against them in its turn."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.engines.source import Ability, HandshakeSource
from ssllatency.load.account import of_tools
from ssllatency.load.arguments import endpoint_of
from ssllatency.load.figures import LoadError
from ssllatency.load.matrix import table as matrix_csv
from ssllatency.load.matrix.client import command, differences
from ssllatency.load.matrix.duration import TimeEstimate
from ssllatency.load.matrix.plan import Factor, Matrix, MatrixRun
from ssllatency.load.matrix.servers import process as servers
from ssllatency.load.run import StopReason, ToolOutput
from ssllatency.load.run import run as run_tool
from ssllatency.load.tools.choice import TOOLS, report_of
from ssllatency.model.arithmetic.snapshots import difference
from ssllatency.model.client import ClientReport
from ssllatency.model.handshakes import Handshakes
from ssllatency.model.snapshot import Snapshot
from ssllatency.output.printing import tell
from ssllatency.output.progress import Progress
from ssllatency.stopping import stop_is_asked_for
from ssllatency.targets import Selection
from ssllatency.tracing import handshake_sources, live
from ssllatency.tracing.follow import Follower
from ssllatency.tracing.load import driving
from ssllatency.units import counted


@dataclass
class MatrixBench:
    """The servers while they run and are traced, and what has been measured. `broken`: why a cell isn't run any more."""

    matrix: Matrix
    table: matrix_csv.MatrixTable
    arguments: argparse.Namespace
    rows: list[Mapping[str, str]] = field(default_factory=list)
    broken: dict[tuple[str, ...], str] = field(default_factory=dict)
    stopped: bool = False

    def set_up(self, runs: Sequence[MatrixRun], stack: ExitStack) -> None:
        """Starts the servers of these runs, and attaches to all of them once."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ssllatency-matrix-")))
        folder.chmod(0o711)  # nginx's workers go through it to their pages
        (folder / "keys").mkdir(mode=0o711)  # clients that run as another user read theirs
        (folder / "keys").chmod(0o711)
        self.account = of_tools(self.arguments.user)
        cells = list(dict.fromkeys(run.cell for run in runs))
        self.keys = servers.CertificateFiles.make(folder / "keys", cells, self.account)
        self.servers: dict[str, servers.MatrixServer] = {}
        pids: list[int] = []
        for name, entry in self.matrix.servers.items():
            of_it = [cell for cell in cells if cell[Factor.SERVER] == name]
            if not of_it:
                continue
            (folder / name).mkdir(mode=0o700)
            self.servers[name] = servers.start(entry, of_it, self.keys, folder / name)
            stack.callback(self.servers[name].close)
            pids += self.servers[name].pids or driving.serving_there(endpoint_of(entry.address)).pids
        self._attach(Selection(pids=tuple(dict.fromkeys(pids))), stack)

    def _attach(self, selection: Selection, stack: ExitStack) -> None:
        resolved = live.resolved_ahead(selection, self.arguments, stack, handshakes=True)
        self.session: HandshakeSource
        self.follower: Follower
        self.session, self.follower = handshake_sources.attach(Ability.HANDSHAKES, resolved, self.arguments, stack)
        live.announce(resolved, None, what="handshakes")

    def work(self, runs: Sequence[MatrixRun]) -> None:
        """Makes the runs one after the other, until the end or a signal."""
        times = TimeEstimate(self.matrix, runs)
        with Progress() as progress:
            for number, run in enumerate(runs, 1):
                if stop_is_asked_for():
                    self.stopped = True
                    return
                if run.cell.key not in self.broken:
                    self._once(run, times, progress, f"run {number} of {len(runs)}, {counted(len(self.broken), 'failed cell')}")
                times.over(run)

    def _once(self, run: MatrixRun, times: TimeEstimate, progress: Progress, words: str) -> None:
        """One run; what can't be kept of it makes its cell a broken one."""
        before = self.session.read(per_interval=True)
        output, line = self._drive(run, times, progress, words)
        driving.settle(self.session)
        server = difference(self.session.read(per_interval=True), before)
        if output.ended is StopReason.STOPPED:
            self.stopped = True
            return
        try:
            client = self._client(output, line, run)
            self._check(server, run)
        except LoadError as error:
            self.broken[run.cell.key] = str(error)
            tell(f"{run.cell}: {error}{_causes(server.handshakes)}")
            return
        if run.repeat is not None:
            row = matrix_csv.row(self.matrix, run.cell, run.repeat, server, client)
            self.table.append(row)
            self.rows.append(row)

    def _drive(self, run: MatrixRun, times: TimeEstimate, progress: Progress, words: str) -> tuple[ToolOutput, list[str]]:
        """Runs the tool; meanwhile what the servers' processes bring is followed."""
        where = self.servers[run.cell[Factor.SERVER]].endpoint(servers.site_of(run.cell))
        line = command(run.cell, self.matrix, where, self.keys)

        def meanwhile(elapsed_s: float) -> None:
            self.follower.look()
            self.session.poll()
            progress.expect(times.whole_s)
            progress.show(times.elapsed_s, f"{words}: {run.cell}, {elapsed_s:.0f} s")

        whole_s = self.matrix.seconds if run.cell[Factor.TOOL] == "s_time" else None
        limit_s = driving.timeout_s(self.arguments.timeout, whole_s)
        output = run_tool(line, timeout_s=limit_s, account=self.account, progress=meanwhile, stopped=stop_is_asked_for)
        return output, line

    def _client(self, output: ToolOutput, line: Sequence[str], run: MatrixRun) -> ClientReport:
        """The report of the tool; LoadError where it failed."""
        tool = run.cell[Factor.TOOL]
        if output.ended is not StopReason.ITSELF or output.status:
            raise LoadError(" ".join(driving.complaints(output, tool)))
        report = report_of(TOOLS[tool], output, line)
        failed = report.figure("failed")
        if failed and failed.value:
            raise LoadError(f"{counted(round(failed.value), 'request')} of {tool} failed.")
        return report

    def _check(self, server: Snapshot, run: MatrixRun) -> None:
        """LoadError where the server did something else than the cell is about."""
        measured = server.handshakes
        if measured is None or not measured.mix:
            raise LoadError("the server counted no successful handshake.")
        full = 1 if run.cell[Factor.TOOL] == "s_time" else self.matrix.clients
        if mismatches := differences(run.cell, measured, full):
            raise LoadError(f"its handshakes were something else: {'; '.join(mismatches)}.")


def _causes(measured: Handshakes | None) -> str:
    """Return why handshakes failed on the server, as a sentence after another; "" where none did."""
    reasons = [f"{cause.reason} ({cause.count})" for cause in measured.causes] if measured else []
    return f" On the server: {'; '.join(reasons)}." if reasons else ""
