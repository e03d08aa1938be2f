# SPDX-License-Identifier: Apache-2.0
"""ssllatency: where the latency of server-side TLS goes, on the live server."""

__version__ = "0.1.0"
