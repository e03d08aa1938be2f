# SPDX-License-Identifier: Apache-2.0
"""The numbers: exponential and linear histograms, series and snapshots, with exact merge and difference."""
