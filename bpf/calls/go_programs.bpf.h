/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs for Go functions. What each does when a call begins and ends is a hook of the object. */
#ifndef CALLS_GO_PROGRAMS_BPF_H
#define CALLS_GO_PROGRAMS_BPF_H

#include "calls/goroutines.bpf.h"
#include "common/programs.bpf.h"

static __always_inline int on_go_entry(const struct pt_regs *ctx, __u64 cookie);
static __always_inline int on_go_exit(const struct pt_regs *ctx, __u64 cookie);

SEC("uprobe")
int at_go_entry(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return on_go_entry(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_go_exit(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return on_go_exit(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}

SEC("uprobe")
int at_go_leaving(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return on_go_leaving(ctx);
}

#endif
