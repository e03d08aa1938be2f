/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of an object that watches calls, by what they are attached to. What each does is a hook of the object. */
#ifndef PROGRAMS_BPF_H
#define PROGRAMS_BPF_H

#include "common/hits.bpf.h"
#include "common/maps.bpf.h"
#include "common/registers.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_uprobe_program);
DEFINE_EMPTY_PROG_ARRAY(no_session_program);

/* User space refuses an object whose registers are another machine's: the kernel would load it. libbpf skips the section. */
asm(".pushsection .ssllatency.machine,\"\",@progbits\n.asciz \"registers of " MACHINE "\"\n.popsection");

/* Hooks, defined by the object. `stack` is the stack pointer at the function's entry. */
static __always_inline int on_entry(const struct pt_regs *ctx, __u64 cookie, __u64 stack);
static __always_inline int on_exit(const struct pt_regs *ctx, __u64 cookie, __u64 stack);
static __always_inline int on_error(const struct pt_regs *ctx, __u64 cookie);

SEC("uprobe")
int at_entry(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	__u64 cookie = count_hit(bpf_get_attach_cookie(ctx));

	return on_entry(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uprobe")
int at_exit(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	__u64 cookie = count_hit(bpf_get_attach_cookie(ctx));

	return on_exit(ctx, cookie, stack_at_entry(ctx, cookie));
}

SEC("uretprobe")
int at_return(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit_of(SSLL_HIT_RETURN);
	return on_exit(ctx, bpf_get_attach_cookie(ctx), stack_before_return(ctx));
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

	if (REGISTER(ctx, INSTRUCTION_POINTER) != bpf_get_func_ip(ctx)) {
		count_hit_of(SSLL_HIT_RETURN);
		return on_exit(ctx, cookie, stack_before_return(ctx));
	}
	return on_entry(ctx, count_hit(cookie), stack_at_entry(ctx, cookie));
}

SEC("uprobe")
int at_error(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return on_error(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

#endif
