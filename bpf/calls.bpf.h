/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From probe hits to finished calls: paired, their outcome judged. Included by the objects that watch calls; each defines what
 * is done when a call begins and with one that has ended. Both are inlined, so what isn't used costs nothing.
 */
#ifndef CALLS_BPF_H
#define CALLS_BPF_H

#include "maps.bpf.h"
#include "outcome.bpf.h"
#include "raised.bpf.h"
#include "registers.bpf.h"
#include "side.bpf.h"
#include "starts.bpf.h"

/* A call that has ended. `key` is what it was known by while it ran. */
struct ssll_call {
	struct ssll_start_key key;
	struct ssll_verdict verdict;
	__u64 ended_ns;
	__u64 duration_ns;
	__u64 returned;
	__u32 convention;
};

/* Defined by the object, where it includes this: a call that counts has begun, its arguments in their registers; has ended. */
static __always_inline void call_began(const struct pt_regs *ctx, const struct ssll_start_key *key);
static __always_inline int call_ended(const struct ssll_call *call);

static __always_inline int call_begins(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	struct ssll_start_key key = call_key(cookie, stack);

	if (!traced_in(key.tgid, field(cookie, SSLL_COOKIE_LIBRARY, 8)) ||
	        is_size_query(ctx, field(cookie, SSLL_COOKIE_SKIP_NULL, 3)))
		return 0;
	call_began(ctx, &key);
	ssll_begin(&key, field(cookie, SSLL_COOKIE_SSL, 1) ? argument(ctx, 0) : 0);
	return 0;
}

/* A call's end has no beginning. While probes are attached one after the other that is no loss: the trace begins with the last.
 */
static __always_inline void count_unmatched_exit(__u64 cookie)
{
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ssll_library *library = bpf_map_lookup_elem(&libraries, &index);

	if (!field(cookie, SSLL_COOKIE_SHARED, 1) && library && *(volatile __s32 *)&library->attached)
		count(&account.unmatched_exits);
}

static __always_inline int call_ends(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ssll_call call = {
	        .key = call_key(cookie, stack),
	        .verdict = {SSLL_SUCCESS, SSLL_REASON_NONE},
	        .ended_ns = bpf_ktime_get_ns(),
	        .convention = field(cookie, SSLL_COOKIE_CONVENTION, 4),
	};
	bool settles = call.convention == SSLL_SSL_HANDSHAKE;
	struct ssll_library *library;
	struct ssll_start start;

	if (!leaves(ctx, cookie, &call.returned) || !traced_in(call.key.tgid, index))
		return 0;
	if (!ssll_end(&call.key, &start)) {
		count_unmatched_exit(cookie);
		return 0;
	}
	library = bpf_map_lookup_elem(&libraries, &index);
	if (!library)
		return 0;
	if (field(cookie, SSLL_COOKIE_SSL, 1) && !ssll_in_role(start.ssl, call.key.tgid, settles, library))
		return 0;
	if (!ssll_succeeded(call.convention, call.returned)) {
		call.verdict.outcome = SSLL_FAILURE;
		if (field(cookie, SSLL_COOKIE_SSL, 1))
			call.verdict = ssll_judge_ssl(start.ssl, (__s32)call.returned, library);
		if (call.verdict.reason == SSLL_REASON_SYSCALL && has_raised(start.began_ns))
			call.verdict.reason = SSLL_REASON_SSL;
	}
	call.duration_ns = call.ended_ns - start.began_ns;
	return call_ended(&call);
}

static __always_inline int call_frees(__u64 ssl)
{
	ssll_forget_side(ssl, this_process());
	return 0;
}

#endif
