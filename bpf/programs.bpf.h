/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of an object that watches calls, by what they are attached to. */
#ifndef PROGRAMS_BPF_H
#define PROGRAMS_BPF_H

#include "calls.bpf.h"

extern bool bpf_session_is_return(void) __ksym __weak;

SEC("uprobe")
int at_entry(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return call_begins(ctx, cookie, ctx->rsp + field(cookie, SSLL_COOKIE_STACK, 16));
}

SEC("uprobe")
int at_exit(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return call_ends(ctx, cookie, ctx->rsp + field(cookie, SSLL_COOKIE_STACK, 16));
}

/* The return address is off the stack by now. */
SEC("uretprobe")
int at_return(struct pt_regs *ctx)
{
	return call_ends(ctx, bpf_get_attach_cookie(ctx), ctx->rsp - sizeof(__u64));
}

/* Since Linux 6.13: entry and return of one call, in one link. */
SEC("uprobe")
int at_both(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (bpf_session_is_return())
		return call_ends(ctx, cookie, ctx->rsp - sizeof(__u64));
	return call_begins(ctx, cookie, ctx->rsp);
}

SEC("uprobe")
int at_free(struct pt_regs *ctx)
{
	ssll_forget_side(REGISTER(ctx, rdi), bpf_get_current_pid_tgid() >> 32);
	return 0;
}

#endif
