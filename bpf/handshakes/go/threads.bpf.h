/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a goroutine was off the processor within the calls of a handshake, where it is certain that it kept its thread: then
 * the thread's clocks are its own. Nothing is asked of the runtime's scheduler, which switches goroutines all the time.
 *
 * The runtime counts how often a goroutine has stopped to run (g.trackingSeq, a byte; before Go 1.26 system calls count as
 * well), and how often each of its processors has begun to run one with a slice of time of its own (p.schedtick). Between two
 * moments on the same thread, with the same processor, at the same count of that, the goroutine has stopped exactly as often as
 * the first count says; each time that its stack has grown, which doubles it, counts in that as well and is none. So it never
 * stopped, or 256 times, each time to go on in a slice that another goroutine began.
 */
#ifndef HANDSHAKES_GO_THREADS_BPF_H
#define HANDSHAKES_GO_THREADS_BPF_H

#include "calls/goroutines.bpf.h"
#include "running/away.bpf.h"

enum {
	GO_MOST_DOUBLINGS = 20, /* of a stack, from 2 KiB on; the runtime allows 1 GB */
};

/* The field of a record of the runtime's; false where it isn't known, or can't be read. */
static __always_inline bool read_go_field(
        __u64 record, enum ssll_go_field field, const struct ssll_library *library, void *value, __u32 size)
{
	__s32 offset = library->fields[field];

	return record && offset > 0 && !bpf_probe_read_user(value, size, (void *)(record + offset));
}

/* Not inlined: what it needs of the stack, its callers have not. */
__noinline int read_turn(struct ssll_turn *turn, __u64 goroutine, const struct ssll_library *library)
{
	__u64 stack[2] = {}, thread = 0;

	if (!turn || !library)
		return 0;
	turn->processor = 0;
	if (bpf_probe_read_user(stack, sizeof(stack), (void *)goroutine)) /* its lowest address, and the one above it */
		return 0;
	turn->stack_bytes = stack[1] - stack[0];
	if (!read_go_field(goroutine, SSLL_GO_FIELD_STOPS, library, &turn->stops, sizeof(turn->stops)))
		return 0;
	if (!read_go_field(goroutine, SSLL_GO_FIELD_THREAD, library, &thread, sizeof(thread)))
		return 0;
	if (!read_go_field(thread, SSLL_GO_FIELD_PROCESSOR, library, &turn->processor, sizeof(turn->processor)))
		return 0;
	if (!read_go_field(turn->processor, SSLL_GO_FIELD_TURNS, library, &turn->turns, sizeof(turn->turns)))
		turn->processor = 0;
	return 0;
}

/* Whether the goroutine has run all the time from one moment to the next. */
static __always_inline bool is_same_turn(const struct ssll_turn *before, const struct ssll_turn *after)
{
	__u8 stops = after->stops - before->stops;

	if (!before->processor || after->processor != before->processor || after->turns != before->turns)
		return false;
	return stops < GO_MOST_DOUBLINGS && after->stack_bytes == before->stack_bytes << stops;
}

/* The handshake's goroutine goes on: at its start, or after a wait. Within a call of C nothing is kept, as the thread's border
 * is that call's. */
static __always_inline void begin_go_away(
        __u64 goroutine, const struct ssll_library *library, struct ssll_thread *thread, __u64 now)
{
	if (!thread || thread->ssl)
		return;
	begin_away(thread, now);
	read_turn(&thread->turn, goroutine, library);
}

static __always_inline void begin_go_phase_away(__u64 now)
{
	struct ssll_thread *thread = find_thread();

	if (thread && !thread->ssl)
		read_border(&thread->phase, now);
}

static __always_inline void end_go_phase_away(__u64 now)
{
	struct ssll_thread *thread = find_thread();

	if (thread && !thread->ssl)
		end_phase_away(thread, now);
}

/* It begins to wait, or is over. Where the thread's border is another one, something else began on it meanwhile. */
static __always_inline void end_go_away(
        __u64 goroutine, const struct ssll_library *library, struct ssll_handshake *handshake, __u64 now)
{
	struct ssll_thread *thread = find_thread();
	struct ssll_turn turn = {};

	if (thread && !thread->ssl && thread->call.at_ns == handshake->since_ns) {
		read_turn(&turn, goroutine, library);
		if (is_same_turn(&thread->turn, &turn)) {
			add_away(handshake, thread, now);
			return;
		}
	}
	handshake->flags |= SSLL_FLAG_UNSPLIT;
}

#endif
