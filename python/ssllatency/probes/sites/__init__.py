# SPDX-License-Identifier: Apache-2.0
"""The sites of one operation: where its calls begin and end, chosen for cost, and checked a second time."""
