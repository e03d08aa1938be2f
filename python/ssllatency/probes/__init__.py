# SPDX-License-Identifier: Apache-2.0
"""Places to probe: the catalogue of operations, and the planner that turns an ELF image and an operation into probe sites."""
