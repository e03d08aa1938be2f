# SPDX-License-Identifier: Apache-2.0
"""The model of a live view: rows, rates and some minutes of history, from readings of a running session."""
