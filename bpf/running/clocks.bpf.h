/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread does, by clocks that it has anyway: the scheduler's, and the time that it worked in calls of handshakes. Read
 * at two moments, they tell what it did in between, without an event for each switch.
 *
 * The scheduler's time on a processor lags by up to a tick while the thread runs. So it only tells work from sleep where the
 * thread has slept in between; where it hasn't, what wasn't spent waiting for a processor was work. Where it slept at the first
 * moment and has run ever since it woke, the work is what passed since then; when that was, the scheduler's clock says, whose
 * distance from ours is the least that was seen of late in a thread that runs.
 */
#ifndef CLOCKS_BPF_H
#define CLOCKS_BPF_H

#include "common/tasks.bpf.h"
#include "running/running.bpf.h"

enum {
	MOST_CONTROL_GROUPS = 8,              /* above one another, whose quotas are looked at */
	CLOCKS_AGREE_NS = 1000 * 1000 * 1000, /* for so long the distance of two clocks stays the same */
};

/* The thread that runs: what it holds is read without a helper's call. */
static __always_inline const struct task_struct *own_task(void)
{
	return (const struct task_struct *)bpf_get_current_task_btf();
}

/* The thread that runs says how far the scheduler's clock is behind ours, at most. */
static __always_inline void compare_clocks(__u64 switched_in, __u64 now)
{
	volatile struct ssll_handshake_counters *counters = &handshake_counters;
	__u64 ahead_ns = now - switched_in;

	if (now - counters->ahead_since_ns > CLOCKS_AGREE_NS) {
		counters->ahead_before_ns = counters->ahead_since_ns ? counters->ahead_ns : ahead_ns;
		counters->ahead_ns = ahead_ns;
		counters->ahead_since_ns = now;
	} else if ((__s64)(ahead_ns - counters->ahead_ns) < 0)
		counters->ahead_ns = ahead_ns;
}

/* The thread that runs is one whose clocks will be asked for. */
static __always_inline void compare_own_clocks(__u64 now)
{
	const struct task_struct *own = own_task();

	if (bpf_core_field_exists(own->sched_info.last_arrival))
		compare_clocks(own->sched_info.last_arrival, now);
}

/* How long the thread that runs has had its processor. */
static __always_inline __u64 run_since_switch(__u64 now)
{
	volatile struct ssll_handshake_counters *counters = &handshake_counters;
	__u64 ahead_ns = counters->ahead_ns, before_ns = counters->ahead_before_ns;
	__s64 ran_ns;

	if ((__s64)(before_ns - ahead_ns) < 0)
		ahead_ns = before_ns;
	ran_ns = now - own_task()->sched_info.last_arrival - ahead_ns;
	return ran_ns > 0 ? ran_ns : 0;
}

/* How long the thread was runnable without a processor, ns since its start; 0 where the kernel doesn't count it. */
static __always_inline __u64 run_delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? BPF_CORE_READ(task, sched_info.run_delay) : 0;
}

/* The time that quotas held the thread's control groups, those above it included, ns; 0 where the kernel has no quotas.
 * `thread` is the address of its struct task_struct. Not inlined: eight levels are long, and several functions ask for them. */
__noinline __u64 throttled_of(__u64 thread)
{
	struct task_struct *task = (struct task_struct *)thread;
	struct task_group *group;
	__u64 throttled_ns = 0;

	if (!bpf_core_field_exists(task->sched_task_group->cfs_bandwidth.throttled_time))
		return 0;
	group = BPF_CORE_READ(task, sched_task_group);
	for (__u32 level = 0; level < MOST_CONTROL_GROUPS && group; level++) {
		throttled_ns += BPF_CORE_READ(group, cfs_bandwidth.throttled_time);
		group = BPF_CORE_READ(group, parent);
	}
	return throttled_ns;
}

static __always_inline __u64 own_run_delay(const struct task_struct *own)
{
	return bpf_core_field_exists(own->sched_info.run_delay) ? own->sched_info.run_delay : 0;
}

/*
 * The same as throttled_of, of the thread that runs. A function of its own: the verifier then looks at it once for each
 * program, not once for each way that leads here. For a pointer in the running thread's record, it searches all types of the
 * kernel by name (Linux 6.18), a millisecond each time.
 */
