/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long threads were off the processor inside calls of handshakes: from one switch away to the next switch back.
 *
 * A kernel doesn't announce every switch (leaving the idle loop, above all), but counts them all: so a call is only split where
 * as many were seen as counted.
 */
#ifndef OFFCPU_BPF_H
#define OFFCPU_BPF_H

#include "accounts.bpf.h"
#include "tasks.bpf.h"

static __always_inline int threads_switch(struct task_struct *from, struct task_struct *to)
{
	__u32 tid = BPF_CORE_READ(from, pid);
	struct ssll_thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (thread && thread->ssl) {
		thread->off_since_ns = bpf_ktime_get_ns();
		thread->away++;
	}
	tid = BPF_CORE_READ(to, pid);
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread && thread->ssl && thread->off_since_ns) {
		thread->off_ns += bpf_ktime_get_ns() - thread->off_since_ns;
		thread->off_since_ns = 0;
		thread->back++;
	}
	return 0;
}

static __always_inline __u64 switches_counted(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
}

static __always_inline void off_cpu_begins(struct ssll_thread *thread)
{
	thread->off_ns = thread->off_since_ns = 0;
	if (!view.off_cpu)
		return;
	thread->away = thread->back = 0;
	thread->switches = switches_counted();
}

/* Adds what the call that ends was off the processor. `thread`: NULL where it isn't known which one the call was made by. */
static __always_inline void add_off_cpu(struct ssll_handshake *handshake, const struct ssll_thread *thread)
{
	if (!view.off_cpu)
		return;
	if (thread && thread->away == thread->back && thread->away == switches_counted() - thread->switches)
		handshake->parts[SSLL_PART_OFF_CPU] += thread->off_ns;
	else
		handshake->flags |= SSLL_FLAG_UNSPLIT;
}

#endif
