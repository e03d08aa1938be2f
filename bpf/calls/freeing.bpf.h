/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program at the function that frees an SSL, of objects that watch calls one by one. */
#ifndef CALLS_FREEING_BPF_H
#define CALLS_FREEING_BPF_H

#include "calls/calls.bpf.h"
#include "common/programs.bpf.h"

SEC("uprobe")
int at_free(struct pt_regs *ctx)
{
	BEGIN_UPROBE(ctx, no_uprobe_program);
	count_hit(bpf_get_attach_cookie(ctx));
	return on_free(argument(ctx, 0));
}

#endif
