/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arguments and return values out of the registers of x86-64, what a site's cookie says of them, and which way branches go. */
#ifndef REGISTERS_BPF_H
#define REGISTERS_BPF_H

#include <asm/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "ssllatency.h"
#include "targets.bpf.h"

/* A load from the context at a constant offset, which the verifier asks for; the compiler would merge several into one. */
#define REGISTER(ctx, name)                                                                                                    \
	({                                                                                                                     \
		__u64 value_;                                                                                                  \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                                                          \
		             : "=r"(value_)                                                                                    \
		             : "r"(ctx), "i"(__builtin_offsetof(struct pt_regs, name)));                                       \
		value_;                                                                                                        \
	})

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

/* A field of a probe site's cookie. */
static __always_inline __u32 field(__u64 cookie, __u32 shift, __u32 bits)
{
	return (cookie >> shift) & ((1U << bits) - 1);
}

/* Whether the call only asks for a size. `number`: 1 + index of the argument that is NULL then; 0 none. */
static __always_inline bool is_size_query(const struct pt_regs *ctx, __u32 number)
{
	return number && !argument(ctx, number - 1);
}

/* The stack pointer at the entry of the function that the site lies in. */
static __always_inline __u64 stack_at_entry(const struct pt_regs *ctx, __u64 cookie)
{
	return REGISTER(ctx, rsp) + field(cookie, SSLL_COOKIE_STACK, 16);
}

/* The same once the function is back: the return address is off the stack by then. */
static __always_inline __u64 stack_before_return(const struct pt_regs *ctx)
{
	return REGISTER(ctx, rsp) - sizeof(__u64);
}

/* What a call is known by while it runs. */
static __always_inline struct ssll_start_key call_key(__u64 cookie, __u64 stack)
{
	struct ssll_start_key key = {
	        .stack = stack,
	        .tgid = this_process(),
	        .operation = field(cookie, SSLL_COOKIE_OPERATION, 8),
	};

	return key;
}

/* By x86-64 register number: a site on the way out may lie before the value is moved to rax. */
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

/* Whether a jcc with this condition, the lowest 4 bits of its opcode, is about to be taken. */
static __always_inline __u32 branch_taken(const struct pt_regs *ctx, __u32 condition)
{
	__u64 flags = REGISTER(ctx, eflags);
	__u64 carry = flags & 1, parity = flags >> 2 & 1, zero = flags >> 6 & 1, sign = flags >> 7 & 1,
	      overflow = flags >> 11 & 1;
	__u64 less = sign ^ overflow;
	/* o, b, e, be, s, p, l, le: the condition's upper 3 bits; its lowest negates. */
	__u64 holds = overflow | carry << 1 | zero << 2 | (carry | zero) << 3 | sign << 4 | parity << 5 | less << 6 |
	              (zero | less) << 7;

	return (holds >> (condition >> 1 & 7) ^ condition) & 1;
}

/* The value returned past an exit site; false where the call isn't left, but goes on in the direction that the branch takes. */
static __always_inline bool leaves(const struct pt_regs *ctx, __u64 cookie, __u64 *value)
{
	__u32 ending = SSLL_EXIT_IN_REGISTER;

	if (cookie >> SSLL_COOKIE_CONDITION) {
		__u32 taken = branch_taken(ctx, cookie >> SSLL_COOKIE_CONDITION & 15);

		ending = cookie >> (taken ? SSLL_COOKIE_TAKEN : SSLL_COOKIE_OTHER) & 15;
	}
	if (ending == SSLL_EXIT_IN_REGISTER)
		*value = returned_value(ctx, cookie >> SSLL_COOKIE_REGISTER & 15);
	else
		*value = (__s64)ending - SSLL_EXIT_CONSTANT;
	return ending != SSLL_EXIT_GOES_ON;
}

#endif
