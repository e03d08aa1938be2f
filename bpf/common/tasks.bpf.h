/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is read of the kernel's record of a thread. */
#ifndef TASKS_BPF_H
#define TASKS_BPF_H

#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "ssllatency.h"

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
} __attribute__((preserve_access_index));

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
} __attribute__((preserve_access_index));

struct cfs_bandwidth {
	__u64 throttled_time;
} __attribute__((preserve_access_index));

struct task_group {
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_arm64)
struct thread_words {
	unsigned long tp_value;
} __attribute__((preserve_access_index));

struct thread_struct {
	struct thread_words uw;
} __attribute__((preserve_access_index));
#else
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
#endif

struct task_struct {
	int pid;
	int tgid;
	int on_cpu;
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct sched_info sched_info;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	unsigned long nvcsw;
	unsigned long nivcsw;
	char comm[SSLL_COMM];
	struct thread_struct thread;
} __attribute__((preserve_access_index));

/* The address of a thread-local variable of the thread that runs, so far from its thread pointer: a program's lie below it on
 * x86-64, above on aarch64. Kernels note the pointer when a thread sets it by a system call, as C libraries do on x86-64, or
 * when it leaves the processor. */
static __always_inline __u64 thread_local_at(__u32 distance)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

#if defined(__TARGET_ARCH_arm64)
	return BPF_CORE_READ(task, thread.uw.tp_value) + distance;
#else
	return BPF_CORE_READ(task, thread.fsbase) - distance;
#endif
}

/* The name of the process that runs: its first thread's. */
static __always_inline void read_process_name(struct ssll_process *process)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	BPF_CORE_READ_STR_INTO(&process->comm, task, group_leader, comm);
}

/* Whether a thread that ends is the last one of its process. Two that end at once may both be told so. */
static __always_inline bool is_last_thread(struct task_struct *thread)
{
	return !BPF_CORE_READ(thread, signal, live.counter);
}

#endif
