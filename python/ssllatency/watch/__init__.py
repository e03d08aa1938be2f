# SPDX-License-Identifier: Apache-2.0
"""Conditions on a measurement, and the flight recorder that waits for one: no kernel, no processes."""
