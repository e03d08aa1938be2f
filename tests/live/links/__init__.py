# SPDX-License-Identifier: Apache-2.0
"""What the tool says of clients behind a link, against the clients' own clock."""
