# SPDX-License-Identifier: Apache-2.0
"""The servers that a matrix starts on loopback."""
