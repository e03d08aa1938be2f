# SPDX-License-Identifier: Apache-2.0
"""The calls of libssl's in BoringSSL and AWS-LC that tell of the session that a client has offered."""

from __future__ import annotations

from ssllatency.stacks.phases import Offer

PROCESS_TICKET, GET_SESSION = "ssl_process_ticket", "get_session_cb"
"""What looks a session up by its ticket, and the application's callback that does so by its id."""
OFFERS = {PROCESS_TICKET: Offer.OPENS, GET_SESSION: Offer.CACHE}
