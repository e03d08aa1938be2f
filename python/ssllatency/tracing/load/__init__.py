# SPDX-License-Identifier: Apache-2.0
"""Traces a server while a load generator runs against it: once, or in every combination of a matrix."""
