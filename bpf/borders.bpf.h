/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The borders between a handshake's calls and its waits. Each closes one part and opens the next at the same time stamp, so
 * that wall = calls + waits without remainder.
 */
#ifndef BORDERS_BPF_H
#define BORDERS_BPF_H

#include "offcpu.bpf.h"
#include "offload.bpf.h"
#include "phases.bpf.h"

static __always_inline void wait_ends(struct ssll_handshake *handshake, __u64 now)
{
	__u32 part = handshake->waiting;

	if (part == SSLL_PART_WAIT_OFFLOAD)
		offload_wait_ends(handshake, now);
	add_part(handshake, part, now - handshake->since_ns);
	handshake->waiting = 0;
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
	if (same_thread && thread)
		note_sleep(handshake, thread);
	add_off_cpu(handshake, same_thread ? thread : NULL);
	handshake->parts[SSLL_PART_CALLS] += now - handshake->since_ns;
	handshake->since_ns = now;
}

/* A callback has jumped out of the call that is open. */
static __always_inline void call_is_lost(struct ssll_handshake *handshake, __u64 now)
{
	close_call(handshake, NULL, true, false, now);
	handshake->depth = 0;
	handshake->waiting = SSLL_PART_WAIT_UNKNOWN;
}

#endif
