# SPDX-License-Identifier: Apache-2.0
"""Real programs of Go with TLS, on the loopback address only, each in a folder of its own and ended with its block: Caddy and
etcd as Debian ships them, stripped, and where tools/for-tests/setup-go has built them the newest Caddy, OAuth2 Proxy and
CoreDNS."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import foreign
from tests.live.servers.debian import own_folder, started
from tests.live.servers.nginx import Certificate, free_ports
from tests.machine import leave_out

NEWEST = "newest"
RELEASES = ("bookworm", "trixie", NEWEST)  # by Go 1.19, 1.24 and this machine's own


def _program(release: str, name: str) -> Path:
    if release != NEWEST:
        return foreign.needed(foreign.find(f"{name}-{release}"))
    path = foreign.TOP / "build" / "go" / name
    if not path.is_file():
        leave_out(f"the newest {name} isn't here: it takes up to five minutes to build (tools/for-tests/setup-go {name})")
    return path


@dataclass(frozen=True)
class Caddy:
    """A Caddy at work: its process, and its TLS port, which is one of QUIC as well."""

    pid: int
    port: int
    program: Path
    admin: int
    configuration: bytes

    def reload(self) -> None:
        """Has it take its configuration anew: it makes all of its servers again, and keeps their sockets."""
        headers = {"Content-Type": "application/json", "Cache-Control": "must-revalidate"}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.admin}/load", self.configuration, headers)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert answer.status == 200


def _caddy_configuration(pair: Certificate, port: int, admin: int) -> bytes:
    server = {
        "listen": [f"127.0.0.1:{port}"],
        "routes": [{"handle": [{"handler": "static_response", "body": "hello"}]}],
        "tls_connection_policies": [{"default_sni": "localhost"}],
        "automatic_https": {"disable": True},
    }
    files = [{"certificate": str(pair.certificate), "key": str(pair.key)}]
    return json.dumps({
        "admin": {"listen": f"127.0.0.1:{admin}"},
        "apps": {"http": {"servers": {"tls": server}}, "tls": {"certificates": {"load_files": files}}},
    }).encode()  # fmt: skip


@contextmanager
def caddy(release: str, pair: Certificate) -> Iterator[Caddy]:
    """Caddy with one site, for HTTP/1.1, HTTP/2 and HTTP/3."""
    program, (port, admin) = _program(release, "caddy"), free_ports(2)
    configuration = _caddy_configuration(pair, port, admin)
    with own_folder() as folder:
        (folder / "conf.json").write_bytes(configuration)
        words = ["env", f"HOME={folder}", f"XDG_DATA_HOME={folder}", f"XDG_CONFIG_HOME={folder}", program]
        with started([*words, "run", "--config", folder / "conf.json"], folder, port) as pid:
            yield Caddy(pid, port, program, admin, configuration)


@contextmanager
def oauth2_proxy(pair: Certificate) -> Iterator[tuple[int, int]]:
    """The process and the TLS port of an OAuth2 Proxy, which asks nobody who they are here, and answers by itself."""
    program, (port,) = _program(NEWEST, "oauth2-proxy"), free_ports(1)
    options = {
        "http-address": "-",
        "https-address": f"127.0.0.1:{port}",
        "tls-cert-file": pair.certificate,
        "tls-key-file": pair.key,
        "upstream": "static://200",
        "skip-auth-route": ".*",
        "email-domain": "*",
        "provider": "github",
        "client-id": "nobody",
        "client-secret": "none",
        "cookie-secret": "0" * 32,
    }
    words = [program, *(f"--{name}={value}" for name, value in options.items())]
    with own_folder() as folder, started(words, folder, port) as pid:
        yield pid, port


@contextmanager
def coredns(pair: Certificate) -> Iterator[tuple[int, int, int]]:
    """The process of a CoreDNS that tells clients who they are, and its ports: of DNS over TLS, and over HTTPS."""
    program, (over_tls, over_https) = _program(NEWEST, "coredns"), free_ports(2)
    with own_folder() as folder:
        (folder / "Corefile").write_text(
            f"tls://.:{over_tls} https://.:{over_https} {{\n bind 127.0.0.1\n tls {pair.certificate} {pair.key}\n whoami\n}}\n"
        )
        with started([program, "-conf", folder / "Corefile"], folder, over_https) as pid:
            yield pid, over_tls, over_https


@contextmanager
def etcd(release: str, pair: Certificate) -> Iterator[tuple[int, int]]:
    """The process and the TLS port of an etcd, a server of gRPC."""
    program, (port, peers) = _program(release, "etcd"), free_ports(2)
    url, peer_url = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    options = {
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"default={peer_url}",
        "cert-file": pair.certificate,
        "key-file": pair.key,
    }
    with own_folder() as folder:
        words = [program, "--data-dir", folder / "data", *(f"--{name}={value}" for name, value in options.items())]
        with started(words, folder, port) as pid:
            yield pid, port
