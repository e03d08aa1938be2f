# SPDX-License-Identifier: Apache-2.0
"""Measurements that tests make up: handshakes and calls whose times are known."""
