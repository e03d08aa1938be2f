# SPDX-License-Identifier: Apache-2.0
"""Parts, owners, labels and quantiles in words, as all forms of a report have them."""
