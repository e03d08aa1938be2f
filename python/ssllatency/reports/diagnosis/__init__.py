# SPDX-License-Identifier: Apache-2.0
"""The diagnosis by the numbers of a measurement, in at most three sentences."""
