# SPDX-License-Identifier: Apache-2.0
"""The inputs that are kept in the repository: how they are written, and which they are."""
