/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* made_up.c: its calls return why they failed, and its connections needn't be read for it. */
#ifdef SSLL_STACK
SSLL_STACK(MADE_UP, made_up, 1, false)
#elif !defined(STACKS_MADE_UP_BPF_H)
#define STACKS_MADE_UP_BPF_H

#include "stacks/connection.bpf.h"

enum {
	MADE_UP_CLOSED = 0,
	MADE_UP_AGAIN = -28,
	MADE_UP_ASK = -29,
};

static __always_inline struct verdict judge_made_up(
        __u64 ssl, __s32 returned, const __u32 *code, const struct ssll_library *library)
{
	(void)ssl;
	(void)code;
	(void)library;
	switch (returned) {
	case MADE_UP_CLOSED:
		return closed(SSLL_REASON_ZERO_RETURN);
	case MADE_UP_AGAIN:
		return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	case MADE_UP_ASK:
		return retry(SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_CLIENT_HELLO_CB);
	}
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

#endif
