# SPDX-License-Identifier: Apache-2.0
"""Printers of calls, and of handshakes, one by one as they end."""
