# SPDX-License-Identifier: Apache-2.0
"""The configuration of an nginx that is started for a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ssllatency.load.matrix.plan import NONE, WANT, ServerEntry
from ssllatency.load.matrix.servers.certificates import Certificate
from ssllatency.load.matrix.servers.site import ServerSettings

PLAIN_BYTES = 64  # what the page "/" has

# Every path of the build's defaults is replaced: as root, nginx would give the system's own directories to another user.
_ALL = """\
daemon off;
worker_processes {workers};
worker_rlimit_nofile 65536;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
{main}
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server_tokens off;
    default_type text/plain;
    lingering_close off;
    root {folder}/pages;
    index index.html;
    {http}
    server {{ listen 127.0.0.1:{plain_port}; }}
{servers}
}}
"""
_SERVER = """\
    server {{
        listen 127.0.0.1:{port} ssl backlog=4096;
        ssl_certificate {pair.certificate};
        ssl_certificate_key {pair.key};
        ssl_protocols {protocols};
        ssl_ecdh_curve {curve};
        {lines}
    }}
"""


def configuration(
    entry: ServerEntry,
    ports: Mapping[ServerSettings, int],
    plain_port: int,
    folder: Path,
    key: Callable[[str], Certificate],
    clients: Path,
) -> str:
    """The text. `key` gives a server's key by its kind; `clients` are the certificates that a client may have."""
    return _ALL.format(
        workers=entry.workers,
        folder=folder,
        main="\n".join(entry.main),
        http="\n    ".join(entry.http),
        plain_port=plain_port,
        servers="".join(_server(site, port, key(site.key), clients) for site, port in ports.items()),
    )


def _server(site: ServerSettings, port: int, pair: Certificate, clients: Path) -> str:
    return _SERVER.format(
        port=port,
        pair=pair,
        protocols=site.version or "TLSv1.2 TLSv1.3",
        curve=site.groups or "auto",
        lines="\n        ".join(_lines(site, clients)),
    )


def _lines(site: ServerSettings, clients: Path) -> list[str]:
    lines = ["ssl_session_cache shared:sessions:16m;"]
    if not site.sessions:
        lines = ["ssl_session_cache off;", "ssl_session_tickets off;"]
    if site.cipher.startswith("TLS_"):
        lines.append(f"ssl_conf_command Ciphersuites {site.cipher};")
    elif site.cipher:
        lines.append(f"ssl_ciphers {site.cipher};")
    if site.client_certificate != NONE:
        lines.append(f"ssl_verify_client {'optional' if site.client_certificate == WANT else 'on'};")
        lines.append(f"ssl_client_certificate {clients};")
    return lines
