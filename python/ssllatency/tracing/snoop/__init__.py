# SPDX-License-Identifier: Apache-2.0
"""Calls and handshakes that are printed one by one as they end."""
