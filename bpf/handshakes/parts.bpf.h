/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a handshake's time is spent on: phases within its calls, from the site in front of a function's work to the site behind
 * it; and the borders between its calls and its waits, each of which closes one part and opens the next at the same time stamp,
 * so that wall = calls + waits without remainder.
 */
#ifndef HANDSHAKES_PARTS_BPF_H
#define HANDSHAKES_PARTS_BPF_H

#include "common/registers.bpf.h"
#include "common/tiers.bpf.h"
#include "handshakes/offload.bpf.h"
#include "running/blocking.bpf.h"
#include "running/running.bpf.h"

/* The key's size in bytes as the call's argument tells it, 0 where it doesn't. */
static __always_inline __u32 key_bytes(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 index = field(cookie, SSLL_PHASE_COOKIE_SIZE, 3);
	__u64 value, size = 0;

	if (!index)
		return 0;
	value = argument(ctx, index - 1);
	if (!field(cookie, SSLL_PHASE_COOKIE_SIZE_POINTED, 1))
		return value;
	bpf_probe_read_user(&size, sizeof(size), (void *)value);
	return size;
}

static __always_inline bool branches_away(const struct pt_regs *ctx, __u64 cookie)
{
	return field(cookie, SSLL_PHASE_COOKIE_CONDITIONAL, 1) &&
	       branch_taken(ctx, field(cookie, SSLL_PHASE_COOKIE_CONDITION, 4)) != field(cookie, SSLL_PHASE_COOKIE_TAKEN, 1);
}

/* Before TLS 1.3 libssl's function for tickets is called even if the client sent none. That is no session lookup. */
static __always_inline bool looks_for_nothing(const struct ssll_handshake *handshake)
{
	return handshake->phase == SSLL_PART_SESSION_LOOKUP && !(handshake->flags & (SSLL_FLAG_TICKET | SSLL_FLAG_CACHE));
}

static __always_inline void add_phase(struct ssll_handshake *handshake, struct ssll_thread *thread, __u64 now)
{
	if (looks_for_nothing(handshake))
		return;
	if (is_transport(handshake->phase)) {
		end_transport(handshake, now - handshake->phase_since_ns);
		return;
	}
	add_part(handshake, handshake->phase, now - handshake->phase_since_ns);
	if (handshake->phase)
		end_phase_away(thread, now);
}

/* The callback for a ticket's keys is the application's, not part of the session lookup that it is called in. */
static __always_inline bool interrupts(const struct ssll_handshake *handshake, __u8 phase)
{
	return handshake->phase == SSLL_PART_SESSION_LOOKUP && phase == SSLL_PART_CALLBACKS;
}

/* Whether the phase goes into windows where tracing would cost too much: all but the private key's do. */
static __always_inline bool is_windowed(__u8 phase)
{
	return phase > SSLL_PART_PRIVATE_KEY && phase < SSLL_PART_REST;
}

/* Whether such phases have been watched since the call began. */
static __always_inline bool sees_phases(const struct ssll_handshake *handshake)
{
	__u32 watch = watch_below();

	return watch == handshake->watch && !(watch >> SSLL_TIER_BELOW & 1);
}

/* Forgets the open phase where its end may not be seen: the time since it began is the rest's. */
static __always_inline void drop_unseen_phase(struct ssll_handshake *handshake)
{
	if (!is_windowed(handshake->phase) || sees_phases(handshake))
		return;
	handshake->phase = 0;
	handshake->outer_stack = 0;
}

