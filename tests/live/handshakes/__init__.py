# SPDX-License-Identifier: Apache-2.0
"""Whole handshakes, held against what clients and servers say of them."""
