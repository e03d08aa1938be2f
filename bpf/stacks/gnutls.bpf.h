/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GnuTLS: what a call returns says how it ended. */
#ifdef SSLL_STACK
SSLL_STACK(GNUTLS, gnutls, SSLL_ERROR_LIBRARY_GNUTLS, true)
#elif !defined(STACKS_GNUTLS_BPF_H)
#define STACKS_GNUTLS_BPF_H

#include "stacks/connection.bpf.h"

/* gnutls/gnutls.h: GNUTLS_E_*, GNUTLS_CRD_CERTIFICATE, and the protocols from SSL 3.0 on in the order of TLS' numbers. */
enum {
	GNUTLS_FATAL_ALERT_RECEIVED = -12,
	GNUTLS_WARNING_ALERT_RECEIVED = -16,
	GNUTLS_AGAIN = -28,
	GNUTLS_REHANDSHAKE = -37,
	GNUTLS_GOT_APPLICATION_DATA = -38,
	GNUTLS_INTERRUPTED = -52,
	GNUTLS_PUSH_ERROR = -53,
	GNUTLS_PULL_ERROR = -54,
	GNUTLS_PREMATURE_TERMINATION = -110,
	GNUTLS_CREDENTIALS_CERTIFICATE = 1,
	GNUTLS_SSL3 = 1,
	GNUTLS_TLS1_3 = 5,
	GNUTLS_FIRST_ALERT = 1000, /* in error words: an alert that was received */
	GNUTLS_ALERTS = 256,
};

/* What an interrupted call waits for: the lowest byte of the code, which gnutls_record_get_direction returns. */
static __always_inline struct verdict judge_gnutls_wait(const __u32 *code)
{
	if (!code)
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	if ((__u8)*code)
		return retry(SSLL_WAIT_WINDOW, SSLL_REASON_WANT_WRITE);
	return retry(SSLL_WAIT_PEER, SSLL_REASON_WANT_READ);
}

static __always_inline struct verdict judge_gnutls(
        __u64 session, __s32 returned, const __u32 *code, const struct ssll_library *library)
{
	(void)session;
	(void)library;
	switch (returned) {
	case 0:
		return closed(SSLL_REASON_ZERO_RETURN);
	case GNUTLS_AGAIN:
	case GNUTLS_INTERRUPTED:
		return judge_gnutls_wait(code);
	case GNUTLS_WARNING_ALERT_RECEIVED: /* those that end nothing: the application calls again, or does what is asked */
	case GNUTLS_REHANDSHAKE:
	case GNUTLS_GOT_APPLICATION_DATA:
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	case GNUTLS_PUSH_ERROR:
	case GNUTLS_PULL_ERROR:
	case GNUTLS_PREMATURE_TERMINATION:
		return failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	}
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

/* The reason in an error word; `alert` is the last one that was received. */
static __always_inline __u32 gnutls_error(__s32 returned, __u32 alert)
{
	if (returned == GNUTLS_FATAL_ALERT_RECEIVED && alert < GNUTLS_ALERTS)
		return GNUTLS_FIRST_ALERT + alert;
	return -returned;
}

/* TLS' number of a protocol; 0 of one that isn't TLS. */
static __always_inline __u32 gnutls_version(__u32 protocol)
{
	return protocol >= GNUTLS_SSL3 && protocol <= GNUTLS_TLS1_3 ? 0x0300 + protocol - GNUTLS_SSL3 : 0;
}

/* The identifier of a cipher suite, as OpenSSL has them, of the two bytes of TLS. */
static __always_inline __u32 gnutls_cipher(__u16 bytes)
{
	return 0x03000000 | (bytes & 0xff) << 8 | bytes >> 8;
}

#endif
