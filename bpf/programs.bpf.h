/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of an object that watches calls, by what they are attached to. The object says beforehand what is done then. */
#ifndef PROGRAMS_BPF_H
#define PROGRAMS_BPF_H

#include "registers.bpf.h"

/* Defined by the object, where it includes this. `stack` is the stack pointer at the function's entry. */
static __always_inline int call_begins(const struct pt_regs *ctx, __u64 cookie, __u64 stack);
static __always_inline int call_ends(const struct pt_regs *ctx, __u64 cookie, __u64 stack);
static __always_inline int call_frees(__u64 ssl);

extern bool bpf_session_is_return(void) __ksym __weak;

SEC("uprobe")
int at_entry(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return call_begins(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uprobe")
int at_exit(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return call_ends(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uretprobe")
int at_return(struct pt_regs *ctx)
{
	return call_ends(ctx, bpf_get_attach_cookie(ctx), stack_before_return(ctx));
}

/* Since Linux 6.13: entry and return of one call, in one link. */
SEC("uprobe")
int at_both(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (bpf_session_is_return())
		return call_ends(ctx, cookie, stack_before_return(ctx));
	return call_begins(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uprobe")
int at_free(struct pt_regs *ctx)
{
	return call_frees(argument(ctx, 0));
}

#endif
