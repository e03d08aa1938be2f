# SPDX-License-Identifier: Apache-2.0
"""The full screen of a live view, by Textual: keys, dialogs, and when it is drawn. What is drawn comes from reports/live."""
