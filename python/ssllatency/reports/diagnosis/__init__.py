# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a measurement say, in at most three sentences."""
