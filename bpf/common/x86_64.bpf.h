/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is x86-64's own: registers, flags, where a call leaves its return address, system calls. aarch64.bpf.h has the same. */
#ifndef X86_64_BPF_H
#define X86_64_BPF_H

/* As the kernel shows them to programs and user space: struct pt_regs of <asm/ptrace.h>, which another machine doesn't have. */
struct machine_registers {
	unsigned long r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
	unsigned long rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags, rsp, ss;
};

#define MACHINE "x86-64"

enum {
	SYSTEM_CALL_WRITE = 1,
	RETURN_ADDRESS_SIZE = 8, /* what a return takes off the stack */
};

#define FIRST_ARGUMENT rdi
#define STACK_POINTER rsp
#define INSTRUCTION_POINTER rip
#define GOROUTINE r14
#define GO_FIRST_ARGUMENT rax
#define GO_CLOSURE rdx

static __always_inline __u64 argument(const struct pt_regs *ctx, __u32 index)
{
	switch (index) {
	case 0:
		return REGISTER(ctx, rdi);
	case 1:
		return REGISTER(ctx, rsi);
	case 2:
		return REGISTER(ctx, rdx);
	case 3:
		return REGISTER(ctx, rcx);
	}
	return REGISTER(ctx, r8);
}

/* A word of what a Go function returns, by its number from 0 to 2. */
static __always_inline __u64 go_result(const struct pt_regs *ctx, __u32 number)
{
	return number == 0 ? REGISTER(ctx, rax) : number == 1 ? REGISTER(ctx, rbx) : REGISTER(ctx, rcx);
}

/* The interface that is the last argument of a Go function which has six words of arguments before it. */
static __always_inline __u64 go_seventh(const struct pt_regs *ctx)
{
	return REGISTER(ctx, r9);
}

static __always_inline __u64 go_eighth(const struct pt_regs *ctx)
{
	return REGISTER(ctx, r10);
}

/* By the processor's register number: a site on the way out may lie before the value is moved to rax. */
static __always_inline __u64 returned_value(const struct pt_regs *ctx, __u32 number)
{
	switch (number) {
	case 1:
		return REGISTER(ctx, rcx);
	case 2:
		return REGISTER(ctx, rdx);
	case 3:
		return REGISTER(ctx, rbx);
	case 5:
		return REGISTER(ctx, rbp);
	case 6:
		return REGISTER(ctx, rsi);
	case 7:
		return REGISTER(ctx, rdi);
	case 8:
		return REGISTER(ctx, r8);
	case 9:
		return REGISTER(ctx, r9);
	case 10:
		return REGISTER(ctx, r10);
	case 11:
		return REGISTER(ctx, r11);
	case 12:
		return REGISTER(ctx, r12);
	case 13:
		return REGISTER(ctx, r13);
	case 14:
		return REGISTER(ctx, r14);
	case 15:
		return REGISTER(ctx, r15);
	}
	return REGISTER(ctx, rax);
}

/* Whether a jcc with this condition, the lowest 4 bits of its opcode, is taken with these flags. */
static __always_inline __u32 condition_holds(__u64 flags, __u32 condition)
{
	__u64 carry = flags & 1, parity = flags >> 2 & 1, zero = flags >> 6 & 1, sign = flags >> 7 & 1,
	      overflow = flags >> 11 & 1;
	__u64 less = sign ^ overflow;
	/* o, b, e, be, s, p, l, le: the condition's upper 3 bits; its lowest negates. */
	__u64 holds = overflow | carry << 1 | zero << 2 | (carry | zero) << 3 | sign << 4 | parity << 5 | less << 6 |
	              (zero | less) << 7;

	return (holds >> (condition >> 1 & 7) ^ condition) & 1;
}

/* Whether the one at which the program runs is about to be taken. */
static __always_inline __u32 branch_taken(const struct pt_regs *ctx, __u32 condition)
{
	return condition_holds(REGISTER(ctx, eflags), condition);
}

/* Sets a word to 0 that another processor may take then; what was loaded before stays before it, as the machine keeps it so. */
static __always_inline void give_back(__u64 *word)
{
	*(volatile __u64 *)word = 0;
}

#endif
