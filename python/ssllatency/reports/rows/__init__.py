# SPDX-License-Identifier: Apache-2.0
"""The contents of a report before it is laid out: rows and sentences, made once of the model for text, HTML and JSON alike."""
