# SPDX-License-Identifier: Apache-2.0
"""TLS servers, each started on loopback and ended with its block."""
