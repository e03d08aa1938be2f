/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Adding a duration to those counted before it, in a histogram with its extremes.
 *
 * The functions here that aren't static are verified once each, whatever calls them; inlined, their loops and halvings would
 * multiply into more states than the verifier takes.
 */
#ifndef TIMES_BPF_H
#define TIMES_BPF_H

#include "common/histogram.bpf.h"
#include "common/maps.bpf.h"

/* Sets *word to the greater of it and `value`. Each failed exchange means that another thread has raised it. */
__noinline int raise_to(__u64 *word, __u64 value)
{
	__u64 seen;

	if (!word)
		return 0;
	seen = *(volatile __u64 *)word;
	for (int i = 0; i < 64 && seen < value; i++) {
		__u64 was = __sync_val_compare_and_swap(word, seen, value);

		if (was == seen)
			break;
		seen = was;
	}
	return 0;
}

/* The same; an extreme is rarely a new one, and to ask takes less than a call. */
static __always_inline void raise_if_less(__u64 *word, __u64 value)
{
	if (*(volatile __u64 *)word < value)
		raise_to(word, value);
}

static __always_inline __s32 bucket_of(__u64 duration_ns)
{
	return duration_ns ? exponential_index(duration_ns) - SSLL_FIRST_BUCKET : -1;
}

/* The line first: whoever reads it before the buckets can tell by the total the next time whether those were complete. */
static __always_inline void count_bucket(struct ssll_times *times, __u64 bucket)
{
	__u64 line = 1ULL << (bucket / SSLL_LINE);

	if (!(times->lines & line))
		__sync_fetch_and_or(&times->lines, line);
	count(&times->exponential[bucket]);
}

static __always_inline void raise_extremes(__u64 maximum[2], __u64 minimum[2], __u64 interval, __u64 duration_ns)
{
	const __u64 mask = (1ULL << SSLL_EXTREME_BITS) - 1;
	__u64 extreme = duration_ns < mask ? duration_ns : mask, stamp = interval << SSLL_EXTREME_BITS;

	raise_if_less(&maximum[interval & 1], stamp | extreme);
	raise_if_less(&minimum[interval & 1], stamp | (mask - extreme));
}

__noinline int add_time(struct ssll_times *times, __u64 duration_ns)
{
	__s64 bucket; /* 64 bits, for the check and the index to share a register */

	if (!times)
		return 0;
	bucket = bucket_of(duration_ns);
	asm volatile("" : "+r"(bucket)); /* else the compiler checks another register than the one that it indexes with */
	raise_extremes(times->maximum, times->minimum, *(volatile __u64 *)&counters.interval, duration_ns);
	if (bucket < 0)
		count(&times->underflow);
	else if (bucket < SSLL_BUCKETS)
		count_bucket(times, bucket);
	else
		count(&times->overflow);
	/* Last: whoever reads it before the buckets can tell by it the next time whether those were complete. */
	__sync_fetch_and_add(&times->total_ns, duration_ns);
	return 0;
}

#endif
