/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which part of a handshake's time a wait counts in. python/ssllatency/stacks/waits.py says the same, and names the waits. */
#ifndef HANDSHAKES_WAITS_BPF_H
#define HANDSHAKES_WAITS_BPF_H

#include "handshake.h"
#include <bpf/bpf_helpers.h>

static __always_inline __u8 part_of_wait(enum ssll_wait wait)
{
	switch (wait) {
	case SSLL_WAIT_PEER:
		return SSLL_PART_WAIT_PEER;
	case SSLL_WAIT_WINDOW:
		return SSLL_PART_WAIT_WINDOW;
	case SSLL_WAIT_OFFLOAD:
		return SSLL_PART_WAIT_OFFLOAD;
	case SSLL_WAIT_APPLICATION:
	case SSLL_WAIT_LOOKUP:
		return SSLL_PART_WAIT_APPLICATION;
	default:
		return SSLL_PART_WAIT_UNKNOWN;
	}
}

#endif
