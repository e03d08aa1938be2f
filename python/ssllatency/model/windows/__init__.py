# SPDX-License-Identifier: Apache-2.0
"""What was seen in windows: what that tells of the whole, and its sums."""
