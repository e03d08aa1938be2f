/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* wolfSSL: its connections hold the code that says how a call ended which didn't succeed. */
#ifdef SSLL_STACK
SSLL_STACK(WOLFSSL, wolfssl, SSLL_ERROR_LIBRARY_WOLFSSL, true)
#elif !defined(STACKS_WOLFSSL_BPF_H)
#define STACKS_WOLFSSL_BPF_H

#include "stacks/connection.bpf.h"

/* wolfssl/error-ssl.h and wolfssl/wolfcrypt/error-crypt.h, and enum states of wolfssl/internal.h. */
enum {
	WOLFSSL_PENDING = -108,
	WOLFSSL_SOCKET_ERROR = -308,
	WOLFSSL_FATAL_ALERT = -313,
	WOLFSSL_WANT_READ = -323,
	WOLFSSL_WANT_WRITE = -327,
	WOLFSSL_ZERO_RETURN = -343,
	WOLFSSL_SOCKET_PEER_CLOSED = -397,
	WOLFSSL_OCSP_WANT_READ = -408,
	WOLFSSL_APP_DATA_READY = -441,
	WOLFSSL_CLIENT_HELLO_COMPLETE = 12,
	WOLFSSL_HANDSHAKE_DONE = 16,
	WOLFSSL_FIRST_ALERT = 3000, /* in error words: an alert that was received */
	WOLFSSL_ALERTS = 256,
	WOLFSSL_SENT_ALERT = 8, /* bytes from the last alert that was received; and its level */
	WOLFSSL_SENT_LEVEL = 12,
	WOLFSSL_FATAL = 2,
};

static __always_inline struct verdict judge_wolfssl(
        __u64 ssl, __s32 returned, const __u32 *code, const struct ssll_library *library)
{
	(void)ssl;
	(void)library;
	if (!code)
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	switch ((__s32)*code) {
	case WOLFSSL_WANT_READ:
		return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
	case WOLFSSL_WANT_WRITE:
		return retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	case WOLFSSL_PENDING:
		return retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC);
	case WOLFSSL_OCSP_WANT_READ:
		return retry(SSLL_WAIT_APPLICATION, SSLL_REASON_WANT_RETRY_VERIFY);
	case WOLFSSL_APP_DATA_READY: /* in the midst of a handshake: the application reads, and calls again */
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case WOLFSSL_ZERO_RETURN:
		return closed(SSLL_REASON_ZERO_RETURN);
	case WOLFSSL_SOCKET_ERROR:
	case WOLFSSL_SOCKET_PEER_CLOSED:
		return failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	return *code || returned ? failure(SSLL_END_ERROR, SSLL_REASON_SSL) : closed(SSLL_REASON_ZERO_RETURN);
}

/* Whether a handshake has come further than its beginning, or that can't be read. Not inlined, as its callers have little stack
 * left. */
static __noinline bool may_wolfssl_have_begun(__u64 ssl, const struct ssll_library *library)
{
	__u32 steps = 0;

	return !read_int(ssl, library->shutdown, &steps) || (__u16)steps;
}

/* Whether the connection has a code after which the call is to be made again: it was called before. Unless that is from before
 * it was cleared: wolfSSL_clear leaves the code. */
static __always_inline bool is_wolfssl_under_way(__u64 ssl, const struct ssll_library *library)
{
	__u32 code = 0;

	return read_rwstate(ssl, library, &code) && judge_wolfssl(ssl, -1, &code, library).outcome == SSLL_RETRY &&
	       may_wolfssl_have_begun(ssl, library);
}

/* Whether the handshake is done, or that can't be read. */
static __always_inline bool may_wolfssl_be_done(__u64 ssl, const struct ssll_library *library)
{
	__u32 state = 0;

	return !read_int(ssl, library->state, &state) || (__u8)state == WOLFSSL_HANDSHAKE_DONE;
}

/* Whether a handshake begins no more: it is done, or was before the server asked a client for its certificate, which the client
 * shows by the functions that make handshakes. The state of no handshake under way is that number. */
static __always_inline bool has_wolfssl_shaken_hands(__u64 ssl, const struct ssll_library *library)
{
	__u32 state = 0;

	if (!read_int(ssl, library->state, &state))
		return false;
	return (__u8)state == WOLFSSL_HANDSHAKE_DONE || (__u8)state == WOLFSSL_CLIENT_HELLO_COMPLETE;
}

/* The reason in an error word; `alert` is the last one that was received. */
static __always_inline __u32 wolfssl_error(__s32 code, __u32 alert)
{
	return code == WOLFSSL_FATAL_ALERT && alert < WOLFSSL_ALERTS ? WOLFSSL_FIRST_ALERT + alert : -code;
}

/* TLS' number of a version, of its two bytes; 0 of one that isn't TLS. */
static __always_inline __u32 wolfssl_version(__u16 bytes)
{
	return (bytes & 0xff) == 3 ? 0x0300 + (bytes >> 8) : 0;
}

#endif
