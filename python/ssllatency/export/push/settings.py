# SPDX-License-Identifier: Apache-2.0
"""Settings of where metrics are sent, and how: those of the option, and OpenTelemetry's environment variables
(OTEL_EXPORTER_OTLP_*, those for metrics before those for everything)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError

if TYPE_CHECKING:
    import ssl

_PREFIX, _OF_METRICS = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_METRICS_"
_PATH = "/v1/metrics"
_TIMEOUT_S, _INTERVAL_S = 10.0, 60.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class PushSettings:
    """A receiver, and how to speak to it. `resource`: attributes that all metrics get."""

    scheme: str
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = _TIMEOUT_S
    interval_s: float = _INTERVAL_S
    gzip: bool = True
    resource: Mapping[str, str] = field(default_factory=dict)
    ca_file: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def shown(self) -> str:
        """The URL, without anything secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path.partition('?')[0]}"

    def tls(self) -> ssl.SSLContext | None:
        """Return what https needs. SsllatencyError where a file can't be loaded."""
        import ssl

        if self.scheme != "https":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ValueError) as error:
            raise SsllatencyError(f"The certificates for {self.shown} can't be loaded: {error}.") from None
        return context


def push_settings(url: str, environment: Mapping[str, str]) -> PushSettings | None:
    """Return what the option's URL and the environment ask for; None where neither names a receiver."""

    def of(name: str, default: str = "") -> str:
        return (environment.get(f"{_OF_METRICS}{name}") or environment.get(f"{_PREFIX}{name}") or default).strip()

    endpoint = url or _endpoint(environment)
    if not endpoint:
        return None
    _refuse_others(of, environment)
    scheme, host, port, path = _parts(endpoint)
    return PushSettings(
        scheme=scheme,
        host=host,
        port=port,
        path=path,
        headers=tuple(_pairs(of("HEADERS"), f"{_PREFIX}HEADERS").items()),
        timeout_s=_milliseconds(of("TIMEOUT"), f"{_PREFIX}TIMEOUT", _TIMEOUT_S),
        interval_s=_milliseconds(
            environment.get("OTEL_METRIC_EXPORT_INTERVAL", ""), "OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL_S
        ),
        gzip=of("COMPRESSION", "gzip") == "gzip",
        resource=_resource(environment),
        ca_file=of("CERTIFICATE"),
        certificate=of("CLIENT_CERTIFICATE"),
        key=of("CLIENT_KEY"),
    )


def _endpoint(environment: Mapping[str, str]) -> str:
    """The variable for metrics is the whole URL; the other one gets the path of metrics."""
    if whole := environment.get(f"{_OF_METRICS}ENDPOINT", "").strip():
        return whole
    base = environment.get(f"{_PREFIX}ENDPOINT", "").strip()
    return f"{base.rstrip('/')}{_PATH}" if base else ""


def _refuse_others(of: object, environment: Mapping[str, str]) -> None:
    assert callable(of)
    if (protocol := of("PROTOCOL", "http/protobuf")) != "http/protobuf":
        raise SsllatencyError(f"{_PREFIX}PROTOCOL is {protocol}: only http/protobuf is spoken here.", 2)
    if (compression := of("COMPRESSION", "gzip")) not in ("gzip", "none"):
        raise SsllatencyError(f"{_PREFIX}COMPRESSION is {compression}: only gzip and none are known here.", 2)
    wanted = environment.get(f"{_OF_METRICS}TEMPORALITY_PREFERENCE", "cumulative").strip().lower()
    if wanted not in ("cumulative", ""):
        raise SsllatencyError(f"{_OF_METRICS}TEMPORALITY_PREFERENCE is {wanted}: only cumulative metrics are sent.", 2)


def _parts(url: str) -> tuple[str, str, int, str]:
    from urllib.parse import urlsplit

    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        split, port = urlsplit(""), None
    if split.scheme not in _DEFAULT_PORTS or not split.hostname or split.username:
        raise SsllatencyError(f"{url} isn't the URL of an OTLP receiver, like http://127.0.0.1:4318/v1/metrics.", 2)
    path = split.path if split.path not in ("", "/") else _PATH
    return split.scheme, split.hostname, port or _DEFAULT_PORTS[split.scheme], f"{path}?{split.query}" if split.query else path


def _pairs(text: str, name: str) -> dict[str, str]:
    """KEY=VALUE,…, percent-encoded."""
    from urllib.parse import unquote

    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            raise SsllatencyError(f"{name} isn't a list like KEY=VALUE,KEY=VALUE.", 2)
        found[key.strip()] = unquote(value.strip())
    if any(not (part.isprintable() and part.isascii()) for pair in found.items() for part in pair) and "HEADERS" in name:
        raise SsllatencyError(f"{name} has what no header can hold.", 2)
    return found


def _milliseconds(text: str, name: str, default: float) -> float:
    text = text.strip()
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 10**9:
        raise SsllatencyError(f"{name} isn't a number of milliseconds above 0: {text}.", 2)
    return int(text) / 1000


def _resource(environment: Mapping[str, str]) -> dict[str, str]:
    found = _pairs(environment.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES")
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        found["service.name"] = name
    return found
