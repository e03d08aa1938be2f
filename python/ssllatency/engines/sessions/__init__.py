# SPDX-License-Identifier: Apache-2.0
"""What each command has counted: a session attaches, is read, and detaches."""
