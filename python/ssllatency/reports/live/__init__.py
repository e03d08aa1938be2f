# SPDX-License-Identifier: Apache-2.0
"""A live view as lines of text with a style for each piece: laid out for a screen or printed line by line."""
