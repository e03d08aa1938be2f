/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* BoringSSL and AWS-LC: the same by the codes that their connections hold. BIOs are OpenSSL's. */
#ifndef STACKS_BORINGSSL_BPF_H
#define STACKS_BORINGSSL_BPF_H

#include "stacks/openssl.bpf.h"

/* BoringSSL's rwstate holds what SSL_get_error returns: SSL_ERROR_* of its openssl/ssl.h. */
enum {
	BORINGSSL_WANT_READ = 2,
	BORINGSSL_WANT_WRITE = 3,
	BORINGSSL_WANT_X509_LOOKUP = 4,
	BORINGSSL_SYSCALL = 5,
	BORINGSSL_ZERO_RETURN = 6,
	BORINGSSL_PENDING_SESSION = 11, /* from here on in the order of SSLL_REASON_PENDING_SESSION */
	BORINGSSL_HANDSHAKE_HINTS_READY = 20,
};

static __always_inline struct verdict judge_boringssl_transport(__u64 ssl, bool reading, const struct ssll_library *library)
{
	__u32 reason = read_bio_reason(ssl, reading, library);

	if (reason == SSLL_REASON_NONE)
		return verdict_of(SSLL_FAILURE, SSLL_REASON_SYSCALL);
	return verdict_of(SSLL_RETRY, reason);
}

/* Each call begins with the code at 0, where it stays when an error lies in the queue. */
static __always_inline struct verdict judge_boringssl(__u64 ssl, __u32 code, const struct ssll_library *library)
{
	if (code == BORINGSSL_ZERO_RETURN)
		return verdict_of(SSLL_CLOSED, SSLL_REASON_ZERO_RETURN);
	if (code == BORINGSSL_SYSCALL)
		return verdict_of(SSLL_FAILURE, SSLL_REASON_SYSCALL);
	if (code == BORINGSSL_WANT_READ || code == BORINGSSL_WANT_WRITE)
		return judge_boringssl_transport(ssl, code == BORINGSSL_WANT_READ, library);
	if (code == BORINGSSL_WANT_X509_LOOKUP)
		return verdict_of(SSLL_RETRY, SSLL_REASON_WANT_X509_LOOKUP);
	if (code >= BORINGSSL_PENDING_SESSION && code <= BORINGSSL_HANDSHAKE_HINTS_READY)
		return verdict_of(SSLL_RETRY, SSLL_REASON_PENDING_SESSION + code - BORINGSSL_PENDING_SESSION);
	return verdict_of(SSLL_FAILURE, SSLL_REASON_SSL);
}

#endif
