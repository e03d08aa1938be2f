# SPDX-License-Identifier: Apache-2.0
"""Exact sums and differences of what was measured: of snapshots, handshakes and offloads."""
