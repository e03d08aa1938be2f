# SPDX-License-Identifier: Apache-2.0
"""Containers, their names, and the cgroups that processes are in."""
