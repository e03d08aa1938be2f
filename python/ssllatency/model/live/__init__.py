# SPDX-License-Identifier: Apache-2.0
"""What a live view shows: rows, rates and some minutes of history, from readings of a running session."""