__noinline __u64 own_throttled(void)
{
	const struct task_struct *own = own_task();
	const struct task_group *group;
	__u64 throttled_ns = 0;

	if (!bpf_core_field_exists(own->sched_task_group->cfs_bandwidth.throttled_time))
		return 0;
	group = own->sched_task_group;
	for (__u32 level = 0; level < MOST_CONTROL_GROUPS && group; level++) {
		throttled_ns += group->cfs_bandwidth.throttled_time;
		group = group->parent;
	}
	return throttled_ns;
}

/* The thread begins the outermost of its calls. */
static __always_inline void begin_busy(struct ssll_thread *thread, __u64 now)
{
	thread->busy_since_ns = now;
	thread->run_delay_ns = own_run_delay(own_task());
}

/* The part of the time since the outermost call began that the thread worked. */
static __always_inline __u64 busy_now(const struct ssll_thread *thread, __u64 run_delay_ns, __u64 now)
{
	__u64 passed_ns = now - thread->busy_since_ns, delayed_ns = run_delay_ns - thread->run_delay_ns;

	return thread->busy_since_ns && delayed_ns < passed_ns ? passed_ns - delayed_ns : 0;
}

/* The outermost of its calls has come back. */
static __always_inline void end_busy(struct ssll_thread *thread, __u64 now)
{
	thread->busy_ns += busy_now(thread, own_run_delay(own_task()), now);
	thread->busy_since_ns = 0;
}

/* The thread begins to work for a collection of garbage. Where it isn't watched any more, it may be done with that unseen. */
static __always_inline void begin_collecting(struct ssll_thread *thread, __u64 now)
{
	__u32 watch = watch_below();

	thread->collects_since_ns = watch >> SSLL_TIER_BELOW & 1 ? 0 : now;
	thread->collect_delay_ns = own_run_delay(own_task());
	thread->collect_watch = watch;
}

/* How long it has worked for the one that runs; 0 where it may have been done with it unseen. */
static __always_inline __u64 collecting_now(const struct ssll_thread *thread, __u64 run_delay_ns, __u64 now)
{
	if (!thread->collects_since_ns || thread->collect_watch != watch_below())
		return 0;
	return less(now - thread->collects_since_ns, run_delay_ns - thread->collect_delay_ns);
}

static __always_inline void end_collecting(struct ssll_thread *thread, __u64 now)
{
	thread->collected_ns += collecting_now(thread, own_run_delay(own_task()), now);
	thread->collects_since_ns = 0;
}

/* Reads the clocks of a thread, which may be another one than the one that runs, or gone: then `tid` of the clocks is 0. */
static __always_inline void read_clocks(struct task_struct *task, __u32 tid, struct ssll_clocks *clocks, __u64 now)
{
	struct ssll_thread *thread = bpf_map_lookup_elem(&threads, &tid);

	clocks->tid = 0;
	if (!task || !thread || (__u32)BPF_CORE_READ(task, pid) != tid)
		return;
	clocks->tid = tid;
	clocks->run_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	clocks->delay_ns = run_delay_of(task);
	clocks->throttled_ns = throttled_of((__u64)task);
	clocks->sleeps = BPF_CORE_READ(task, nvcsw);
	clocks->switches = clocks->sleeps + BPF_CORE_READ(task, nivcsw);
	clocks->is_off = bpf_core_field_exists(task->on_cpu) && !BPF_CORE_READ(task, on_cpu);
	clocks->busy_ns = thread->busy_ns + busy_now(thread, clocks->delay_ns, now);
	clocks->collected_ns = thread->collected_ns + collecting_now(thread, clocks->delay_ns, now);
}

/* Reads those of the thread that runs. */
static __always_inline void read_own_clocks(struct ssll_thread *thread, __u64 now)
{
	const struct task_struct *own = own_task();
	struct ssll_clocks *clocks = &thread->clocks;

	clocks->tid = this_thread();
	clocks->run_ns = own->se.sum_exec_runtime;
	clocks->delay_ns = own_run_delay(own);
	clocks->throttled_ns = own_throttled();
	clocks->sleeps = own->nvcsw;
	clocks->switches = clocks->sleeps + own->nivcsw;
	clocks->is_off = 0;
	clocks->busy_ns = thread->busy_ns + busy_now(thread, clocks->delay_ns, now);
	clocks->collected_ns = thread->collected_ns + collecting_now(thread, clocks->delay_ns, now);
}

