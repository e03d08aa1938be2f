# SPDX-License-Identifier: Apache-2.0
"""Counts that were seen in windows: what that tells of the whole, and its sums."""
