/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a thread was off the processor between two moments at which it runs, how much of that it was ready to run, and how
 * much a CPU quota held it: by the scheduler's own clocks, without an event for each switch.
 *
 * The scheduler adds to a thread's time on the processor at each switch and each tick, and notes when it did. The difference of
 * the two goes on only while the thread is off. Processors don't agree on the time, so where the thread has changed between
 * them, what passed less what it ran is taken instead, which is off by a tick at most. What quotas held is counted of the
 * thread's control groups on all processors, so that where other threads of theirs were held at another time, it is a bound.
 */
#ifndef AWAY_BPF_H
#define AWAY_BPF_H

#include "running/clocks.bpf.h"

static __always_inline __u32 own_switches(void)
{
	return own_task()->nvcsw + own_task()->nivcsw;
}

/* Whether the thread has been off the processor since a border of its own. */
static __always_inline bool was_switched(const struct ssll_border *from)
{
	return own_switches() != from->switches;
}

static __always_inline void read_border(struct ssll_border *border, __u64 now)
{
	const struct task_struct *task = own_task();

	border->at_ns = now;
	border->run_ns = task->se.sum_exec_runtime;
	border->ahead_ns = task->se.exec_start - border->run_ns;
	border->delay_ns = own_run_delay(task);
	border->throttled_ns = own_throttled();
	border->switches = own_switches();
	border->processor = bpf_get_smp_processor_id();
	compare_own_clocks(now);
}

/* From now on the border is here. Where the thread has had its processor since then, nothing else in it has changed, but for
 * what quotas held other threads, which is left to the bound of the next difference. */
static __always_inline void move_border(struct ssll_border *border, __u64 now)
{
	if (!border->at_ns || was_switched(border)) {
		read_border(border, now);
		return;
	}
	border->at_ns = now;
	border->run_ns = own_task()->se.sum_exec_runtime;
}

/* From one border of a thread to the next, at which it is now. */
static __always_inline struct ssll_away away_between(const struct ssll_border *from, const struct ssll_border *to)
{
	struct ssll_away away = {};
	__u64 passed_ns = to->at_ns - from->at_ns;
	__s64 off_ns = to->ahead_ns - from->ahead_ns;

	if (from->switches == to->switches)
		return away;
	if (from->processor != to->processor)
		off_ns = passed_ns - (to->run_ns - from->run_ns);
	away.delay_ns = at_most(to->delay_ns - from->delay_ns, passed_ns);
	away.throttled_ns = at_most(less(to->throttled_ns, from->throttled_ns), away.delay_ns);
	away.off_ns = off_ns < (__s64)away.delay_ns ? away.delay_ns : at_most(off_ns, passed_ns);
	return away;
}

static __always_inline void extend_away(struct ssll_away *away, struct ssll_away more)
{
	away->off_ns += more.off_ns;
	away->delay_ns += more.delay_ns;
	away->throttled_ns += more.throttled_ns;
}

/* From a border until now, in a thread that was switched. Not inlined: what it needs of the stack, its callers have not. */
__noinline int extend_away_past(struct ssll_away *away, const struct ssll_border *from, __u64 now)
{
	struct ssll_border here;

	if (!away || !from)
		return 0;
	read_border(&here, now);
	extend_away(away, away_between(from, &here));
	return 0;
}

/* From a border until now. */
static __always_inline void extend_away_since(struct ssll_away *away, const struct ssll_border *from, __u64 now)
{
	if (was_switched(from))
		extend_away_past(away, from, now);
}

/* A call of a handshake begins; of a phase that was paused, its next part does. */
static __always_inline void begin_away(struct ssll_thread *thread, __u64 now)
{
	read_border(&thread->call, now);
	thread->phase = thread->call;
	thread->away = thread->phases = (struct ssll_away){};
}

/* The thread was in a call of another handshake within this one, so what it did in this one isn't known. */
static __always_inline void lose_away(struct ssll_thread *thread)
{
	thread->call.at_ns = thread->phase.at_ns = 0;
}

static __always_inline void begin_phase_away(struct ssll_thread *thread, __u64 now)
{
	if (thread)
		move_border(&thread->phase, now);
}

static __always_inline void end_phase_away(struct ssll_thread *thread, __u64 now)
{
	if (thread && thread->phase.at_ns)
		extend_away_since(&thread->phases, &thread->phase, now);
}

/* A wait within the call, which began where its phase did, ends: it is no part of what the call was off the processor. */
static __always_inline struct ssll_away end_wait_away(struct ssll_thread *thread, __u64 now)
{
	if (!thread->call.at_ns || !thread->phase.at_ns)
		return (struct ssll_away){};
	extend_away(&thread->away, away_between(&thread->call, &thread->phase));
	read_border(&thread->call, now);
	return away_between(&thread->phase, &thread->call);
}

/* Adds what the call that ends was off the processor, but for its waits. `thread`: NULL where it isn't known by which one the
 * call was made. */
static __always_inline void add_away(struct ssll_handshake *handshake, struct ssll_thread *thread, __u64 now)
{
	__u64 off_ns, delay_ns;

	if (!thread || !thread->call.at_ns) {
		handshake->flags |= SSLL_FLAG_UNSPLIT;
		return;
	}
	extend_away_since(&thread->away, &thread->call, now);
	off_ns = at_most(thread->away.off_ns, now - handshake->since_ns);
	delay_ns = at_most(thread->away.delay_ns, off_ns);
	handshake->parts[SSLL_PART_OFF_CPU] += off_ns;
	handshake->parts[SSLL_PART_OFF_CPU_RUNNABLE] += delay_ns;
	handshake->parts[SSLL_PART_OFF_CPU_THROTTLED] += at_most(thread->away.throttled_ns, delay_ns);
	handshake->parts[SSLL_PART_REST_ASLEEP] += less(off_ns - delay_ns, thread->phases.off_ns - thread->phases.delay_ns);
}

#endif
