# SPDX-License-Identifier: Apache-2.0
"""Processes and libraries that come and go while they are traced."""
