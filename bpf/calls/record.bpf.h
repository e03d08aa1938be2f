/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Adding one call to its series: the row by process, operation and outcome, created on the first call. */
#ifndef RECORD_BPF_H
#define RECORD_BPF_H

#include "calls/calls.bpf.h"
#include "common/tasks.bpf.h"
#include "common/times.bpf.h"

struct {
	SSLL_MAP(series);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, struct ssll_series_key);
	__type(value, struct ssll_series);
} series SEC(".maps");

/* The rows of "other", made by user space, which looks at them once something counts there: they are many, and nearly always
 * empty. */
struct {
	SSLL_MAP(other_series);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_series_key);
	__type(value, struct ssll_series);
} other_series SEC(".maps");

struct {
	SSLL_MAP(blank);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ssll_series);
} blank SEC(".maps");

struct {
	SSLL_MAP(processes);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct ssll_process);
} processes SEC(".maps");

/* Processes that found no room and count under "other": a set, so that their number is known. */
struct {
	SSLL_MAP(folded);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} folded SEC(".maps");

static __always_inline void add_call(struct ssll_series *row, __u64 duration_ns, __u32 reason)
{
	__u32 linear = linear_bucket(duration_ns, &config);

	add_time(&row->times, duration_ns);
	if (linear < SSLL_LINEAR_BUCKETS + 2)
		count(&row->linear[linear]);
	if (reason < SSLL_REASON_NONE)
		count(&row->reasons[reason]);
}

/* Whether the process has, or now gets, a row of its own; its name is kept for when it is gone. */
static __noinline bool add_process(__u32 tgid)
{
	struct ssll_process process = {};

	if (bpf_map_lookup_elem(&processes, &tgid))
		return true;
	read_process_name(&process);
	return !bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY);
}

/* The row of `key`, or past the maximum of processes or rows the one of "other". */
static __always_inline struct ssll_series *find_series(struct ssll_series_key *key)
{
	struct ssll_series *row = bpf_map_lookup_elem(&series, key);
	const __u32 zero = 0;
	const __u8 one = 1;

	if (!row && add_process(key->tgid))
		row = lookup_or_init(&series, key, bpf_map_lookup_elem(&blank, &zero));
	if (row)
		return row;
	bpf_map_update_elem(&folded, &key->tgid, &one, BPF_ANY);
	key->tgid = 0;
	count(&counters.in_other);
	return bpf_map_lookup_elem(&other_series, key);
}

__noinline int record_call(__u64 operation, __u64 outcome, __u64 reason, __u64 duration_ns)
{
	struct ssll_series_key key = {
	        .tgid = this_process(),
	        .operation = operation,
	        .outcome = outcome,
	};
	struct ssll_series *row = find_series(&key);

	if (row)
		add_call(row, duration_ns, reason);
	else
		count(&counters.map_full);
	return 0;
}

static __always_inline void on_call_begin(const struct pt_regs *ctx, const struct ssll_start_key *key)
{
	(void)ctx;
	(void)key;
}

static __always_inline int on_call_end(const struct ended_call *call)
{
	return record_call(call->key.operation, call->verdict.outcome, call->verdict.reason, call->duration_ns);
}

#endif