/* The outermost phase counts: what begins inside another one is part of that, unless it interrupts it. */
static __always_inline int begin_phase(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_thread *thread = find_thread();
	struct ssll_handshake *handshake = handshake_of_thread(thread);
	__u32 operation = field(cookie, SSLL_PHASE_COOKIE_OPERATION, 2);
	__u8 phase = field(cookie, SSLL_PHASE_COOKIE_PART, 4);
	__u64 outer_stack = 0;

	if (!handshake || is_size_query(ctx, field(cookie, SSLL_PHASE_COOKIE_SKIP_NULL, 3)) || branches_away(ctx, cookie))
		return 0;
	if (field(cookie, SSLL_PHASE_COOKIE_TICKET, 1) || field(cookie, SSLL_PHASE_COOKIE_OPENS, 1))
		handshake->flags |= SSLL_FLAG_TICKET;
	drop_unseen_phase(handshake);
	if (field(cookie, SSLL_PHASE_COOKIE_TICKET, 1) || (handshake->phase && !interrupts(handshake, phase)))
		return 0;
	if (field(cookie, SSLL_PHASE_COOKIE_CACHE, 1))
		handshake->flags |= SSLL_FLAG_CACHE;
	if (is_windowed(phase) && !sees_phases(handshake))
		return 0;
	if (handshake->phase) {
		add_phase(handshake, thread, bpf_ktime_get_ns());
		outer_stack = handshake->phase_stack;
	}
	handshake->phase = phase;
	handshake->phase_stack = stack_at_entry(ctx, cookie);
	handshake->outer_stack = outer_stack;
	if (operation) {
		handshake->key_operation = operation;
		handshake->key_bytes = key_bytes(ctx, cookie);
	}
	handshake->phase_since_ns = bpf_ktime_get_ns();
	begin_phase_away(thread, handshake->phase_since_ns);
	if (is_transport(phase))
		begin_transport(handshake);
	return 0;
}

/* Other ways lead to the site, too: the frame tells whether it is the end of the phase that is open. */
static __always_inline int end_phase(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), stack = stack_at_entry(ctx, cookie);
	struct ssll_thread *thread = find_thread();
	struct ssll_handshake *handshake = handshake_of_thread(thread);

	if (!handshake || handshake->phase != field(cookie, SSLL_PHASE_COOKIE_PART, 4) || handshake->phase_stack != stack)
		return 0;
	add_phase(handshake, thread, now);
	handshake->phase = 0;
	if (!handshake->outer_stack)
		return 0;
	handshake->phase = SSLL_PART_SESSION_LOOKUP;
	handshake->phase_stack = handshake->outer_stack;
	handshake->outer_stack = 0;
	handshake->phase_since_ns = now;
	begin_phase_away(thread, now);
	return 0;
}

/* The wait before a call ends. Not inlined, as several functions end one. */
__noinline int end_wait(struct ssll_handshake *handshake, __u64 ssl, __u64 now)
{
	__u32 part = handshake ? handshake->waiting : 0;

	if (!handshake)
		return 0;
	handshake->unsplit_since_ns = 0;
	if (part == SSLL_PART_WAIT_OFFLOAD)
		end_offload_wait(handshake, now);
	if (part == SSLL_PART_WAIT_PEER)
		end_peer_wait(handshake, ssl, handshake->since_ns, now);
	else
		add_part(handshake, part, now - handshake->since_ns);
	handshake->waiting = 0;
	return 0;
}

/* Adds up a call that came back: the time in it, and in the phase that is open; that of a paused job stays open. `thread`: NULL
 * where it isn't known. Not inlined, as several functions end one. */
__noinline int close_call(
        struct ssll_handshake *handshake, struct ssll_thread *thread, bool same_thread, bool paused, __u64 now)
{
	if (!handshake)
		return 0;
	if (!sees_phases(handshake))
		handshake->flags |= SSLL_FLAG_UNPHASED;
	drop_unseen_phase(handshake);
	add_phase(handshake, same_thread ? thread : NULL, now);
	if (!paused) {
		handshake->phase = 0;
		handshake->outer_stack = 0;
	}
	if (!same_thread)
		handshake->flags |= SSLL_FLAG_UNATTRIBUTED;
	if (same_thread && thread)
		note_sleep(handshake, thread);
	add_away(handshake, same_thread ? thread : NULL, now);
	add_gone(handshake, now);
	handshake->parts[SSLL_PART_CALLS] += now - handshake->since_ns;
	handshake->since_ns = now;
	return 0;
}

/* The handshake's call doesn't come back: a callback has jumped out of it, or its thread has been ended. */
static __always_inline void close_lost_call(struct ssll_handshake *handshake, __u64 now)
{
	close_call(handshake, NULL, true, false, now);
	handshake->depth = 0;
	handshake->waiting = SSLL_PART_WAIT_UNKNOWN;
}

#endif
