/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arguments and return values out of the registers, and what a site's cookie says of them. */
#ifndef REGISTERS_BPF_H
#define REGISTERS_BPF_H

#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "ssllatency.h"
#include "common/targets.bpf.h"

/* A load from the context at a constant offset, which the verifier asks for; the compiler would merge several into one. */
#define REGISTER(ctx, name)                                                                                                    \
	({                                                                                                                     \
		__u64 value_;                                                                                                  \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                                                          \
		             : "=r"(value_)                                                                                    \
		             : "r"(ctx), "i"(__builtin_offsetof(struct machine_registers, name)));                             \
		value_;                                                                                                        \
	})

#if defined(__TARGET_ARCH_x86)
#include "common/x86_64.bpf.h"
#elif defined(__TARGET_ARCH_arm64)
#include "common/aarch64.bpf.h"
#else
#error "say -D__TARGET_ARCH_x86 or -D__TARGET_ARCH_arm64"
#endif

/* A field of a probe site's cookie. */
static __always_inline __u32 field(__u64 cookie, __u32 shift, __u32 bits)
{
	return (cookie >> shift) & ((1U << bits) - 1);
}

/* Whether a call may cross the entry site with this cookie again before it ends: no register is named there. */
static __always_inline bool may_cross_again(__u64 cookie)
{
	return field(cookie, SSLL_COOKIE_REGISTER, 1);
}

/* Whether the call only asks for a size. `number`: 1 + index of the argument that is NULL then; 0 none. */
static __always_inline bool is_size_query(const struct pt_regs *ctx, __u32 number)
{
	return number && !argument(ctx, number - 1);
}

/* The stack pointer at the entry of the function that the site lies in. */
static __always_inline __u64 stack_at_entry(const struct pt_regs *ctx, __u64 cookie)
{
	return REGISTER(ctx, STACK_POINTER) + field(cookie, SSLL_COOKIE_STACK, 16);
}

/* The same once the function is back. */
static __always_inline __u64 stack_before_return(const struct pt_regs *ctx)
{
	return REGISTER(ctx, STACK_POINTER) - RETURN_ADDRESS_SIZE;
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

/* The value returned past an exit site; false where the call isn't left, but goes on in the direction that the branch takes. */
static __always_inline bool leaves_call(const struct pt_regs *ctx, __u64 cookie, __u64 *value)
{
	__u32 ending = SSLL_EXIT_IN_REGISTER;

	if (field(cookie, SSLL_COOKIE_CONDITION, 12)) {
		__u32 taken = branch_taken(ctx, cookie >> SSLL_COOKIE_CONDITION & 15);

		ending = cookie >> (taken ? SSLL_COOKIE_TAKEN : SSLL_COOKIE_OTHER) & 15;
	}
	if (ending == SSLL_EXIT_IN_REGISTER)
		*value = returned_value(ctx, cookie >> SSLL_COOKIE_REGISTER & 31);
	else
		*value = (__s64)ending - SSLL_EXIT_CONSTANT;
	return ending != SSLL_EXIT_GOES_ON;
}

#endif
