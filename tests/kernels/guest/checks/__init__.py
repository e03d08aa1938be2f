# SPDX-License-Identifier: Apache-2.0
"""What is checked in a guest."""
