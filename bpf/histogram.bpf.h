/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which bucket a duration falls into. Exact: no floating point, boundaries from a table on the mantissa. */
#ifndef HISTOGRAM_BPF_H
#define HISTOGRAM_BPF_H

#include "ssllatency.h"

/* floor(2^(63 + j/16)): a mantissa shifted to bit 63 is above 2^(j/16) exactly if it is greater than entry j. */
static const __u64 ssll_mantissa[16] = {
        0x8000000000000000,
        0x85aac367cc487b14,
        0x8b95c1e3ea8bd6e6,
        0x91c3d373ab11c336,
        0x9837f0518db8a96f,
        0x9ef5326091a111ad,
        0xa5fed6a9b15138ea,
        0xad583eea42a14ac6,
        0xb504f333f9de6484,
        0xbd08a39f580c36be,
        0xc5672a115506dadd,
        0xce248c151f8480e3,
        0xd744fccad69d6af4,
        0xe0ccdeec2a94e111,
        0xeac0c6e7dd24392e,
        0xf5257d152486cc2c,
};

/* Position of the highest bit that is set; BPF has no instruction for it. v isn't 0. */
static __always_inline __u32 ssll_highest_bit(__u64 v)
{
	__u32 bit = 0;

	if (v >> 32) {
		bit += 32;
		v >>= 32;
	}
	if (v >> 16) {
		bit += 16;
		v >>= 16;
	}
	if (v >> 8) {
		bit += 8;
		v >>= 8;
	}
	if (v >> 4) {
		bit += 4;
		v >>= 4;
	}
	if (v >> 2) {
		bit += 2;
		v >>= 2;
	}
	return bit + (v >> 1);
}

/* OpenTelemetry's index at scale 4 of v > 0: 2^(i/16) < v <= 2^((i+1)/16). */
static __always_inline __s32 ssll_bucket(__u64 v)
{
	__u32 bit = ssll_highest_bit(v);
	__u64 mantissa = v << (63 - bit);
	__u32 below = 0; /* how many boundaries of this octave lie below v: 0 to 16, found by halves */

	if (mantissa > ssll_mantissa[8])
		below = 8;
	if (mantissa > ssll_mantissa[(below + 4) & 15])
		below += 4;
	if (mantissa > ssll_mantissa[(below + 2) & 15])
		below += 2;
	if (mantissa > ssll_mantissa[(below + 1) & 15])
		below += 1;
	if (mantissa > ssll_mantissa[below & 15])
		below += 1;
	return (__s32)(16 * bit + below) - 1;
}

/* Index into linear counts: 0 below the minimum, 1 + n in step n, buckets + 1 at or above the maximum. */
static __always_inline __u32 ssll_linear_bucket(__u64 ns, const volatile struct ssll_config *config)
{
	__u64 step;

	if (ns < config->linear_minimum_ns)
		return 0;
	step = (ns - config->linear_minimum_ns) / config->linear_step_ns;
	return step < config->linear_buckets ? 1 + step : 1 + config->linear_buckets;
}

#endif
