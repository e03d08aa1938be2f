# SPDX-License-Identifier: Apache-2.0
"""Counts that a script for a person keeps: the maps of the ssllatency style by function, and why calls did not succeed."""

from __future__ import annotations

from ssllatency.abi import Outcome, Reason
from ssllatency.data_class import dataclass
from ssllatency.engines.base import LinearRange
from ssllatency.engines.bpftrace.judge import Lines
from ssllatency.engines.read import collect

_MAPS = ("hist", "most", "stat", "histF", "mostF", "statF", "lost")
_LONGEST = "_" * 31
# A map's strings are as long as the longest one that it is asked for. These make them 32 bytes, and are never run: what lies
# behind them in a key is then aligned, without which the verifier refuses bpftrace 0.17's programs.
WHOLE_WORDS = [
    "if (pid == 0) {",
    *(f'delete(@{name}["{_LONGEST}"]);' for name in _MAPS),
    f'delete(@why["{_LONGEST}", "{_LONGEST}"]);',
    "}",
]


@dataclass(frozen=True)
class Words:
    """The recorder of `ssllatency script`."""

    linear: LinearRange
    begin_lost = '@lost["began and never ended"] = count();'
    end_lost = '@lost["ended, beginning not seen"] = count();'
    full = '@lost["no room in @running"] = count();'

    def verdict(self, operation: str, outcome: Outcome, reason: Reason) -> str:
        """Counts the reason at once."""
        kind = outcome.name.lower()
        if reason is Reason.NONE:
            return f'$outcome = {outcome.value}; @why["{operation}", "{kind}"] = count();'
        return f'$outcome = {outcome.value}; @why["{operation}", "{kind} {collect.REASONS[reason]}"] = count();'

    def record(self, number: int, operation: str) -> Lines:
        """Successes to @hist and @stat, all else to @histF and @statF."""
        del number
        scale = f"{self.linear.minimum}, {self.linear.maximum}, {self.linear.step}"
        return [
            "$us = $ns / 1000;",
            "if ($outcome == 0) {",
            *self._add("", operation, scale),
            "} else {",
            *self._add("F", operation, scale),
            "}",
        ]

    def _add(self, kind: str, operation: str, scale: str) -> Lines:
        return [
            f'@hist{kind}["{operation}"] = lhist($us, {scale});',
            f'@most{kind}["{operation}"] = max($us);',
            f'@stat{kind}["{operation}"] = stats($us);',
        ]
