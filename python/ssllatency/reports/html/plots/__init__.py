# SPDX-License-Identifier: Apache-2.0
"""The plots of the page, as SVG."""
