/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions that are watched in windows only where tracing would cost too much: which calls are taken in now. */
#ifndef TIERS_BPF_H
#define TIERS_BPF_H

#include "common/maps.bpf.h"
#include "common/registers.bpf.h"

static __always_inline __u32 tier_of(__u64 cookie)
{
	return field(cookie, SSLL_COOKIE_TIER, 2);
}

/* Whether what is below handshakes is shut, and how often it was taken in again, as far as 32 bits tell: the same as before
 * where nothing has changed meanwhile. */
static __always_inline __u32 watch_below(void)
{
	const __u32 others = (1U << SSLL_SHUT_TIMES) - 1 - (1U << SSLL_TIER_BELOW);

	return *(volatile __u64 *)&counters.shut & ~others;
}

/* Whether calls of this tier aren't taken in now: outside the windows in which it is watched, while probes come and go. */
static __always_inline bool is_shut(__u64 cookie)
{
	return *(volatile __u64 *)&counters.shut >> tier_of(cookie) & 1;
}

#endif
