/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* s2n-tls: a call that doesn't succeed says why in s2n_errno, a thread-local variable. */
#ifdef SSLL_STACK
SSLL_STACK(S2N, s2n, SSLL_ERROR_LIBRARY_S2N, true)
#elif !defined(STACKS_S2N_BPF_H)
#define STACKS_S2N_BPF_H

#include "stacks/connection.bpf.h"

/* s2n.h and error/s2n_errno.h: an error's upper six bits are its type, the others its number among those of that type. */
enum {
	S2N_ERRORS = 26,
	S2N_TYPE_IO = 1,
	S2N_TYPE_CLOSED = 2,
	S2N_TYPE_BLOCKED = 3,
	S2N_TYPE_ALERT = 4,
	S2N_IO_BLOCKED = S2N_TYPE_BLOCKED << S2N_ERRORS,
	S2N_ASYNC_BLOCKED,
	S2N_EARLY_DATA_BLOCKED,
	S2N_SSL3 = 30, /* versions: 10 times the major one, plus the minor one of SSL 3.x */
	S2N_TLS1_3 = 34,
	S2N_REASON_BITS = 8,    /* in error words: the type lies behind so many bits of the number; */
	S2N_FIRST_ALERT = 2048, /* from here on, an alert that was received */
	S2N_ALERTS = 256,
};

/* Without a code that says it, output that is still to go out does: each call that writes sends that first. */
static __always_inline struct verdict judge_s2n_transport(__u64 connection, const struct ssll_library *library)
{
	__u32 cursors[2]; /* up to where the output is sent, and written */

	if (library->shutdown < 0 || bpf_probe_read_user(cursors, sizeof(cursors), (void *)(connection + library->shutdown)))
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	if (cursors[0] != cursors[1])
		return retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
}

static __always_inline struct verdict judge_s2n(
        __u64 connection, __s32 returned, const __u32 *code, const struct ssll_library *library)
{
	if (!returned)
		return closed(SSLL_REASON_ZERO_RETURN);
	if (!code)
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	switch (*code) {
	case S2N_IO_BLOCKED:
		return judge_s2n_transport(connection, library);
	case S2N_ASYNC_BLOCKED:
		return retry(SSLL_WAIT_APPLICATION, SSLL_REASON_APPLICATION_INPUT);
	case S2N_EARLY_DATA_BLOCKED:
		return retry(SSLL_WAIT_APPLICATION, SSLL_REASON_EARLY_DATA);
	}
	switch (*code >> S2N_ERRORS) {
	case S2N_TYPE_BLOCKED:
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case S2N_TYPE_IO:
	case S2N_TYPE_CLOSED:
		return failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* The reason in an error word; `alert` is the last one that was received. */
static __always_inline __u32 s2n_error(__u32 code, __u32 alert)
{
	__u32 most = (1 << S2N_REASON_BITS) - 1, number = code & ((1 << S2N_ERRORS) - 1);

	if (code >> S2N_ERRORS == S2N_TYPE_ALERT && alert < S2N_ALERTS)
		return S2N_FIRST_ALERT + alert;
	return (code >> S2N_ERRORS & 7) << S2N_REASON_BITS | (number < most ? number : most);
}

/* TLS' number of a protocol; 0 of one that isn't TLS, or isn't known yet. */
static __always_inline __u32 s2n_version(__u32 version)
{
	return version >= S2N_SSL3 && version <= S2N_TLS1_3 ? 0x0300 + version - S2N_SSL3 : 0;
}

#endif
