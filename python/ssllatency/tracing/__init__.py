# SPDX-License-Identifier: Apache-2.0
"""From the target options to a running trace: which files, planned by confined processes, attached, followed, ended."""
