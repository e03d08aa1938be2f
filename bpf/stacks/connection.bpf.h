/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a call on a connection may end, and what is read of the connection's SSL by the layout of its library. */
#ifndef STACKS_CONNECTION_BPF_H
#define STACKS_CONNECTION_BPF_H

#include "ssllatency.h"
#include <bpf/bpf_helpers.h>

#include "common/tasks.bpf.h"

/* How a call ended. `reason` is the stack's own name for it. One word, so that each way to one takes one instruction. */
struct verdict {
	__u32 outcome : 4; /* enum ssll_outcome */
	__u32 wait : 4;    /* enum ssll_wait */
	__u32 end : 4;     /* enum ssll_end */
	__u32 reason : 20; /* enum ssll_reason */
};

static __always_inline struct verdict verdict_of(
        enum ssll_outcome outcome, enum ssll_wait wait, enum ssll_end end, enum ssll_reason reason)
{
	struct verdict verdict = {outcome, wait, end, reason};

	return verdict;
}

static __always_inline struct verdict success(void)
{
	return verdict_of(SSLL_SUCCESS, SSLL_WAIT_NONE, SSLL_END_NONE, SSLL_REASON_NONE);
}

/* Of a call that has returned and hasn't failed: a success, or unknown where nothing that it returned tells. Without a branch:
 * Linux 6.1 would walk all that follows twice. */
static __always_inline struct verdict returned(enum ssll_convention convention)
{
	__u64 told = (__u64)convention ^ SSLL_NONE;
	struct verdict verdict = success();

	asm volatile("" : "+r"(told)); /* or clang makes a branch of it again */
	verdict.outcome = ((told - 1) >> 63) * SSLL_UNKNOWN;
	return verdict;
}

static __always_inline struct verdict retry(enum ssll_wait wait, enum ssll_reason reason)
{
	return verdict_of(SSLL_RETRY, wait, SSLL_END_NONE, reason);
}

static __always_inline struct verdict failure(enum ssll_end end, enum ssll_reason reason)
{
	return verdict_of(SSLL_FAILURE, SSLL_WAIT_NONE, end, reason);
}

static __always_inline struct verdict closed(enum ssll_reason reason)
{
	return verdict_of(SSLL_CLOSED, SSLL_WAIT_NONE, SSLL_END_CLOSED, reason);
}

/* An int at `offset` of the object at `base`; false where the offset isn't known or the page isn't there. */
static __always_inline bool read_int(__u64 base, __s32 offset, __u32 *value)
{
	return offset >= 0 && bpf_probe_read_user(value, sizeof(*value), (void *)(base + offset)) == 0;
}

/* What the SSL waits for, in the codes of its library. s2n-tls keeps it in the thread that has just called it. */
static __always_inline bool read_rwstate(__u64 ssl, const struct ssll_library *library, __u32 *rwstate)
{
	__u64 holder = ssl;

	if (library->stack == SSLL_STACK_S2N)
		return library->rwstate > 0 && read_int(thread_local_at(library->rwstate), 0, rwstate);
	if (library->holder >= 0 && (bpf_probe_read_user(&holder, sizeof(holder), (void *)(ssl + library->holder)) || !holder))
		return false;
	return read_int(holder, library->rwstate, rwstate);
}

/* What says which side the SSL is on: it itself, or its configuration; 0 where that can't be read. */
static __always_inline __u64 side_holder(__u64 ssl, const struct ssll_library *library)
{
	__u64 configuration = ssl + library->fields[SSLL_MBEDTLS_FIELD_CONFIGURATION];

	if (library->stack != SSLL_STACK_MBEDTLS)
		return ssl;
	return bpf_probe_read_user(&configuration, sizeof(configuration), (void *)configuration) ? 0 : configuration;
}

/* Whether the SSL is a server's; false where that can't be read. */
static __always_inline bool read_server(__u64 ssl, const struct ssll_library *library, bool *server)
{
	__u64 holder = side_holder(ssl, library);
	__u32 word = 0;

	if (!holder || !read_int(holder, library->server, &word))
		return false;
	*server = library->server_bits ? word & library->server_bits : word;
	if (library->stack == SSLL_STACK_S2N || library->stack == SSLL_STACK_WOLFSSL) /* what they keep is 0 of a server */
		*server = !*server;
	return true;
}

/* What a BIO waits for: its flags, and the reason that lies behind them. */
struct bio_wait {
	__u32 flags, reason;
};

/* That of the BIO that the SSL at `ssl` holds at `offset`. */
static __always_inline bool read_bio_wait(__u64 ssl, __s32 offset, const struct ssll_library *library, struct bio_wait *wait)
{
	__u64 bio = 0;

	if (offset < 0 || bpf_probe_read_user(&bio, sizeof(bio), (void *)(ssl + offset)) || !bio)
		return false;
	return library->bio_flags >= 0 && bpf_probe_read_user(wait, sizeof(*wait), (void *)(bio + library->bio_flags)) == 0;
}

#endif
