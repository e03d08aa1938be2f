# SPDX-License-Identifier: Apache-2.0
"""A matrix of measurements: read from its file, laid out in cells, its results kept as a table."""
