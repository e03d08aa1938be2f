/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Why a handshake failed: the errors that its calls raise, and the alert that it sends. */
#ifndef HANDSHAKES_ERRORS_BPF_H
#define HANDSHAKES_ERRORS_BPF_H

#include "common/registers.bpf.h"
#include "handshakes/labels.bpf.h"
#include "running/running.bpf.h"

/* Alerts: RFC 8446, section 6. */
enum {
	TLS_FATAL = 2,
	TLS_NO_ALERT = 256,
	TLS_HANDSHAKE_FAILURE = 40,
	TLS_MISSING_EXTENSION = 109,
	TLS_CERTIFICATE_REQUIRED = 116,
};

enum {
	FIRST_REASON = 100,     /* below lie the reasons that all libraries share, which say less */
	FIRST_SHARED = 1 << 18, /* OpenSSL 3.0 and later: they carry flags from here on */
	REASON_MASK = (1 << SSLL_ERROR_REASON_BITS) - 1,
	BORINGSSL_CONNECTION_REJECTED = 133, /* SSL_R_CONNECTION_REJECTED: a callback of the program's has refused it */
};

/* Whether the reason is its library's own, not one that says no more than that something below it failed. */
static __always_inline bool is_specific(__u32 reason)
{
	return reason >= FIRST_REASON && reason < FIRST_SHARED;
}

/* Whether the error is one of libssl's own. */
static __always_inline bool is_libssl_error(const struct ssll_handshake *handshake, __u32 number, __u32 reason)
{
	struct ssll_library *library = library_of(handshake->library);

	return number == (library ? own_error_library(library) : SSLL_ERROR_LIBRARY_SSL) && is_specific(reason);
}

/* The same of the error that is kept. */
static __always_inline bool has_libssl_error(const struct ssll_handshake *handshake)
{
	return is_libssl_error(handshake, handshake->error >> SSLL_ERROR_LIBRARY, handshake->error & REASON_MASK);
}

/*
 * Kept is the first error of libssl's own: those that follow are its consequences. Where libssl only says that something below
 * it failed, it is the last of those below that says what, as those before may have been cleared again.
 */
static __always_inline void keep_error(struct ssll_handshake *handshake, __u32 library, __u32 reason)
{
	if (handshake->error && (has_libssl_error(handshake) || !is_specific(reason)))
		return;
	handshake->error = (library & 0xff) << SSLL_ERROR_LIBRARY | (reason & REASON_MASK);
}

/* Whether a program's callback has refused the handshake, where BoringSSL is asked. */
static __always_inline bool is_rejected(const struct ssll_handshake *handshake)
{
	return handshake->error == ((__u32)SSLL_ERROR_LIBRARY_BORINGSSL << SSLL_ERROR_LIBRARY | BORINGSSL_CONNECTION_REJECTED);
}

/* The error that the call which came back has returned, or its connection holds, in a library where either does. */
static __always_inline void keep_returned_error(
        struct ssll_handshake *handshake, __u64 ssl, __s32 returned, const struct ssll_library *library)
{
	__u64 alert = TLS_NO_ALERT;
	__u32 code = returned;

	if (!tells_error(ssl, library, &code))
		return;
	if (!read_place(ssl, library, SSLL_PLACE_OF_ALERT, &alert))
		alert = TLS_NO_ALERT;
	keep_error(handshake, own_error_library(library), reason_of(library, code, alert));
	if (read_sent_alert(ssl, library, &code)) {
		handshake->alert = code;
		handshake->flags |= SSLL_FLAG_ALERT_SENT;
	}
}

/* Whether the alert that a call sends ends the handshake. */
static __always_inline bool sends_fatal_alert(const struct pt_regs *ctx, __u64 cookie)
{
	return !field(cookie, SSLL_ERROR_COOKIE_LEVELLED, 1) || (__u8)argument(ctx, 1) == TLS_FATAL;
}

static __always_inline int on_error(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_handshake *handshake = current_handshake();
	__s32 alert = (__s32)argument(ctx, field(cookie, SSLL_ERROR_COOKIE_REASON, 3));

	if (!handshake)
		return 0;
	if (!field(cookie, SSLL_ERROR_COOKIE_FATAL, 1)) {
		keep_error(handshake, argument(ctx, 0), alert);
	} else if (sends_fatal_alert(ctx, cookie) && alert >= 0 && alert < 256 && !(handshake->flags & SSLL_FLAG_ALERT_SENT)) {
		handshake->alert = alert;
		handshake->flags |= SSLL_FLAG_ALERT_SENT;
	}
	return 0;
}

/*
 * The alert as it goes out: what TLS 1.3 has brought in is handshake_failure before it (RFC 8446, section 6; OpenSSL's
 * tls1_alert_code).
 */
static __always_inline __u8 alert_on_the_wire(__u8 alert, const struct ssll_labels *labels)
{
	bool later = alert == TLS_MISSING_EXTENSION || alert == TLS_CERTIFICATE_REQUIRED;

	return later && is_known(labels, SSLL_LABEL_VERSION) && labels->values[SSLL_LABEL_VERSION] != OPENSSL_TLS1_3
	               ? TLS_HANDSHAKE_FAILURE
	               : alert;
}

#endif
