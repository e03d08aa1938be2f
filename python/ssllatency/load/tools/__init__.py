# SPDX-License-Identifier: Apache-2.0
"""The load generators: how each is called, and how what it prints is read."""
