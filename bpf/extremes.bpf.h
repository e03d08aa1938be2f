/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The least and greatest durations of an interval. An extreme's word is the number of the interval above SSLL_EXTREME_BITS,
 * then the value (the minimum: all ones minus it), so that each is a maximum and a new interval starts it anew.
 *
 * The functions here that aren't static are verified once each, whatever calls them; inlined, their loops and halvings would
 * multiply into more states than the verifier takes.
 */
#ifndef EXTREMES_BPF_H
#define EXTREMES_BPF_H

#include "histogram.bpf.h"
#include <bpf/bpf_helpers.h>

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

__noinline int bucket_of(__u64 duration_ns)
{
	return duration_ns ? ssll_bucket(duration_ns) - SSLL_FIRST_BUCKET : -1;
}

static __always_inline void raise_extremes(__u64 maximum[2], __u64 minimum[2], __u64 interval, __u64 duration_ns)
{
	const __u64 mask = (1ULL << SSLL_EXTREME_BITS) - 1;
	__u64 extreme = duration_ns < mask ? duration_ns : mask, stamp = interval << SSLL_EXTREME_BITS;

	raise_to(&maximum[interval & 1], stamp | extreme);
	raise_to(&minimum[interval & 1], stamp | (mask - extreme));
}

#endif
