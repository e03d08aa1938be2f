# SPDX-License-Identifier: Apache-2.0
"""The report of handshakes as plain text."""
