// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keeps, finds and takes out calls as a test says (BPF_PROG_RUN of syscall programs). What a call holds is told by its key. */
#define __TARGET_ARCH_x86 /* no register is read */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "running/running.bpf.h"

/* The calls of two processes at `calls` places on the stack from `stack` on, 8 bytes apart. */
struct slots_probe {
	__u64 stack;
	__u32 calls;
	__u32 tgids[2];
	__u32 found; /* those that were, and held what they should */
	__u32 wrong;
	__u32 pad;
};

struct slots_probe probe SEC(".data.probe") = {};

static __always_inline struct ssll_start_key key_at(__u32 number, __u32 process)
{
	struct ssll_start_key key = {.stack = probe.stack + 8 * number, .tgid = probe.tgids[process & 1], .operation = 1};

	return key;
}

static __always_inline void compare(const struct ssll_start_key *key, const struct ssll_open_call *call)
{
	__sync_fetch_and_add(call->ssl == key->stack && call->outer == key->tgid ? &probe.found : &probe.wrong, 1);
}

static long keep(__u32 number, const __u32 *process)
{
	struct ssll_start_key key = key_at(number, *process);

	keep_open_call(&key, key.stack, key.tgid);
	return 0;
}

static long find(__u32 number, const __u32 *process)
{
	struct ssll_start_key key = key_at(number, *process);
	struct ssll_open_call *call = find_open_call(&key);

	if (call)
		compare(&key, call);
	return 0;
}

static long take(__u32 number, const __u32 *process)
{
	struct ssll_start_key key = key_at(number, *process);
	struct ssll_open_call call;

	if (take_open_call(&key, &call))
		compare(&key, &call);
	return 0;
}

#define DEFINE_PROGRAMS(what)                                                                                                  \
	SEC("syscall")                                                                                                         \
	int what##_of_first(void *ctx)                                                                                         \
	{                                                                                                                      \
		__u32 process = 0;                                                                                             \
                                                                                                                               \
		(void)ctx;                                                                                                     \
		bpf_loop(probe.calls, what, &process, 0);                                                                      \
		return 0;                                                                                                      \
	}                                                                                                                      \
                                                                                                                               \
	SEC("syscall")                                                                                                         \
	int what##_of_second(void *ctx)                                                                                        \
	{                                                                                                                      \
		__u32 process = 1;                                                                                             \
                                                                                                                               \
		(void)ctx;                                                                                                     \
		bpf_loop(probe.calls, what, &process, 0);                                                                      \
		return 0;                                                                                                      \
	}

DEFINE_PROGRAMS(keep)
DEFINE_PROGRAMS(find)
DEFINE_PROGRAMS(take)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
