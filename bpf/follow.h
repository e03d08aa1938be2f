/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The records by which the kernel side tells of processes that come later. */
#ifndef FOLLOW_H
#define FOLLOW_H

#include "ssllatency.h"

/* A process became a target: by its new name or its cgroup, or as the child of one. Or many hits were counted. */
struct ssll_notice {
	__u64 at_ns;  /* CLOCK_MONOTONIC */
	__u32 tgid;   /* 0: of hits */
	__u32 parent; /* 0: by its name or cgroup */
};

enum ssll_follow_limits {
	SSLL_NAMES = 8, /* the most that processes can be asked for by */
};

/* Which processes become targets by themselves; set once, before loading. */
struct ssll_follow_config {
	char comms[SSLL_NAMES][SSLL_COMM] __attribute__((aligned(8))); /* those of these names, first ones first; "" none */
	__u32 cgroup;                                                  /* 1: those in the cgroup of the map */
	__u32 pad;
};

struct ssll_follow_counters {
	__u64 dropped; /* notices that found no room */
	__u64 joined;  /* processes that became targets by themselves, children included */
};

/* What is told, as user space may change it at any time. */
struct ssll_follow_wishes {
	__u32 children; /* 1: a notice for each new child of a target */
	__u32 pad;
};

_Static_assert(sizeof(struct ssll_notice) == 16, "notice");
_Static_assert(sizeof(struct ssll_follow_config) == 8 + SSLL_NAMES * SSLL_COMM, "follow config");
_Static_assert(sizeof(struct ssll_follow_counters) == 16, "follow counters");
_Static_assert(sizeof(struct ssll_follow_wishes) == 8, "follow wishes");

#endif