/* The smaller of what a clock went on by and what is left, which it takes away from that. Read in the middle of an update by
 * another processor, a clock may seem to have gone back. */
static __always_inline __u64 take_of(__u64 *left_ns, __u64 before_ns, __u64 after_ns)
{
	__u64 taken_ns = at_most(less(after_ns, before_ns), *left_ns);

	*left_ns -= taken_ns;
	return taken_ns;
}

/* How long the thread that runs has had a processor since its clocks stood so; more than can be where it has ever since. */
static __always_inline __u64 run_between(const struct ssll_clocks *before, const struct ssll_clocks *after, __u64 now)
{
	if (!before->is_off && after->sleeps == before->sleeps)
		return ~0ULL;
	if (after->switches != before->switches || !bpf_core_field_exists(own_task()->sched_info.last_arrival))
		return after->run_ns - before->run_ns;
	return run_since_switch(now);
}

/* Adds what the thread did in `duration_ns` until `now`, at whose borders its clocks stood so. Not inlined: the verifier would
 * follow it for each sample that they may be of. */
__noinline int add_doings(struct ssll_handshake *handshake, const struct ssll_clocks *before, const struct ssll_clocks *after,
        __u64 duration_ns, __u64 now)
{
	__u64 left_ns = duration_ns, delay_ns, throttled_ns, busy_ns, run_ns;

	if (!handshake || !before || !after)
		return 0;
	delay_ns = take_of(&left_ns, before->delay_ns, after->delay_ns);
	throttled_ns = take_of(&delay_ns, before->throttled_ns, after->throttled_ns);
	busy_ns = take_of(&left_ns, before->busy_ns, after->busy_ns);
	run_ns = run_between(before, after, now);
	handshake->parts[SSLL_PART_QUEUE_RUNNABLE] += delay_ns;
	handshake->parts[SSLL_PART_QUEUE_THROTTLED] += throttled_ns;
	handshake->parts[SSLL_PART_QUEUE_HANDSHAKES] += busy_ns;
	handshake->parts[SSLL_PART_QUEUE_OTHER] += take_of(&left_ns, busy_ns, run_ns);
	handshake->parts[SSLL_PART_QUEUE_ASLEEP] += left_ns;
	return 0;
}

/*
 * The same of the thread that a goroutine runs on now, whose clocks stood as in the sample, taken before or after it became
 * ready: at least so much passed since then, as what passed before is taken from each. Work of the thread is other goroutines',
 * or the runtime's own; none is told where it had a processor then and slept since, as its clock may have stood still for a
 * tick. Its work for collections has a clock of its own, which doesn't. Whether it slept doesn't matter: which other threads
 * might have come isn't known.
 */
__noinline int add_go_doings(struct ssll_handshake *handshake, const struct ssll_sample *sample,
        const struct ssll_clocks *after, __u64 duration_ns, __u64 now)
{
	__u64 left_ns, early_ns, delay_ns, throttled_ns, collected_ns, run_ns;
	const struct ssll_clocks *before;

	if (!handshake || !sample || !after)
		return 0;
	before = &sample->clocks;
	left_ns = less(now, sample->at_ns);
	early_ns = less(left_ns, duration_ns);
	delay_ns = take_of(&left_ns, before->delay_ns, after->delay_ns);
	throttled_ns = take_of(&delay_ns, before->throttled_ns, after->throttled_ns);
	collected_ns = take_of(&left_ns, before->collected_ns, after->collected_ns);
	run_ns = before->is_off || after->sleeps == before->sleeps ? run_between(before, after, now) : 0;
	handshake->parts[SSLL_PART_QUEUE_RUNNABLE] += less(delay_ns, early_ns);
	handshake->parts[SSLL_PART_QUEUE_THROTTLED] += less(throttled_ns, early_ns);
	handshake->parts[SSLL_PART_QUEUE_COLLECTIONS] += less(collected_ns, early_ns);
	handshake->parts[SSLL_PART_QUEUE_GOROUTINES] += less(take_of(&left_ns, collected_ns, run_ns), early_ns);
	return 0;
}

#endif
