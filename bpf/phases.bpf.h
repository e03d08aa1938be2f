/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Phases of a handshake, from the site in front of a call to the site behind it, and the errors raised meanwhile. */
#ifndef PHASES_BPF_H
#define PHASES_BPF_H

#include "accounts.bpf.h"
#include "blocking.bpf.h"
#include "registers.bpf.h"

enum {
	FIRST_REASON = 100,     /* below lie the reasons that all libraries share, which say less */
	FIRST_SHARED = 1 << 18, /* OpenSSL 3.0 and later: they carry flags from here on */
	REASON_MASK = (1 << SSLL_ERROR_REASON_BITS) - 1,
};

/* The key's size in bytes as the call's argument tells it, 0 where it doesn't. */
static __always_inline __u32 key_bytes(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 index = field(cookie, SSLL_PHASE_COOKIE_SIZE, 3);
	__u64 value, size = 0;

	if (!index)
		return 0;
	value = argument(ctx, index - 1);
	if (!field(cookie, SSLL_PHASE_COOKIE_SIZE_POINTED, 1))
		return value;
	bpf_probe_read_user(&size, sizeof(size), (void *)value);
	return size;
}

static __always_inline bool goes_elsewhere(const struct pt_regs *ctx, __u64 cookie)
{
	return field(cookie, SSLL_PHASE_COOKIE_CONDITIONAL, 1) &&
	       branch_taken(ctx, field(cookie, SSLL_PHASE_COOKIE_CONDITION, 4)) != field(cookie, SSLL_PHASE_COOKIE_TAKEN, 1);
}

/* The outermost phase counts: what begins inside another one is part of that. */
static __always_inline int phase_begins(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_handshake *handshake = current_account();
	__u32 operation = field(cookie, SSLL_PHASE_COOKIE_OPERATION, 2);

	if (!handshake || handshake->phase || is_size_query(ctx, field(cookie, SSLL_PHASE_COOKIE_SKIP_NULL, 3)) ||
	        goes_elsewhere(ctx, cookie))
		return 0;
	handshake->phase = field(cookie, SSLL_PHASE_COOKIE_PART, 4);
	handshake->phase_stack = stack_at_entry(ctx, cookie);
	if (operation) {
		handshake->key_operation = operation;
		handshake->key_bytes = key_bytes(ctx, cookie);
	}
	if (is_transport(handshake->phase))
		transport_begins();
	handshake->phase_since_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void add_phase(struct ssll_handshake *handshake, __u64 now)
{
	if (is_transport(handshake->phase))
		transport_ends(handshake, now - handshake->phase_since_ns);
	else
		add_part(handshake, handshake->phase, now - handshake->phase_since_ns);
}

/* Other ways lead to the site, too: the frame tells whether it is the end of the phase that is open. */
static __always_inline int phase_ends(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), stack = stack_at_entry(ctx, cookie);
	struct ssll_handshake *handshake = current_account();

	if (!handshake || handshake->phase != field(cookie, SSLL_PHASE_COOKIE_PART, 4) || handshake->phase_stack != stack)
		return 0;
	add_phase(handshake, now);
	handshake->phase = 0;
	return 0;
}

/* Whether the error is one of libssl's own. */
static __always_inline bool says_why(const struct ssll_handshake *handshake, __u32 library, __u32 reason)
{
	struct ssll_layout *layout = layout_of(handshake->library);
	bool boringssl = layout && layout->library.boringssl >= 0;

	return library == (boringssl ? SSLL_ERROR_LIBRARY_BORINGSSL : SSLL_ERROR_LIBRARY_SSL) && reason >= FIRST_REASON &&
	       reason < FIRST_SHARED;
}

/* The same of the error that is kept. */
static __always_inline bool kept_error_says_why(const struct ssll_handshake *handshake)
{
	return says_why(handshake, handshake->error >> SSLL_ERROR_LIBRARY, handshake->error & REASON_MASK);
}

/* Kept is the first error of libssl's own, else the first of all: those that follow are its consequences. */
static __always_inline void error_raised(struct ssll_handshake *handshake, __u32 library, __u32 reason)
{
	if (handshake->error && (kept_error_says_why(handshake) || !says_why(handshake, library, reason)))
		return;
	handshake->error = (library & 0xff) << SSLL_ERROR_LIBRARY | (reason & REASON_MASK);
}

static __always_inline int error_is_raised(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_handshake *handshake = current_account();
	__s32 alert = (__s32)argument(ctx, 1);

	if (!handshake)
		return 0;
	if (!field(cookie, SSLL_ERROR_COOKIE_FATAL, 1)) {
		error_raised(handshake, argument(ctx, 0), argument(ctx, field(cookie, SSLL_ERROR_COOKIE_REASON, 3)));
	} else if (alert >= 0 && alert < 256 && !(handshake->flags & SSLL_FLAG_ALERT_SENT)) {
		handshake->alert = alert;
		handshake->flags |= SSLL_FLAG_ALERT_SENT;
	}
	return 0;
}

#endif
