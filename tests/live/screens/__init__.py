# SPDX-License-Identifier: Apache-2.0
"""What is drawn on a real terminal."""
