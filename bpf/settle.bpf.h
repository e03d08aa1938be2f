/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a call that came back means for its handshake: it is over, or what it waits for now. */
#ifndef SETTLE_BPF_H
#define SETTLE_BPF_H

#include "blocking.bpf.h"
#include "finished.bpf.h"
#include "offload.bpf.h"
#include "outcome.bpf.h"

/* Whether the handshake is of the side that is asked for; one that can't be read counts. */
static __always_inline bool read_side(__u64 ssl, const struct ssll_layout *layout, bool *server)
{
	*server = true;
	return !ssll_read_server(ssl, &layout->library, server) || wanted_side(*server);
}

/*
 * Whether the call that came back has completed the handshake: by itself, or on the way to something else. A server that allows
 * early data isn't in a handshake while it waits for the client's Finished, and yet has not reached its end; nor has a client
 * that sends early data. BoringSSL shows no state, but is in a handshake until then. Where neither is shown, a call that makes
 * nothing but the handshake tells it.
 */
static __always_inline bool completed(__u64 ssl, __u32 convention, __u64 value, const struct ssll_layout *layout)
{
	__u64 in_init = 1, reached = OPENSSL_STATE_OK;

	if (!read_place(ssl, layout, SSLL_PLACE_OF_IN_INIT, &in_init))
		return convention == SSLL_SSL_HANDSHAKE && (__s32)value == 1;
	read_place(ssl, layout, SSLL_PLACE_OF_HAND_STATE, &reached);
	return !in_init && reached == OPENSSL_STATE_OK;
}

static __always_inline __u8 part_of_wait(__u32 reason)
{
	switch (reason) {
	case SSLL_REASON_WANT_READ:
		return SSLL_PART_WAIT_PEER;
	case SSLL_REASON_WANT_WRITE:
		return SSLL_PART_WAIT_WINDOW;
	case SSLL_REASON_WANT_ASYNC:
	case SSLL_REASON_WANT_ASYNC_JOB:
		return SSLL_PART_WAIT_OFFLOAD;
	case SSLL_REASON_WANT_PRIVATE_KEY_OPERATION:
	case SSLL_REASON_PENDING_SESSION:
	case SSLL_REASON_PENDING_CERTIFICATE:
	case SSLL_REASON_PENDING_TICKET:
	case SSLL_REASON_WANT_CERTIFICATE_VERIFY:
	case SSLL_REASON_WANT_X509_LOOKUP:
	case SSLL_REASON_WANT_CLIENT_HELLO_CB:
	case SSLL_REASON_WANT_RETRY_VERIFY:
	case SSLL_REASON_WANT_SESSION_LOOKUP:
		return SSLL_PART_WAIT_APPLICATION;
	}
	return SSLL_PART_WAIT_UNKNOWN;
}

static __always_inline int settle(struct ssll_handshake *handshake, __u64 ssl, __u32 convention, __u64 value, __u64 now)
{
	struct ssll_layout *layout = layout_of(handshake->library);
	struct ssll_verdict verdict;
	bool server = true;

	if (!layout)
		return 0;
	if (!read_side(ssl, layout, &server)) {
		close_account(ssl, this_process());
		return 0;
	}
	if (completed(ssl, convention, value, layout)) {
		finish(handshake, ssl, SSLL_ENDING_SUCCESS, SSLL_REASON_NONE, server, now);
		return 0;
	}
	if (ssll_succeeded(convention, value)) { /* early data: the application goes on, and comes back */
		handshake->waiting = SSLL_PART_WAIT_APPLICATION;
		return 0;
	}
	verdict = ssll_judge_ssl(ssl, (__s32)value, &layout->library);
	/* Since OpenSSL 3.2 what isn't TLS at all leaves no mark in the state, as no alert is sent: only an error in the queue.
	 */
	if (verdict.reason == SSLL_REASON_SYSCALL && kept_error_says_why(handshake))
		verdict.reason = SSLL_REASON_SSL;
	if (verdict.outcome == SSLL_RETRY) {
		handshake->waiting = part_of_wait(verdict.reason);
		if (is_transport(handshake->waiting))
			transport_returns(handshake);
		if (handshake->waiting == SSLL_PART_WAIT_OFFLOAD)
			offload_wait_begins(handshake);
		return 0;
	}
	finish(handshake, ssl, errors_say_why(verdict.reason) ? SSLL_ENDING_FAILURE : SSLL_ENDING_ABANDONED, verdict.reason,
	        server, now);
	return 0;
}

#endif
