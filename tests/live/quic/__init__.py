# SPDX-License-Identifier: Apache-2.0
"""Servers of QUIC, and at which port and from whom their handshakes come."""
