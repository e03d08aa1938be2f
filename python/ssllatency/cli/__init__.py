# SPDX-License-Identifier: Apache-2.0
"""The commands: one module a subcommand. They sequence the rooms and hold no logic of their own."""
