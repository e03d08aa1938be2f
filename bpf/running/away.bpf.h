/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a thread was off the processor between two moments at which it runs, and how much of that it was ready to run: by
 * the scheduler's own clocks, without an event for each switch.
 *
 * The scheduler adds to a thread's time on the processor at each switch and each tick, and notes when it did. The difference of
 * the two goes on only while the thread is off. Processors don't agree on the time, so where the thread has changed between
 * them, what passed less what it ran is taken instead, which is off by a tick at most.
 */
#ifndef AWAY_BPF_H
#define AWAY_BPF_H

#include "running/clocks.bpf.h"

struct away {
	__u64 off_ns;
	__u64 delay_ns; /* the part of it in which the thread was ready to run */
};

static __always_inline void read_border(struct ssll_border *border, __u64 now)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	border->at_ns = now;
	border->run_ns = task->se.sum_exec_runtime;
	border->ahead_ns = task->se.exec_start - border->run_ns;
	border->delay_ns = bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
	border->switches = task->nvcsw + task->nivcsw;
	border->processor = bpf_get_smp_processor_id();
	if (bpf_core_field_exists(task->sched_info.last_arrival))
		compare_clocks(task->sched_info.last_arrival, now);
}

/* From one border of a thread to the next, at which it is now. */
static __always_inline struct away away_between(const struct ssll_border *from, const struct ssll_border *to)
{
	struct away away = {};
	__u64 passed_ns = to->at_ns - from->at_ns;
	__s64 off_ns = to->ahead_ns - from->ahead_ns;

	if (from->switches == to->switches)
		return away;
	if (from->processor != to->processor)
		off_ns = passed_ns - (to->run_ns - from->run_ns);
	away.delay_ns = at_most(to->delay_ns - from->delay_ns, passed_ns);
	away.off_ns = off_ns < (__s64)away.delay_ns ? away.delay_ns : at_most(off_ns, passed_ns);
	return away;
}

/* Not inlined: what it needs of the stack, its callers have not. */
__noinline int measure_away(const struct ssll_border *from, struct away *away, __u64 now)
{
	struct ssll_border here;

	if (!from || !away)
		return 0;
	read_border(&here, now);
	*away = away_between(from, &here);
	return 0;
}

/* A call of a handshake begins; of a phase that was paused, its next part does. */
static __always_inline void begin_away(struct ssll_thread *thread, __u64 now)
{
	read_border(&thread->call, now);
	thread->phase = thread->call;
	thread->phases_asleep_ns = thread->off_ns = thread->delay_ns = 0;
}

/* The thread was in a call of another handshake within this one, so what it did in this one isn't known. */
static __always_inline void lose_away(struct ssll_thread *thread)
{
	thread->call.at_ns = thread->phase.at_ns = 0;
}

static __always_inline void begin_phase_away(__u64 now)
{
	struct ssll_thread *thread = find_thread();

	if (thread)
		read_border(&thread->phase, now);
}

static __always_inline void end_phase_away(struct ssll_thread *thread, __u64 now)
{
	struct away away = {};

	if (!thread || !thread->phase.at_ns)
		return;
	measure_away(&thread->phase, &away, now);
	thread->phases_asleep_ns += away.off_ns - away.delay_ns;
}

/* A wait within the call, which began where its phase did, ends: it is no part of what the call was off the processor. */
static __always_inline struct away end_wait_away(struct ssll_thread *thread, __u64 now)
{
	struct away away = {};

	if (!thread->call.at_ns || !thread->phase.at_ns)
		return away;
	away = away_between(&thread->call, &thread->phase);
	thread->off_ns += away.off_ns;
	thread->delay_ns += away.delay_ns;
	read_border(&thread->call, now);
	return away_between(&thread->phase, &thread->call);
}

/* Adds what the call that ends was off the processor, but for its waits. `thread`: NULL where it isn't known by which one the
 * call was made. */
static __always_inline void add_away(struct ssll_handshake *handshake, const struct ssll_thread *thread, __u64 now)
{
	struct away away = {};

	if (!thread || !thread->call.at_ns) {
		handshake->flags |= SSLL_FLAG_UNSPLIT;
		return;
	}
	measure_away(&thread->call, &away, now);
	away.off_ns = at_most(away.off_ns + thread->off_ns, now - handshake->since_ns);
	away.delay_ns = at_most(away.delay_ns + thread->delay_ns, away.off_ns);
	handshake->parts[SSLL_PART_OFF_CPU] += away.off_ns;
	handshake->parts[SSLL_PART_OFF_CPU_RUNNABLE] += away.delay_ns;
	handshake->parts[SSLL_PART_REST_ASLEEP] += less(away.off_ns - away.delay_ns, thread->phases_asleep_ns);
}

#endif
