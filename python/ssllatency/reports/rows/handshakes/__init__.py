# SPDX-License-Identifier: Apache-2.0
"""Rows of handshakes: how they ended, of which groups and kinds they were, and what is known of their connections."""
