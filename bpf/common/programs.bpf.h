/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of an object that watches calls, by what they are attached to. The object says beforehand what is done then. */
#ifndef PROGRAMS_BPF_H
#define PROGRAMS_BPF_H

#include "common/maps.bpf.h"
#include "common/registers.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_uprobe_program);
DEFINE_EMPTY_PROG_ARRAY(no_session_program);

/* User space refuses an object whose registers are another machine's: the kernel would load it. libbpf skips the section. */
asm(".pushsection .ssllatency.machine,\"\",@progbits\n.asciz \"registers of " MACHINE "\"\n.popsection");

/* Defined by the object, where it includes this. `stack` is the stack pointer at the function's entry. */
static __always_inline int call_begins(const struct pt_regs *ctx, __u64 cookie, __u64 stack);
static __always_inline int call_ends(const struct pt_regs *ctx, __u64 cookie, __u64 stack);
static __always_inline int call_frees(__u64 ssl);
static __always_inline int error_is_raised(const struct pt_regs *ctx, __u64 cookie);

SEC("uprobe")
int at_entry(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return call_begins(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uprobe")
int at_exit(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return call_ends(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uretprobe")
int at_return(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return call_ends(ctx, bpf_get_attach_cookie(ctx), stack_before_return(ctx));
}

/*
 * Since Linux 6.13: entry and return of one call, in one link. Which of them a hit is could be asked by
 * bpf_session_is_return(), whose prototype has changed in Linux 7.0, and libbpf loads no object that has the other one. On the
 * way in, the thread is at the function that the link is attached to; once it is back, it is at its caller.
 */
SEC("uprobe")
int at_both(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_session_program);
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (REGISTER(ctx, INSTRUCTION_POINTER) != bpf_get_func_ip(ctx))
		return call_ends(ctx, cookie, stack_before_return(ctx));
	return call_begins(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uprobe")
int at_free(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return call_frees(argument(ctx, 0));
}

SEC("uprobe")
int at_error(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return error_is_raised(ctx, bpf_get_attach_cookie(ctx));
}

#endif
