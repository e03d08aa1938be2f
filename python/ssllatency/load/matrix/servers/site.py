# SPDX-License-Identifier: Apache-2.0
"""The way in which a server serves on one of its ports."""

from __future__ import annotations

from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class ServerSettings:
    """The settings on the server's side; "" for the server's own default. `sessions`: whether it gives its clients any."""

    key: str
    version: str
    cipher: str
    groups: str
    client_certificate: str
    sessions: bool
