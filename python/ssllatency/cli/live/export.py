# SPDX-License-Identifier: Apache-2.0
"""Exports what is counted as metrics, as long as it runs: to Prometheus by scrape, to any OpenTelemetry receiver by OTLP. They
are those of services and containers; without target options, of everything on this machine that does TLS. One process traces;
another, without privileges, speaks to the network. Ends on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import ExitStack

from ssllatency.cli import options
from ssllatency.errors import SsllatencyError
from ssllatency.export.push.settings import push_settings
from ssllatency.export.split import speaker
from ssllatency.export.split.confinement import keeps_from_files, user_ids
from ssllatency.model.handshakes import Label, PeerPrefix
from ssllatency.output.printing import tell, tell_line
from ssllatency.targets import Selection
from ssllatency.tracing import live

SUMMARY = "export metrics: Prometheus by scrape, OpenTelemetry by OTLP"
EXAMPLES = (
    ("ssllatency export", "everything on this host, at http://127.0.0.1:9743/metrics"),
    ("ssllatency export --comm nginx --listen 0.0.0.0:9743 --web-config web.yml", "with TLS and passwords"),
    ("ssllatency export --listen none --otlp http://127.0.0.1:4318/v1/metrics", "to an OpenTelemetry receiver"),
)
_LISTEN, _NOWHERE = "127.0.0.1:9743", "none"
_LINGER_S, _BUDGET = 300.0, 0.02
_MOST_SERIES, _MOST_ROWS, _MOST_PROCESSES, _IN_FLIGHT = 2000, 256, 1024, 16384


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    options.add_target_options(parser)
    group = parser.add_argument_group("metrics")
    group.add_argument("--listen", metavar="ADDRESS:PORT", default=_LISTEN,
                       help=f'address that serves /metrics ({_LISTEN}), or "{_NOWHERE}"')  # fmt: skip
    group.add_argument("--web-config", metavar="FILE", default="",
                       help="TLS and basic authentication, in the format of Prometheus' exporter-toolkit")  # fmt: skip
    group.add_argument("--otlp", metavar="URL", default="",
                       help="send metrics to this OTLP receiver over HTTP (what OTEL_EXPORTER_OTLP_ENDPOINT says)")  # fmt: skip
    group.add_argument("--user", metavar="NAME", default="nobody", help="user that the network process runs as (nobody)")
    group.add_argument("--max-series", type=options.whole, default=_MOST_SERIES, metavar="N",
                       help="at most N series; the rest are counted in one overflow series per metric "
                            f"({_MOST_SERIES})")  # fmt: skip
    group.add_argument("--linger", type=options.seconds, default=_LINGER_S, metavar="TIME",
                       help="keep showing a service for this long after its last process has ended (5m)")  # fmt: skip
    options.add_role_option(parser)
    parser.add_argument("--max-groups", type=options.count, default=_MOST_ROWS, metavar="N",
                        help="distinguish at most N combinations of process, version and resumption at a time, 141 KiB of "
                             f"kernel memory each; the rest are counted together ({_MOST_ROWS})")  # fmt: skip
    parser.add_argument("--max-in-flight", type=options.room, default=_IN_FLIGHT, metavar="N",
                        help="keep up to N handshakes in flight for a process, 750 bytes each; beyond that the oldest are "
                             f"dropped ({_IN_FLIGHT})")  # fmt: skip
    options.add_budget_options(parser, _BUDGET)
    options.add_attaching_options(parser)
    by = (Label.VERSION, Label.RESUMED, Label.PROCESS)
    parser.set_defaults(wait=True, slowest=0, over=None, by=by, max_processes=_MOST_PROCESSES)
    parser.set_defaults(peer_prefix=PeerPrefix(), extremes=False, totals=False)


def run(arguments: argparse.Namespace) -> int:
    """Starts the process that speaks, then attaches, and answers it until the end."""
    chosen = options.selection(arguments)
    selection = Selection(everything=True) if chosen == Selection() else chosen
    speech = _speech(arguments, os.environ)
    if not keeps_from_files():
        arguments.no_cache = True  # else whoever took over the process that speaks could write plans, which would be believed
        tell("plans are made anew at each start, as this kernel has no Landlock to keep the process that speaks from them.")
    with ExitStack() as stack:
        speaking = speaker.start(speech)
        stack.callback(speaking.close)
        live.prepare()
        from ssllatency.export.split import tracer  # not in the process that speaks

        tracer.run(selection, arguments, speaking.channel, stack, lambda: _announce(speech))
    return 0


def _announce(speech: speaker.NetworkSettings) -> None:
    if speech.listen:
        tell_line(f"Metrics are at {'https' if speech.is_tls else 'http'}://{speech.listen.shown}/metrics.")
    if speech.push:
        tell_line(f"Metrics are sent to {speech.push.shown} every {speech.push.interval_s:g} s.")


def _speech(arguments: argparse.Namespace, environment: Mapping[str, str]) -> speaker.NetworkSettings:
    listen = None if arguments.listen == _NOWHERE else listen_address(arguments.listen)
    push = push_settings(arguments.otlp, environment)
    if listen is None and push is None:
        raise SsllatencyError("--listen none leaves nobody to export to: add --otlp URL.", 2)
    if listen is None and arguments.web_config:
        raise SsllatencyError("--web-config says how to listen: leave --listen none out.", 2)
    return speaker.NetworkSettings(listen, arguments.web_config, push, user_ids(arguments.user))


def listen_address(text: str) -> speaker.Address:
    """Read ADDRESS:PORT; an address of IPv6 stands in brackets. A port alone is loopback's."""
    if text.isdecimal():
        text = f"127.0.0.1:{text}"
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536 or (":" in host and not (host[0] == "[" and host[-1] == "]")):
        raise SsllatencyError(f"--listen {text} isn't ADDRESS:PORT, like {_LISTEN} or [::1]:9743.", 2)
    return speaker.Address(host.strip("[]"), int(port))
