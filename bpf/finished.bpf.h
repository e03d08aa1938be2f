/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A handshake that has ended: its times by part, why it failed, what it was like, and itself where it was slow. */
#ifndef FINISHED_BPF_H
#define FINISHED_BPF_H

#include "rows.bpf.h"
#include "tallies.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} singles SEC(".maps");

static __always_inline void settle_parts(struct ssll_handshake *handshake, __u64 now)
{
	__u64 phases = 0;

	if (handshake->flags & SSLL_FLAG_UNATTRIBUTED) {
		for (__u32 part = SSLL_PART_PRIVATE_KEY; part < SSLL_PART_REST; part++)
			handshake->parts[part] = 0;
		count(&books.unattributed);
	}
	for (__u32 part = SSLL_PART_PRIVATE_KEY; part < SSLL_PART_REST; part++)
		phases += handshake->parts[part];
	handshake->parts[SSLL_PART_WALL] = now - handshake->began_ns;
	handshake->parts[SSLL_PART_REST] = handshake->parts[SSLL_PART_CALLS] - phases;
	if (handshake->flags & SSLL_FLAG_UNSPLIT) {
		handshake->parts[SSLL_PART_OFF_CPU] = 0;
		count(&books.unsplit);
	} else if (view.off_cpu)
		handshake->parts[SSLL_PART_ON_CPU] = handshake->parts[SSLL_PART_CALLS] - handshake->parts[SSLL_PART_OFF_CPU];
}

static __always_inline void emit_single(
        const struct ssll_handshake *handshake, const struct ssll_labels *labels, const struct ssll_cause_key *cause, __u64 now)
{
	struct ssll_single *single = bpf_ringbuf_reserve(&singles, sizeof(*single), 0);

	if (!single) {
		count(&books.events_dropped);
		return;
	}
	single->ended_ns = now;
	for (__u32 part = 0; part < SSLL_PARTS; part++)
		single->parts[part] = handshake->parts[part];
	single->labels = *labels;
	single->cause = *cause;
	single->tgid = this_process();
	single->tid = this_thread();
	single->calls = handshake->calls;
	single->pauses = handshake->pauses;
	bpf_get_current_comm(single->comm, sizeof(single->comm));
	bpf_ringbuf_submit(single, 0);
}

/* A call that ends without a fatal error may have met others, which OpenSSL has taken back. */
static __always_inline bool errors_say_why(__u8 reason)
{
	return reason != SSLL_REASON_NONE && reason != SSLL_REASON_SYSCALL && reason != SSLL_REASON_ZERO_RETURN;
}

/*
 * The alert as it goes out: what TLS 1.3 has brought in is handshake_failure before it (RFC 8446, section 6; OpenSSL's
 * tls1_alert_code).
 */
static __always_inline __u8 alert_on_the_wire(__u8 alert, const struct ssll_labels *labels)
{
	bool later = alert == TLS_MISSING_EXTENSION || alert == TLS_CERTIFICATE_REQUIRED;

	return later && labels->known & SSLL_KNOWN(VERSION) && labels->version != OPENSSL_TLS1_3 ? TLS_HANDSHAKE_FAILURE
	                                                                                         : alert;
}

/* The handshake's account is complete: counts it under its labels and its ending, and closes it. */
static __always_inline void finish(
        struct ssll_handshake *handshake, __u64 ssl, __u8 ending, __u8 reason, bool server, __u64 now)
{
	struct ssll_layout *layout = layout_of(handshake->library);
	struct ssll_labels labels = {.tgid = this_process(), .ending = ending, .library = handshake->library};
	struct ssll_cause_key cause = {
	        .error = errors_say_why(reason) ? handshake->error : 0,
	        .state = UNKNOWN_STATE,
	        .library = handshake->library,
	        .ending = ending,
	        .reason = reason,
	        .alert = handshake->alert,
	        .sent = !!(handshake->flags & SSLL_FLAG_ALERT_SENT),
	};
	__u64 state = 0;

	if (!layout)
		return;
	if (handshake->flags & SSLL_FLAG_PARTIAL) {
		count(&books.partial);
		close_account(ssl, labels.tgid);
		return;
	}
	if ((handshake->flags & (SSLL_FLAG_SLEPT | SSLL_FLAG_RETURNS)) == SSLL_FLAG_SLEPT)
		count(&books.slept);
	settle_parts(handshake, now);
	labels.server = server;
	labels.known = SSLL_KNOWN(PROCESS) | SSLL_KNOWN(ROLE);
	read_labels(ssl, layout, &labels);
	if (handshake->key_operation == SSLL_KEY_OPERATION_DECRYPT) { /* nothing was signed, though an algorithm was chosen */
		labels.known &= ~SSLL_KNOWN(SIGNATURE);
		labels.signature = 0;
	}
	cause.alert = alert_on_the_wire(cause.alert, &labels);
	add_times(&labels, handshake);
	if (handshake->pauses)
		count(&books.paused);
	if (ending == SSLL_ENDING_SUCCESS) {
		add_labels(&labels);
		add_key(handshake, &labels);
	} else {
		if (read_place(ssl, layout, SSLL_PLACE_OF_HAND_STATE, &state))
			cause.state = state;
		add_cause(&cause, handshake->parts[SSLL_PART_WALL]);
	}
	if (handshake->parts[SSLL_PART_WALL] >= *(volatile __u64 *)&books.threshold_ns)
		emit_single(handshake, &labels, &cause, now);
	if (reason != SSLL_REASON_NONE && ending != SSLL_ENDING_SUCCESS && layout->library.boringssl >= 0)
		end_account(handshake); /* a call that is made all the same fails again, and is no other handshake */
	else
		close_account(ssl, labels.tgid);
}

#endif
