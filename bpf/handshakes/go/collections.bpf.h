/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collections of garbage in Go programs: what a thread marks of what is to be kept, while goroutines wait for it; and what a
 * handshake's own goroutine does for a collection before it may allocate, which is part of its calls.
 */
#ifndef HANDSHAKES_GO_COLLECTIONS_BPF_H
#define HANDSHAKES_GO_COLLECTIONS_BPF_H

#include "handshakes/go/waits.bpf.h"

/* The runtime asks a goroutine for help, in a handshake: from here until it lets it go on, wherever it waits in between. */
__noinline int begin_assist(struct ssll_handshake *handshake, __u64 connection, __u64 goroutine)
{
	__u64 now = bpf_ktime_get_ns();

	if (!handshake)
		return 0;
	if (handshake->waiting)
		end_go_wait(handshake, connection, goroutine, now);
	handshake->assist_since_ns = sees_phases(handshake) ? now : 0;
	return 0;
}

static __always_inline int end_assist(struct ssll_handshake *handshake)
{
	if (handshake && handshake->assist_since_ns && sees_phases(handshake))
		handshake->parts[SSLL_PART_ASSISTS] += bpf_ktime_get_ns() - handshake->assist_since_ns;
	if (handshake)
		handshake->assist_since_ns = 0;
	return 0;
}

/* The runtime begins to mark what a collection is to keep, in a thread that has run handshakes: on the thread's own stack, and
 * until it comes back no goroutine runs there. Or it asks a goroutine for help. */
static __always_inline int begin_collection(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_thread *thread;
	__u64 connection = 0;

	if (branches_away(ctx, cookie))
		return 0;
	if (field(cookie, SSLL_PHASE_COOKIE_ASSIST, 1))
		return begin_assist(goroutines_handshake(ctx, &connection), connection, REGISTER(ctx, GOROUTINE));
	thread = find_thread();
	if (thread)
		begin_collecting(thread, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int end_collection(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_thread *thread;
	__u64 connection = 0;

	if (field(cookie, SSLL_PHASE_COOKIE_ASSIST, 1))
		return end_assist(goroutines_handshake(ctx, &connection));
	thread = find_thread();
	if (thread)
		end_collecting(thread, bpf_ktime_get_ns());
	return 0;
}

#endif
