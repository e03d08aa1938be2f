# SPDX-License-Identifier: Apache-2.0
"""Reports for people and programs: pure functions from a snapshot to text and to the JSON document."""
