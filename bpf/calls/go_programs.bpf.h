/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs for Go functions, of an object that watches calls. */
#ifndef CALLS_GO_PROGRAMS_BPF_H
#define CALLS_GO_PROGRAMS_BPF_H

#include "calls/goroutines.bpf.h"
#include "common/programs.bpf.h"

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
