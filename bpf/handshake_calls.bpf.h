/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls of a handshake. Each border between a call and a wait closes one part and opens the next at the same time stamp,
 * so that wall = calls + waits without remainder.
 */
#ifndef HANDSHAKE_CALLS_BPF_H
#define HANDSHAKE_CALLS_BPF_H

#include "finished.bpf.h"
#include "offload.bpf.h"
#include "outcome.bpf.h"
#include "phases.bpf.h"

/* A call on an SSL that has no account begins a handshake only where the SSL says that one is to be done. */
static __always_inline bool begins_handshake(__u64 ssl, __u32 convention, const struct ssll_layout *layout)
{
	__u64 in_init = 0, reached = 0;
	__u32 state = 0;

	if (!layout->paths[SSLL_PLACE_OF_IN_INIT].length)
		return convention == SSLL_SSL_HANDSHAKE;
	if (!read_place(ssl, layout, SSLL_PLACE_OF_IN_INIT, &in_init) || !in_init)
		return false;
	if (read_place(ssl, layout, SSLL_PLACE_OF_HAND_STATE, &reached) && reached == OPENSSL_STATE_OK)
		return false; /* it only renews its keys */
	return !ssll_read_int(ssl, layout->library.state, &state) || state != OPENSSL_FLOW_ERROR;
}

/* What an SSL waits for is set by its first call: whoever has waited before was under way before it was looked at. */
static __always_inline bool is_under_way(__u64 ssl, const struct ssll_layout *layout)
{
	__u32 rwstate = 0;

	return ssll_read_rwstate(ssl, &layout->library, &rwstate) && rwstate > OPENSSL_NOTHING;
}

static __always_inline void wait_ends(struct ssll_handshake *handshake, __u64 now)
{
	__u32 part = handshake->waiting;

	if (part == SSLL_PART_WAIT_OFFLOAD)
		offload_wait_ends(handshake, now);
	add_part(handshake, part, now - handshake->since_ns);
	handshake->waiting = 0;
}

static __always_inline void close_call(
        struct ssll_handshake *handshake, struct ssll_thread *thread, bool same_thread, bool paused, __u64 now);

/* A callback has jumped out of the call that is open. */
static __always_inline void call_is_lost(struct ssll_handshake *handshake, __u64 now)
{
	close_call(handshake, NULL, true, false, now);
	handshake->depth = 0;
	handshake->waiting = SSLL_PART_WAIT_UNKNOWN;
}

static __always_inline int handshake_call_begins(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), ssl = REGISTER(ctx, rdi);
	__u32 library = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ssll_start_key key = {
	        .stack = REGISTER(ctx, rsp) + field(cookie, SSLL_COOKIE_STACK, 16),
	        .tgid = this_process(),
	        .operation = field(cookie, SSLL_COOKIE_OPERATION, 8),
	};
	struct ssll_open_call call = {.ssl = ssl};
	struct ssll_handshake *handshake;
	struct ssll_layout *layout;
	struct ssll_thread *thread;

	if (!traced(key.tgid))
		return 0;
	handshake = account_of(ssl, key.tgid);
	if (!handshake) {
		layout = bpf_map_lookup_elem(&layouts, &library);
		if (!layout || !ssll_is_connection(ssl, &layout->library) ||
		        !begins_handshake(ssl, field(cookie, SSLL_COOKIE_CONVENTION, 4), layout))
			return 0;
		handshake = open_account(ssl, key.tgid, library, now);
		if (handshake && is_under_way(ssl, layout))
			handshake->flags |= SSLL_FLAG_PARTIAL;
	}
	thread = thread_record();
	if (!handshake || !thread)
		return 0;
	if (handshake->depth && bpf_map_lookup_elem(&open_calls, &key)) /* none is made from the same place before it is back */
		call_is_lost(handshake, now);
	call.outer = thread->ssl;
	bpf_map_update_elem(&open_calls, &key, &call, BPF_ANY);
	thread->ssl = ssl;
	if (handshake->depth++)
		return 0;
	wait_ends(handshake, now);
	thread->off_ns = thread->off_since_ns = 0;
	handshake->calls++;
	handshake->error = 0;
	handshake->completed_ns = 0;
	handshake->since_ns = now;
	handshake->phase_since_ns = now; /* of a phase that was paused */
	return 0;
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

/* Closes the books of a call: the time in it, and in the phase that is open; that of a paused job stays open. */
static __always_inline void close_call(
        struct ssll_handshake *handshake, struct ssll_thread *thread, bool same_thread, bool paused, __u64 now)
{
	add_phase(handshake, now);
	if (!paused)
		handshake->phase = 0;
	if (!same_thread)
		handshake->flags |= SSLL_FLAG_UNATTRIBUTED;
	else if (thread)
		handshake->parts[SSLL_PART_OFF_CPU] += thread->off_ns;
	handshake->parts[SSLL_PART_CALLS] += now - handshake->since_ns;
	handshake->since_ns = now;
}

