# SPDX-License-Identifier: Apache-2.0
"""The file of --web-config, in the conventions of Prometheus' exporter-toolkit: YAML with tls_server_config,
http_server_config and basic_auth_users. It is read once, when the program starts; what can't be had is refused."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError

_CLIENT_AUTH = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_HEADERS = (
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
)
_TLS_FIELDS = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version")
_LARGEST = 1 << 20


@dataclass(frozen=True)
class WebConfig:
    """The settings that the file asks for."""

    tls: ssl.SSLContext | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()


def read(name: str) -> WebConfig:
    """The file's content. SsllatencyError in one sentence for what is wrong with it."""
    content = _mapping(_parsed(name), name, ("tls_server_config", "http_server_config", "basic_auth_users"))
    users = _mapping(content.get("basic_auth_users"), f"basic_auth_users of {name}", None)
    for user, hashed in users.items():
        if not isinstance(hashed, str) or not hashed.startswith(("$2a$", "$2b$", "$2y$")) or len(hashed) != 60:
            raise SsllatencyError(f"{name}: the password of {user} isn't a bcrypt hash (htpasswd -nBC 10 {user} makes one).", 2)
    return WebConfig(_tls(content.get("tls_server_config"), name), users, _headers(content.get("http_server_config"), name))


def _parsed(name: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise SsllatencyError("--web-config needs the package PyYAML: pip install PyYAML.") from None
    try:
        with Path(name).open("rb") as file:
            return yaml.safe_load(file.read(_LARGEST))
    except OSError as error:
        raise SsllatencyError(f"{name} can't be read: {error.strerror}.") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SsllatencyError(f"{name} isn't YAML: {' '.join(str(error).split())}.", 2) from None


def _mapping(value: Any, what: str, known: tuple[str, ...] | None) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SsllatencyError(f"{what} isn't a mapping of names to values.", 2)
    unknown = [key for key in value if known is not None and key not in known]
    if unknown:
        raise SsllatencyError(f"{what}: {unknown[0]} isn't supported; these are: {', '.join(known or ())}.", 2)
    return value


def _tls(value: Any, name: str) -> ssl.SSLContext | None:
    if value is None:
        return None
    settings = _mapping(value, f"tls_server_config of {name}", _TLS_FIELDS)
    for key, text in settings.items():
        if not isinstance(text, str):
            raise SsllatencyError(f"{name}: {key} isn't text.", 2)
    if not settings.get("cert_file") or not settings.get("key_file"):
        raise SsllatencyError(f"{name}: tls_server_config needs cert_file and key_file.", 2)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _choice(settings, "min_version", _VERSIONS, "TLS12", name)
    context.options |= ssl.OP_NO_RENEGOTIATION  # before OpenSSL 3.0 a client might ask for handshakes without end
    context.maximum_version = _choice(settings, "max_version", _VERSIONS, "TLS13", name)
    files = {key: str(Path(name).parent / value) for key, value in settings.items() if key.endswith("_file")}
    wanted = _choice(settings, "client_auth_type", _CLIENT_AUTH, "", name)
    if (wanted is not ssl.CERT_NONE) != ("client_ca_file" in files):
        raise SsllatencyError(f"{name}: client_ca_file and a client_auth_type that verifies go together.", 2)
    try:
        context.load_cert_chain(files["cert_file"], files["key_file"], password=_no_password)
        if "client_ca_file" in files:
            context.load_verify_locations(files["client_ca_file"])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SsllatencyError(f"{name}: the certificate and key, or the CA's, can't be loaded: {reason}.") from None
    context.verify_mode = wanted
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _choice(settings: dict[str, Any], key: str, choices: Mapping[str, Any], default: str, name: str) -> Any:
    value = settings.get(key, default)
    if value not in choices:
        known = ", ".join(filter(None, choices))
        raise SsllatencyError(f"{name}: {key} {value} isn't supported; these are: {known}.", 2)
    return choices[value]


def _headers(value: Any, name: str) -> tuple[tuple[str, str], ...]:
    settings = _mapping(value, f"http_server_config of {name}", ("http2", "headers"))
    headers = _mapping(settings.get("headers"), f"headers of {name}", _HEADERS)
    for header, text in headers.items():
        if not isinstance(text, str) or not text.isprintable() or not text.isascii():
            raise SsllatencyError(f"{name}: the header {header} isn't printable text.", 2)
    return tuple(headers.items())
