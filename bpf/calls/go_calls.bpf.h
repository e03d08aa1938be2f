/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From probe hits in Go functions to finished calls, of an object that watches calls. */
#ifndef CALLS_GO_CALLS_BPF_H
#define CALLS_GO_CALLS_BPF_H

#include "calls/calls.bpf.h"
#include "calls/go_programs.bpf.h"

static __always_inline void on_frame_gone(const struct ssll_frame *frame)
{
	(void)frame;
}

static __always_inline int on_go_entry(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ssll_start_key call = call_key(cookie, 0);

	if (is_shut(cookie) || !begins_go_call(ctx, cookie) || !is_traced_in(key.tgid, field(cookie, SSLL_COOKIE_LIBRARY, 8)))
		return 0;
	if (push_frame(ctx, cookie, &key, &call))
		on_call_begin(ctx, &call);
	return 0;
}

static __always_inline int on_go_exit(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ended_call call = {
	        .key = call_key(cookie, 0),
	        .verdict = success(),
	        .ended_ns = bpf_ktime_get_ns(),
	        .convention = field(cookie, SSLL_COOKIE_CONVENTION, 4),
	        .library = index,
	};
	struct ssll_library *library;
	struct ssll_frame frame;
	bool failed;

	if (!is_traced_in(key.tgid, index))
		return 0;
	call.key.stack = stack_depth(ctx, &key);
	if (!take_frame(&key, &call.key, &frame)) {
		count_unmatched_exit(cookie);
		return 0;
	}
	library = bpf_map_lookup_elem(&libraries, &index);
	if (!library || !is_go_on_wanted_side(frame.connection, library))
		return 0;
	failed = go_result(ctx, go_error_word(call.convention));
	if (failed)
		call.verdict = judge_go(ctx, call.convention, library);
	call.returned = call.convention == SSLL_SSL_IO ? go_result(ctx, 0) : failed; /* an address is nobody's business */
	call.duration_ns = call.ended_ns - frame.began_ns;
	call.ssl = frame.connection;
	return on_call_end(&call);
}

#endif