/* Whether the handshake is of the side that is asked for; one that can't be read counts. */
static __always_inline bool wanted_side(__u64 ssl, const struct ssll_layout *layout, bool *server)
{
	*server = true;
	if (!ssll_read_server(ssl, &layout->library, server))
		return true;
	return config.role == SSLL_ANY || (config.role == SSLL_SERVER) == *server;
}

/* Whether the call that came back has completed the handshake: by itself, or on the way to something else. */
static __always_inline bool completed(__u64 ssl, __u32 convention, __u64 value, const struct ssll_layout *layout)
{
	__u64 in_init = 1;

	if (convention == SSLL_SSL_HANDSHAKE)
		return (__s32)value == 1;
	return read_place(ssl, layout, SSLL_PLACE_OF_IN_INIT, &in_init) && !in_init;
}

static __always_inline int settle(struct ssll_handshake *handshake, __u64 ssl, __u32 convention, __u64 value, __u64 now)
{
	__u32 index = handshake->library;
	struct ssll_layout *layout = bpf_map_lookup_elem(&layouts, &index);
	struct ssll_verdict verdict;
	bool server = true;

	if (!layout)
		return 0;
	if (!wanted_side(ssl, layout, &server)) {
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
	if (verdict.outcome == SSLL_RETRY) {
		handshake->waiting = part_of_wait(verdict.reason);
		if (handshake->waiting == SSLL_PART_WAIT_OFFLOAD)
			offload_wait_begins(handshake);
		return 0;
	}
	finish(handshake, ssl, errors_say_why(verdict.reason) ? SSLL_ENDING_FAILURE : SSLL_ENDING_ABANDONED, verdict.reason,
	        server, now);
	return 0;
}

static __always_inline bool is_paused(__u64 ssl, const struct ssll_handshake *handshake, __u64 value)
{
	__u32 index = handshake->library, rwstate = 0;
	struct ssll_layout *layout = bpf_map_lookup_elem(&layouts, &index);

	return (__s32)value < 1 && layout && layout->library.boringssl < 0 &&
	       ssll_read_rwstate(ssl, &layout->library, &rwstate) && rwstate == OPENSSL_ASYNC_PAUSED;
}

static __always_inline int handshake_call_ends(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u64 now = bpf_ktime_get_ns(), value = 0, ssl;
	struct ssll_start_key key = {
	        .stack = stack,
	        .tgid = this_process(),
	        .operation = field(cookie, SSLL_COOKIE_OPERATION, 8),
	};
	struct ssll_open_call *call = bpf_map_lookup_elem(&open_calls, &key);
	struct ssll_handshake *handshake;
	struct ssll_thread *thread;
	bool same_thread;

	if (!leaves(ctx, cookie, &value) || !call)
		return 0;
	ssl = call->ssl;
	thread = thread_record();
	same_thread = thread && thread->ssl == ssl;
	if (thread)
		thread->ssl = call->outer;
	bpf_map_delete_elem(&open_calls, &key);
	handshake = account_of(ssl, key.tgid);
	if (!handshake || !handshake->depth || --handshake->depth)
		return 0;
	close_call(handshake, thread, same_thread, is_paused(ssl, handshake, value), now);
	return settle(handshake, ssl, field(cookie, SSLL_COOKIE_CONVENTION, 4), value, now);
}

/* SSL_free of an SSL whose handshake hasn't ended. */
static __always_inline int handshake_freed(__u64 ssl)
{
	__u64 now = bpf_ktime_get_ns();
	struct ssll_handshake *handshake = account_of(ssl, this_process());
	struct ssll_thread *thread = thread_record();
	struct ssll_layout *layout;
	bool server = true;
	__u32 index;

	if (!handshake)
		return 0;
	if (handshake->depth && thread && thread->ssl == ssl) { /* no call frees its own SSL */
		call_is_lost(handshake, now);
		thread->ssl = 0;
	}
	if (handshake->depth) /* in another thread, which keeps a reference */
		return 0;
	index = handshake->library;
	layout = bpf_map_lookup_elem(&layouts, &index);
	if (!layout)
		return 0;
	wait_ends(handshake, now);
	if (wanted_side(ssl, layout, &server))
		finish(handshake, ssl, SSLL_ENDING_ABANDONED, SSLL_REASON_NONE, server, now);
	else
		close_account(ssl, this_process());
	return 0;
}

#endif
