/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* BoringSSL and AWS-LC: the same by the codes that their connections hold. BIOs are OpenSSL's. */
#ifdef SSLL_STACK
SSLL_STACK(BORINGSSL, boringssl, SSLL_ERROR_LIBRARY_BORINGSSL, true)
#elif !defined(STACKS_BORINGSSL_BPF_H)
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
	BORINGSSL_PENDING_CERTIFICATE = 12,
	BORINGSSL_WANT_PRIVATE_KEY_OPERATION = 13,
	BORINGSSL_PENDING_TICKET = 14,
	BORINGSSL_EARLY_DATA_REJECTED = 15,
	BORINGSSL_WANT_CERTIFICATE_VERIFY = 16,
	BORINGSSL_HANDOFF = 17,
	BORINGSSL_HANDBACK = 18,
	BORINGSSL_WANT_RENEGOTIATE = 19,
	BORINGSSL_HANDSHAKE_HINTS_READY = 20,
};

static __always_inline struct verdict judge_boringssl_transport(__u64 ssl, bool reading, const struct ssll_library *library)
{
	struct verdict verdict;

	return bio_waits(ssl, reading, library, &verdict) ? verdict : failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
}

/* Each call begins with the code at 0, where it stays when an error lies in the queue. */
static __always_inline struct verdict judge_boringssl(
        __u64 ssl, __s32 returned, const __u32 *code, const struct ssll_library *library)
{
	enum ssll_reason own;

	(void)returned;
	if (!code)
		return retry(SSLL_WAIT_UNKNOWN, SSLL_REASON_UNKNOWN);
	own = SSLL_REASON_PENDING_SESSION + *code - BORINGSSL_PENDING_SESSION;
	switch (*code) {
	case BORINGSSL_ZERO_RETURN:
		return closed(SSLL_REASON_ZERO_RETURN);
	case BORINGSSL_SYSCALL:
		return failure(SSLL_END_TRANSPORT, SSLL_REASON_SYSCALL);
	case BORINGSSL_WANT_READ:
	case BORINGSSL_WANT_WRITE:
		return judge_boringssl_transport(ssl, *code == BORINGSSL_WANT_READ, library);
	case BORINGSSL_WANT_X509_LOOKUP:
		return retry(SSLL_WAIT_LOOKUP, SSLL_REASON_WANT_X509_LOOKUP);
	case BORINGSSL_PENDING_SESSION:
	case BORINGSSL_PENDING_CERTIFICATE:
		return retry(SSLL_WAIT_LOOKUP, own);
	case BORINGSSL_WANT_PRIVATE_KEY_OPERATION:
	case BORINGSSL_PENDING_TICKET:
	case BORINGSSL_WANT_CERTIFICATE_VERIFY:
		return retry(SSLL_WAIT_APPLICATION, own);
	case BORINGSSL_EARLY_DATA_REJECTED:
	case BORINGSSL_HANDOFF:
	case BORINGSSL_HANDBACK:
	case BORINGSSL_WANT_RENEGOTIATE:
	case BORINGSSL_HANDSHAKE_HINTS_READY:
		return retry(SSLL_WAIT_HANDSHAKE, own);
	}
	return failure(SSLL_END_ERROR, SSLL_REASON_SSL);
}

#endif
