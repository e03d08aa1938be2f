# SPDX-License-Identifier: Apache-2.0
"""What is exported: the families of metrics, and their points, made of snapshots without a PID."""
