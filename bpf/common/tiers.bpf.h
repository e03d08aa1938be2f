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

/* Whether calls of this tier aren't taken in now: outside the windows in which it is watched, while probes come and go. */
static __always_inline bool is_shut(__u64 cookie)
{
	return *(volatile __u64 *)&counters.shut >> tier_of(cookie) & 1;
}

#endif
