// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keeps the set of traced processes while they come and go: a child is in it before its first instruction, a process that
 * takes the wanted name or starts in the wanted cgroup before its new program's first, and one that has ended is out.
 *
 * Cost: a look-up at each fork, exec and exit of the machine; the targets' calls cost nothing more.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "follow.h"
#include "common/notices.bpf.h"
#include "common/stack.bpf.h"
#include "common/targets.bpf.h"
#include "common/tasks.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_tracepoint_program);

const volatile struct ssll_follow_config follow_config SEC(".rodata.follow_config") = {};

struct ssll_follow_counters follow_counters SEC(".data.follow_counters") = {};
struct ssll_follow_wishes follow_wishes SEC(".data.follow_wishes") = {};

/* The PIDs whose last process was a target and has ended, a bit for each: what it did may only be told of after its end. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_TARGET_WORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} cgroup SEC(".maps");

static __always_inline void tell_of(__u32 tgid, __u32 parent)
{
	if (!notify(tgid, parent))
		__sync_fetch_and_add(&follow_counters.dropped, 1);
}

/* Sets or clears a process's bit; whether it was set. Writes only where that changes it. */
static __always_inline bool set_bit(__u64 *bits, __u64 bit, bool wanted)
{
	bool was = *(volatile __u64 *)bits & bit;

	if (wanted && !was)
		return __sync_fetch_and_or(bits, bit) & bit;
	if (!wanted && was)
		return __sync_fetch_and_and(bits, ~bit) & bit;
	return was;
}

static __always_inline __u64 *ended_word(__u32 tgid)
{
	__u32 number = tgid >> 6;

	return bpf_map_lookup_elem(&ended, &number);
}

/* A new process is what its parent is. A PID that is used again is put right, too. */
SEC("raw_tracepoint/sched_process_fork")
int at_fork(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	__u32 parent = BPF_CORE_READ((struct task_struct *)ctx->args[0], tgid);
	__u32 child = BPF_CORE_READ((struct task_struct *)ctx->args[1], tgid);
	struct ssll_targets *from = target_word(parent), *to = target_word(child);
	__u64 *gone = ended_word(child);

	if (parent == child || !from || !to || !gone) /* a thread */
		return 0;
	set_bit(gone, target_bit(child), false);
	set_bit(&to->kin, target_bit(child), from->kin & target_bit(parent));
	set_bit(&to->members, target_bit(child), from->members & target_bit(parent));
	if (is_target(child)) {
		__sync_fetch_and_add(&follow_counters.joined, 1);
		if (follow_wishes.children)
			tell_of(child, parent);
	}
	return 0;
}

static __always_inline bool has_wanted_name(struct task_struct *task)
{
	union {
		char text[SSLL_COMM];
		__u64 words[2];
	} comm = {};

	BPF_CORE_READ_STR_INTO(&comm.text, task, comm);
#pragma unroll
	for (int i = 0; i < SSLL_NAMES; i++) {
		const volatile __u64 *name = (const volatile __u64 *)follow_config.comms[i];

		if (comm.words[0] && comm.words[0] == name[0] && comm.words[1] == name[1])
			return true;
	}
	return false;
}

/* The process runs another program now, under that program's name. */
SEC("raw_tracepoint/sched_process_exec")
int at_exec(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	__u32 tgid = this_process();
	struct ssll_targets *word = target_word(tgid);
	bool was, wanted;

	if (!word || (!follow_config.comms[0][0] && !follow_config.cgroup))
		return 0;
	was = is_target(tgid);
	wanted = follow_config.comms[0][0] && has_wanted_name((struct task_struct *)ctx->args[0]);
	if (follow_config.cgroup && bpf_current_task_under_cgroup(&cgroup, 0) == 1)
		wanted = true;
	set_bit(&word->members, target_bit(tgid), wanted);
	if (wanted && !was) {
		__sync_fetch_and_add(&follow_counters.joined, 1);
		tell_of(tgid, 0);
	}
	return 0;
}

/* The last thread of a process is gone. */
SEC("raw_tracepoint/sched_process_exit")
int at_exit(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 tgid = BPF_CORE_READ(task, tgid);
	struct ssll_targets *word = target_word(tgid);
	__u64 *gone = ended_word(tgid);

	if (!word || !gone || !is_target(tgid) || !is_last_thread(task))
		return 0;
	set_bit(gone, target_bit(tgid), true);
	set_bit(&word->kin, target_bit(tgid), false);
	set_bit(&word->members, target_bit(tgid), false);
	return 0;
}

/* Run by user space, for no other way of changing a bit is safe while the programs above change others. */
SEC("raw_tracepoint")
int admit(struct bpf_raw_tracepoint_args *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_tracepoint_program);
	struct ssll_targets *word = target_word(ctx->args[0]);

	if (word)
		set_bit(ctx->args[1] ? &word->members : &word->kin, target_bit(ctx->args[0]), true);
	return 0;
}

/* Keeps the record in the object's BTF, from which user space's side of the ABI is generated. */
const struct ssll_notice *ssll_notice_btf __attribute__((unused));
const enum ssll_follow_limits *ssll_follow_limits_btf __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
