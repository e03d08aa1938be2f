/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arguments and return values out of the registers of x86-64, and what a site's cookie says of them. */
#ifndef REGISTERS_BPF_H
#define REGISTERS_BPF_H

#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>

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

#endif
