// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bpf/ssllatency.bpf.c as bcc compiles it: the same calls, recorded the same way. bcc takes as programs only the functions of
 * the main file. There is no program for sessions.
 */
#include <bpf/bpf_helpers.h>

#include "calls/record.bpf.h"
#include "common/hits.bpf.h"
#include "common/stack.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_uprobe_program);

int at_entry(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	__u64 cookie = count_hit(bpf_get_attach_cookie(ctx));

	return on_entry(ctx, cookie, stack_at_entry(ctx, cookie));
}

int at_exit(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	__u64 cookie = count_hit(bpf_get_attach_cookie(ctx));

	return on_exit(ctx, cookie, stack_at_entry(ctx, cookie));
}

int at_return(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit_of(SSLL_HIT_RETURN);
	return on_exit(ctx, bpf_get_attach_cookie(ctx), stack_before_return(ctx));
}

int at_free(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return on_free(argument(ctx, 0));
}

int at_error(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	return on_error(ctx, count_hit(bpf_get_attach_cookie(ctx)));
}
