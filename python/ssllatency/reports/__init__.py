# SPDX-License-Identifier: Apache-2.0
"""What people and programs read: pure functions from a snapshot to text and to the JSON document."""
