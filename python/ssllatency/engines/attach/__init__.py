# SPDX-License-Identifier: Apache-2.0
"""From plans to attached programs: sites, cookies, links, and the check of the code that is attached to."""
