# SPDX-License-Identifier: Apache-2.0
"""The commands, one module for each subcommand. They call the other rooms in order, and contain no logic of their own."""
