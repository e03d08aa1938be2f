# SPDX-License-Identifier: Apache-2.0
"""Numbers and names as people read them; what all forms of a report share."""
