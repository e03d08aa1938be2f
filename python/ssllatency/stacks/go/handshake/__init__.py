# SPDX-License-Identifier: Apache-2.0
"""Handshakes of Go's crypto/tls: what labels them, why they fail, and their phases."""
