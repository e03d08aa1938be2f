# SPDX-License-Identifier: Apache-2.0
"""Envoy with two workers on the loopback address, of HTTP/1.1 and of HTTP/3, and its own statistics of TLS, from its admin
endpoint."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import foreign
from tests.live.servers.nginx import Certificate, free_ports
from tests.waiting import wait_for

_ANSWERS = """\
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type":
            type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          codec_type: {codec}
          stat_prefix: {statistics}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{match: {{prefix: /}}, direct_response: {{status: 200, body: {{inline_string: hello}}}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"""
_CONFIGURATION = """\
static_resources:
  listeners:
  - stat_prefix: tests
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [http/1.1]
            tls_params: {{tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3}}
            tls_certificates: [{{certificate_chain: {{filename: {certificate}}}, private_key: {{filename: {key}}}}}]
{http}  - stat_prefix: quic
    address: {{socket_address: {{protocol: UDP, address: 127.0.0.1, port_value: {port}}}}}
    udp_listener_config: {{quic_options: {{}}, downstream_socket_config: {{prefer_gro: false}}}}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.quic
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport
          downstream_tls_context:
            common_tls_context:
              alpn_protocols: [h3]
              tls_certificates: [{{certificate_chain: {{filename: {certificate}}}, private_key: {{filename: {key}}}}}]
{http3}admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
"""
_READS_STATISTICS_S = 5.0


@dataclass(frozen=True)
class Envoy:
    """A running one: the process to trace, and the port on which it serves."""

    pid: int
    port: int
    _admin: int

    def statistics(self, kind: str, listener: str = "tests") -> dict[str, int]:
        """The counters of its listener whose names begin so, without that and without those that are 0: "ssl." for TLS. That of
        HTTP/3 is "quic"."""
        prefix = f"listener.{listener}.{kind}"
        address = f"http://127.0.0.1:{self._admin}/stats?usedonly&type=Counters"
        with urllib.request.urlopen(address, timeout=_READS_STATISTICS_S) as answer:
            lines = (line.split(": ") for line in answer.read().decode().splitlines())
            return {name.removeprefix(prefix): int(number) for name, number in lines if name.startswith(prefix)}

    def is_up(self) -> bool:
        """Whether it answers."""
        with suppress(OSError):
            self.statistics("")
            return True
        return False


@contextmanager
def envoy(pair: Certificate, folder: Path) -> Iterator[Envoy]:
    """Serves until the end of the block."""
    if os.uname().machine != "x86_64":
        pytest.skip("the Envoy that tests fetch is for x86-64")
    program = foreign.needed(foreign.python_package("envoy")) / "envoy" / "_bin" / "envoy"
    port, admin = free_ports(2)
    configuration = folder / "envoy.yaml"
    configuration.write_text(
        _CONFIGURATION.format(
            port=port,
            admin=admin,
            certificate=pair.certificate,
            key=pair.key,
            http=_ANSWERS.format(codec="AUTO", statistics="tests"),
            http3=_ANSWERS.format(codec="HTTP3", statistics="quic"),
        ),
        encoding="utf-8",
    )
    words = ("--concurrency", "2", "--disable-hot-restart", "--log-level", "critical", "--config-path", configuration)
    with subprocess.Popen([program, *words]) as process:
        server = Envoy(process.pid, port, admin)
        try:
            wait_for(server.is_up)
            yield server
        finally:
            process.kill()
