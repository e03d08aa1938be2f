/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is aarch64's own: registers, where a call leaves its return address, system calls. x86_64.bpf.h has the same. */
#ifndef AARCH64_BPF_H
#define AARCH64_BPF_H

/* As the kernel shows them to programs and user space: struct user_pt_regs of <asm/ptrace.h>, with which pt_regs begins. */
struct machine_registers {
	__u64 regs[31];
	__u64 sp, pc, pstate;
};

#define MACHINE "aarch64"

enum {
	SYSTEM_CALL_WRITE = 64,
	RETURN_ADDRESS_SIZE = 0, /* a call leaves it in x30: the stack pointer at entry is the caller's */
};

#define FIRST_ARGUMENT regs[0]
#define STACK_POINTER sp
#define INSTRUCTION_POINTER pc
#define GOROUTINE regs[28]
#define GO_FIRST_ARGUMENT regs[0]
#define GO_CLOSURE regs[26]

static __always_inline __u64 general_register(const struct pt_regs *ctx, __u32 number)
{
	switch (number) {
	case 1:
		return REGISTER(ctx, regs[1]);
	case 2:
		return REGISTER(ctx, regs[2]);
	case 3:
		return REGISTER(ctx, regs[3]);
	case 4:
		return REGISTER(ctx, regs[4]);
	case 5:
		return REGISTER(ctx, regs[5]);
	case 6:
		return REGISTER(ctx, regs[6]);
	case 7:
		return REGISTER(ctx, regs[7]);
	case 8:
		return REGISTER(ctx, regs[8]);
	case 9:
		return REGISTER(ctx, regs[9]);
	case 10:
		return REGISTER(ctx, regs[10]);
	case 11:
		return REGISTER(ctx, regs[11]);
	case 12:
		return REGISTER(ctx, regs[12]);
	case 13:
		return REGISTER(ctx, regs[13]);
	case 14:
		return REGISTER(ctx, regs[14]);
	case 15:
		return REGISTER(ctx, regs[15]);
	case 16:
		return REGISTER(ctx, regs[16]);
	case 17:
		return REGISTER(ctx, regs[17]);
	case 18:
		return REGISTER(ctx, regs[18]);
	case 19:
		return REGISTER(ctx, regs[19]);
	case 20:
		return REGISTER(ctx, regs[20]);
	case 21:
		return REGISTER(ctx, regs[21]);
	case 22:
		return REGISTER(ctx, regs[22]);
	case 23:
		return REGISTER(ctx, regs[23]);
	case 24:
		return REGISTER(ctx, regs[24]);
	case 25:
		return REGISTER(ctx, regs[25]);
	case 26:
		return REGISTER(ctx, regs[26]);
	case 27:
		return REGISTER(ctx, regs[27]);
	case 28:
		return REGISTER(ctx, regs[28]);
	case 29:
		return REGISTER(ctx, regs[29]);
	case 30:
		return REGISTER(ctx, regs[30]);
	}
	return REGISTER(ctx, regs[0]);
}

static __always_inline __u64 argument(const struct pt_regs *ctx, __u32 index)
{
	return general_register(ctx, index & 7); /* the others are on the stack */
}

/* A word of what a Go function returns, by its number from 0 to 2. */
static __always_inline __u64 go_result(const struct pt_regs *ctx, __u32 number)
{
	return number == 0 ? REGISTER(ctx, regs[0]) : number == 1 ? REGISTER(ctx, regs[1]) : REGISTER(ctx, regs[2]);
}

/* The interface that is the last argument of a Go function which has six words of arguments before it. */
static __always_inline __u64 go_seventh(const struct pt_regs *ctx)
{
	return REGISTER(ctx, regs[6]);
}

static __always_inline __u64 go_eighth(const struct pt_regs *ctx)
{
	return REGISTER(ctx, regs[7]);
}

/* By the register's number: a site on the way out may lie before the value is moved to x0. */
static __always_inline __u64 returned_value(const struct pt_regs *ctx, __u32 number)
{
	return general_register(ctx, number);
}

/* Whether a b.cond with this condition, the lowest 4 bits of the instruction, is taken with these flags. */
static __always_inline __u32 condition_holds(__u64 flags, __u32 condition)
{
	__u64 overflow = flags >> 28 & 1, carry = flags >> 29 & 1, zero = flags >> 30 & 1, negative = flags >> 31 & 1;
	__u64 greater_or_equal = negative == overflow;
	/* eq, cs, mi, vs, hi, ge, gt, al: the condition's upper 3 bits; its lowest negates. */
	__u64 holds = zero | carry << 1 | negative << 2 | overflow << 3 | (carry & !zero) << 4 | greater_or_equal << 5 |
	              (greater_or_equal & !zero) << 6 | 1 << 7;

	return (holds >> (condition >> 1 & 7) ^ condition) & 1;
}

/*
 * Whether the one at which the program runs is about to be taken. Sites on the way out aren't branches: the kernel emulates
 * `ret`, so nothing is gained by a way out before it. On the way into Go functions they are.
 */
static __always_inline __u32 branch_taken(const struct pt_regs *ctx, __u32 condition)
{
	return condition_holds(REGISTER(ctx, pstate), condition);
}

/* Sets a word to 0 that another processor may take then. Loads before it stay there, which an exchange sees to, and a store
 * not. */
static __always_inline void give_back(__u64 *word)
{
	__sync_lock_test_and_set(word, 0);
}

#endif
