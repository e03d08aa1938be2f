/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which bucket a duration falls into. Exact: no floating point, boundaries from a table on the mantissa. */
#ifndef HISTOGRAM_BPF_H
#define HISTOGRAM_BPF_H

#include "ssllatency.h"

/*
 * floor(10^9 * 2^((530 + j)/16)): the bounds of the seconds grid between 2^63 and 2^64. A mantissa shifted to bit 63 is above
 * one of them exactly if it is greater than its whole part.
 */
#ifdef SSLL_VALUE
#define mantissas ((const __u64 *)SSLL_VALUE(mantissa))
#else
static const __u64 mantissas[16] = {
        0x81ffa7a9549ca6e3,
        0x87c11235836d16a3,
        0x8dc3b8960164a7d9,
        0x940a7e28259fb382,
        0x9a9867054d512391,
        0xa1709975dfb06757,
        0xa8965f74bf065071,
        0xb00d2843e1060dc2,
        0xb7d88a12d0dd9ea0,
        0xbffc43b7e604a922,
        0xc87c3e7d03cdbec3,
        0xd15c9000bf211c1f,
        0xdaa17c2cd19555db,
        0xe44f7742cb56e3dd,
        0xee6b280000000000,
        0xf8f969d9b5abf948,
};
#endif

/* 1 if a > b, 0 if not; the two lie at most 2^63 apart. No branch: each would double the states that the verifier walks. */
static __always_inline __u64 greater(__u64 a, __u64 b)
{
	__u64 difference = b - a;

	asm volatile("" : "+r"(difference)); /* the compiler would see through it, and branch */
	return difference >> 63;
}

/* Position of the highest bit that is set; BPF has no instruction for it. v isn't 0. */
static __always_inline __u32 highest_bit(__u64 v)
{
	__u32 bit = 0;

#pragma unroll
	for (__u32 half = 5; half > 0; half--) {
		__u64 step = greater(v >> (1 << half), 0) << half;

		bit += step;
		v >>= step;
	}
	return bit + (v >> 1);
}

/* The table's entry. The compiler would reason the mask away, and verifiers before Linux 6.10 then know no bounds of the index.
 */
static __always_inline __u64 boundary(__u64 number)
{
	asm volatile("" : "+r"(number));
	return mantissas[number & 15];
}

/* OpenTelemetry's index at scale 4, in seconds, of v > 0 ns: 10^9 * 2^(i/16) < v <= 10^9 * 2^((i+1)/16). */
static __always_inline __s32 exponential_index(__u64 v)
{
	__u32 bit = highest_bit(v);
	__u64 mantissa = v << (63 - bit);
	__u64 below; /* how many boundaries of this octave lie below v: 0 to 16, found by halves */

	below = greater(mantissa, mantissas[8]) << 3;
	below += greater(mantissa, boundary(below + 4)) << 2;
	below += greater(mantissa, boundary(below + 2)) << 1;
	below += greater(mantissa, boundary(below + 1));
	below += greater(mantissa, boundary(below));
	return (__s32)(16 * bit + below) - 479; /* the first bound above 1 ns is that of 10^9 * 2^(-478/16) */
}

/*
 * Index into linear counts: 0 below the minimum, 1 + n in step n, buckets + 1 at or above the maximum. Only calls of over 4 s
 * pay for a division: the product with the reciprocal, rounded down, is the quotient or one less.
 */
static __always_inline __u32 linear_bucket(__u64 ns, const volatile struct ssll_config *wanted)
{
	__u64 above = ns - wanted->linear_minimum_ns, width = wanted->linear_step_ns, step;

	if (ns < wanted->linear_minimum_ns)
		return 0;
	if (above >> 32) {
		step = above / width;
	} else {
		step = above * wanted->linear_reciprocal >> 32;
		step += above - step * width >= width;
	}
	return step < wanted->linear_buckets ? 1 + step : 1 + wanted->linear_buckets;
}

#endif
