# SPDX-License-Identifier: Apache-2.0
"""A measurement as one HTML page that needs nothing beside itself."""
