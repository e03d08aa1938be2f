# SPDX-License-Identifier: Apache-2.0
"""Sessions, which count for each command: a session attaches, is read, and detaches."""
