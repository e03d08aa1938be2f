# SPDX-License-Identifier: Apache-2.0
"""Whether two measurements differ, and by how much: intervals, resampling, main effects."""
