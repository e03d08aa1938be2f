/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a thread has slept: that is how a call is seen to wait on a socket that blocks, or on a BIO that polls one. The
 * kernel counts how often a thread has given up the processor by itself, so no event is needed to know.
 *
 * A thread sleeps for other reasons, too: a lock, a callback, a page of its memory. So a handshake isn't said to sleep for its
 * peer where one of its calls came back because it would have had to wait: its transport returns, and doesn't block.
 *
 * The calls by which libssl reads and writes are watched only where calls were seen to sleep. A server whose sockets don't
 * block pays two reads of that number for each call of a handshake.
 */
#ifndef BLOCKING_BPF_H
#define BLOCKING_BPF_H

#include "running/arrivals.bpf.h"
#include "running/away.bpf.h"

/* Whether the thread has slept since this was last asked. */
static __always_inline bool has_slept(struct ssll_thread *thread)
{
	__u64 sleeps = own_task()->nvcsw;
	bool slept = sleeps != thread->sleeps;

	thread->sleeps = sleeps;
	return slept;
}

/* Notes that a call has slept of which it isn't known what for, as its reads and writes aren't watched yet. */
static __always_inline void note_sleep(struct ssll_handshake *handshake, struct ssll_thread *thread)
{
	if (has_slept(thread) && !*(volatile __u64 *)&handshake_counters.watches_transport)
		handshake->flags |= SSLL_FLAG_SLEPT;
}

/* Whether the part is a wait for the other end of the connection, which within a call the library's reads and writes are. */
static __always_inline bool is_transport(__u32 part)
{
	return part == SSLL_PART_WAIT_PEER || part == SSLL_PART_WAIT_WINDOW;
}

static __always_inline void begin_transport(struct ssll_handshake *handshake)
{
	struct ssll_thread *thread = find_thread();

	if (!thread)
		return;
	has_slept(thread);
	if (handshake->phase == SSLL_PART_WAIT_PEER)
		await_arrival(handshake, thread->ssl, handshake->phase_since_ns);
}

/*
 * If the thread slept, this was a wait rather than time in the call: since_ns advances past it. A write that had room all the
 * time has slept for something else, a lock or a page of its memory.
 */
static __always_inline void end_transport(struct ssll_handshake *handshake, __u64 duration_ns)
{
	__u64 now = handshake->phase_since_ns + duration_ns;
	struct ssll_thread *thread = find_thread();
	struct ssll_away away;

	handshake->flags &= ~SSLL_FLAG_BLOCKED;
	if (!thread || !has_slept(thread) || handshake->flags & SSLL_FLAG_NONBLOCKING)
		return;
	if (handshake->phase == SSLL_PART_WAIT_WINDOW && !may_fill_buffer(handshake))
		return;
	handshake->flags |= SSLL_FLAG_BLOCKED;
	if (handshake->phase == SSLL_PART_WAIT_PEER) {
		end_peer_wait(handshake, thread->ssl, handshake->phase_since_ns, now);
		judge_split(handshake);
	} else
		add_part(handshake, handshake->phase, duration_ns);
	handshake->since_ns += duration_ns;
	away = end_wait_away(thread, now);
	handshake->blocked_off_ns += away.off_ns;
	handshake->blocked_delay_ns += away.delay_ns;
	handshake->blocked_throttled_ns += away.throttled_ns;
}

/* The part's time, which it has no longer. */
static __always_inline __u64 take_part(struct ssll_handshake *handshake, enum ssll_part part)
{
	__u64 time_ns = handshake->parts[part];

	handshake->parts[part] = 0;
	return time_ns;
}

/*
 * A call has come back to wait for the peer or its window. Where the read or write before that has not slept, the transport
 * doesn't block: what reads and writes slept for so far was something else, a lock in the kernel for instance, and belongs to
 * the calls. One that has slept was a wait with a limit in time.
 */
static __always_inline void transport_returns(struct ssll_handshake *handshake)
{
	bool first = !(handshake->flags & SSLL_FLAG_RETURNS);
	__u64 waits_ns = 0;

	handshake->flags |= SSLL_FLAG_RETURNS;
	if (handshake->flags & SSLL_FLAG_BLOCKED)
		return;
	handshake->flags |= SSLL_FLAG_NONBLOCKING;
	if (!first)
		return;
	waits_ns += take_part(handshake, SSLL_PART_WAIT_PEER);
	waits_ns += take_part(handshake, SSLL_PART_WAIT_WINDOW);
	waits_ns += take_part(handshake, SSLL_PART_WAIT_PEER_OR_SERVER);
	if (handshake->parts[SSLL_PART_QUEUE_SERVER]) {
		for (__u32 part = SSLL_PART_QUEUE_HANDSHAKES; part <= SSLL_PART_QUEUE_ASLEEP; part++)
			handshake->parts[part] = 0;
	}
	waits_ns += take_part(handshake, SSLL_PART_QUEUE_SERVER);
	take_part(handshake, SSLL_PART_ROUND_TRIPS);
	take_part(handshake, SSLL_PART_LOSSES);
	handshake->parts[SSLL_PART_CALLS] += waits_ns;
	handshake->parts[SSLL_PART_OFF_CPU] += handshake->blocked_off_ns;
	handshake->parts[SSLL_PART_OFF_CPU_RUNNABLE] += handshake->blocked_delay_ns;
	handshake->parts[SSLL_PART_OFF_CPU_THROTTLED] += handshake->blocked_throttled_ns;
	handshake->parts[SSLL_PART_REST_ASLEEP] += handshake->blocked_off_ns - handshake->blocked_delay_ns;
}

#endif
