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
	struct go_returned returned;
	struct ssll_frame frame;
	bool failed;

	if (!leaves_go_call(ctx, cookie) || !is_traced_in(key.tgid, index))
		return 0;
	call.key.stack = depth_at_entry(ctx, cookie, &key);
	if (!take_frame(&key, &call.key, &frame)) {
		if (!is_deferred(cookie)) /* which the runtime calls where a panic leaves the call */
			count_unmatched_exit(cookie);
		return 0;
	}
	library = bpf_map_lookup_elem(&libraries, &index);
	if (!library || !is_go_on_wanted_side(frame.connection, library))
		return 0;
	if (!read_go_results(ctx, cookie, &returned)) {
		count(&counters.unmatched_entries);
		return 0;
	}
	failed = returned.error.itab;
	if (failed)
		call.verdict = judge_go(&returned.error, call.convention, library);
	call.returned = call.convention == SSLL_SSL_IO ? returned.count : failed; /* an address is nobody's business */
	call.duration_ns = call.ended_ns - frame.began_ns;
	call.ssl = frame.connection;
	return on_call_end(&call);
}

#endif
