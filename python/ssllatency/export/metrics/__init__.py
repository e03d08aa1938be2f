# SPDX-License-Identifier: Apache-2.0
"""The families of metrics that are exported, and their points, made of snapshots without a PID."""
