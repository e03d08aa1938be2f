// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Latency of the calls into OpenSSL and its crypto, by function, outcome and process, as histograms in kernel maps.
 *
 * Measures from an entry site to the exit site (or return) of the same call. The two are paired by process, stack pointer at
 * entry and operation, never by thread: a call that OpenSSL's ASYNC jobs park on a stack of their own ends on that stack.
 * Sites, and what a return value means, come in each probe's cookie. Nothing of the target is read but return values, the SSL's
 * state words and the BIO's flags. Cost: a slot of a table taken
 * at entry and given back at exit, one hash look-up and one update of a row at exit.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "ssllatency.h"
#include "maps.bpf.h"
#include "outcome.bpf.h"
#include "record.bpf.h"
#include "registers.bpf.h"
#include "side.bpf.h"
#include "starts.bpf.h"

extern bool bpf_session_is_return(void) __ksym __weak;

static __always_inline __u32 field(__u64 cookie, __u32 shift, __u32 bits)
{
	return (cookie >> shift) & ((1U << bits) - 1);
}

static __always_inline bool traced(__u32 tgid)
{
	return !config.filter_tgid || bpf_map_lookup_elem(&targets, &tgid);
}

static __always_inline int call_begins(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u32 skip_null = field(cookie, SSLL_COOKIE_SKIP_NULL, 3);
	struct ssll_start_key key = {
	        .stack = stack,
	        .tgid = bpf_get_current_pid_tgid() >> 32,
	        .operation = field(cookie, SSLL_COOKIE_OPERATION, 8),
	};

	if (!traced(key.tgid) || (skip_null && !argument(ctx, skip_null - 1)))
		return 0;
	ssll_begin(&key, field(cookie, SSLL_COOKIE_SSL, 1) ? REGISTER(ctx, rdi) : 0);
	return 0;
}

static __always_inline int call_ends(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 convention = field(cookie, SSLL_COOKIE_CONVENTION, 4), index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	__u64 value;
	struct ssll_start_key key = {
	        .stack = stack,
	        .tgid = bpf_get_current_pid_tgid() >> 32,
	        .operation = field(cookie, SSLL_COOKIE_OPERATION, 8),
	};
	struct ssll_verdict verdict = {SSLL_SUCCESS, SSLL_REASON_NONE};
	struct ssll_library *library;
	struct ssll_start start;

	if (!leaves(ctx, cookie, &value) || !traced(key.tgid))
		return 0;
	if (!ssll_end(&key, &start)) {
		if (!field(cookie, SSLL_COOKIE_SHARED, 1))
			count(&account.unmatched_exits);
		return 0;
	}
	library = bpf_map_lookup_elem(&libraries, &index);
	if (!library)
		return 0;
	if (field(cookie, SSLL_COOKIE_SSL, 1) && !ssll_in_role(start.ssl, key.tgid, convention == SSLL_SSL_HANDSHAKE, library))
		return 0;
	if (!ssll_succeeded(convention, value)) {
		verdict.outcome = SSLL_FAILURE;
		if (field(cookie, SSLL_COOKIE_SSL, 1))
			verdict = ssll_judge_ssl(start.ssl, (__s32)value, library);
	}
	return record(key.operation, verdict.outcome, verdict.reason, now - start.began_ns);
}

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

/* What a hit costs before anything is done: the floor that the benchmark compares with. One for a session, too. */
SEC("uprobe")
int at_nothing(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}

SEC("uprobe")
int at_nothing_twice(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}

/* Keeps the enums in the object's BTF, from which user space's side of the ABI is generated. */
const enum ssll_geometry *ssll_geometry_btf __attribute__((unused));
const enum ssll_convention *ssll_convention_btf __attribute__((unused));
const enum ssll_outcome *ssll_outcome_btf __attribute__((unused));
const enum ssll_reason *ssll_reason_btf __attribute__((unused));
const enum ssll_role *ssll_role_btf __attribute__((unused));
const enum ssll_cookie *ssll_cookie_btf __attribute__((unused));
const enum ssll_ending *ssll_ending_btf __attribute__((unused));
const enum ssll_sides *ssll_sides_btf __attribute__((unused));
const enum ssll_table *ssll_table_btf __attribute__((unused));
const enum ssll_tag *ssll_tag_btf __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
