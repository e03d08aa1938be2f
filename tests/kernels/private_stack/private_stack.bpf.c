// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two uprobe programs that write a value of the thread's own to 256 bytes of their stack, let some tens of microseconds pass,
 * and look whether it is still there. They differ in one thing: `guarded` contains a tail call, which is never made, and so
 * gets no private stack. private_stack.c attaches them, and says how to compile both.
 *
 * Nothing that is read from the stack is used as an address or an index: where it was overwritten, that is counted, and nothing
 * else happens.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

#define SLOTS 32         /* 256 bytes; a private stack is given from 64 on */
#define CLOCK_READS 1000 /* for how long a run can be preempted: 20 to 50 ns each */

/* By program: UNGUARDED, GUARDED. */
struct {
	__u64 runs, corrupted;
} counts[2];

enum { UNGUARDED, GUARDED };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} no_program SEC(".maps");

static __always_inline int run(int program)
{
	volatile __u64 slots[SLOTS];
	__u64 mine = bpf_get_current_pid_tgid(), others = 0;
	__u32 first = bpf_get_prandom_u32(); /* the verifier doesn't know which slot is written, and forgets what they hold */

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < SLOTS; i++)
		slots[(first + i) % SLOTS] = mine;
#pragma clang loop unroll(disable)
	for (int i = 0; i < CLOCK_READS; i++)
		bpf_ktime_get_ns();
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < SLOTS; i++)
		others |= slots[(first + i) % SLOTS] ^ mine;
	__sync_fetch_and_add(&counts[program].runs, 1);
	if (others)
		__sync_fetch_and_add(&counts[program].corrupted, 1);
	return 0;
}

SEC("uprobe")
int unguarded(struct pt_regs *ctx)
{
	(void)ctx;
	return run(UNGUARDED);
}

SEC("uprobe")
int guarded(struct pt_regs *ctx)
{
	__u64 never = 0;

	asm volatile("" : "+r"(never)); /* or the compiler would remove the call before the kernel has seen it */
	if (never)
		bpf_tail_call(ctx, &no_program, 0);
	return run(GUARDED);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
