/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Why a handshake of Go's crypto/tls failed: by the type of the error that its call returned, and by the alerts. */
#ifndef HANDSHAKES_GO_ERRORS_BPF_H
#define HANDSHAKES_GO_ERRORS_BPF_H

#include "running/running.bpf.h"
#include "stacks/go.bpf.h"

enum {
	GO_RECEIVED_SIZE = 12, /* of "remote error", by which a *net.OpError says that its alert was the peer's */
	GO_ALERT_UNKNOWN = 256,
	GO_PERMANENT_DEPTH = 2,
	GO_HASH_BASIS = 0x811c9dc5,
	GO_HASH_PRIME = 0x01000193, /* of the hash FNV-1a, 32 bits */
};

static __always_inline void read_go_interface(struct go_interface *value, __u64 address)
{
	if (bpf_probe_read_user(value, sizeof(*value), (void *)address))
		value->itab = value->data = 0;
}

/* Of an error that is permanent for its connection, what it holds. It is wrapped twice where sending an alert made it permanent
 * for the way out, and then what was read for the way in. */
static __always_inline void unwrap_permanent(struct go_interface *error, const struct ssll_library *library)
{
	for (__u32 i = 0; i < GO_PERMANENT_DEPTH; i++)
		if (is_go_type(go_type_hash(error->itab), library, SSLL_GO_TYPE_PERMANENT))
			read_go_interface(error, error->data);
}

/* The alert that a *net.OpError holds, GO_ALERT_UNKNOWN for none. */
static __always_inline __u32 go_alert(const struct go_interface *held, const struct ssll_library *library)
{
	__u8 alert = 0;

	if (!is_go_type(go_type_hash(held->itab), library, SSLL_GO_TYPE_ALERT) ||
	        bpf_probe_read_user(&alert, sizeof(alert), (void *)held->data))
		return GO_ALERT_UNKNOWN;
	return alert;
}

/* Whether the alert of the *net.OpError at this address was received: by the length of its operation, whose text may not be in
 * memory, as no one has read it. One that was sent is a "local error". */
static __always_inline bool is_received(__u64 error)
{
	struct go_string operation = {};

	return !bpf_probe_read_user(&operation, sizeof(operation), (void *)error) && operation.size == GO_RECEIVED_SIZE;
}

/* The alert that this side has sent: it stands in why the connection writes no more. */
__noinline int note_sent_alert(struct ssll_handshake *handshake, __u64 connection, const struct ssll_library *library)
{
	struct go_interface error, held;
	__u32 alert;

	if (!handshake || !library || library->sent < 0)
		return 0;
	read_go_interface(&error, connection + library->sent);
	unwrap_permanent(&error, library);
	if (!is_go_type(go_type_hash(error.itab), library, SSLL_GO_TYPE_NETWORK))
		return 0;
	read_go_interface(&held, error.data + GO_HELD_ERROR);
	alert = go_alert(&held, library);
	if (alert == GO_ALERT_UNKNOWN || is_received(error.data))
		return 0;
	handshake->alert = alert;
	handshake->flags |= SSLL_FLAG_ALERT_SENT;
	return 0;
}

static __always_inline struct verdict go_failure(struct ssll_handshake *handshake, __u32 reason)
{
	handshake->error = SSLL_ERROR_LIBRARY_GO << SSLL_ERROR_LIBRARY | reason;
	return failure(SSLL_END_ERROR, SSLL_REASON_NONE);
}

/* What a socket's error means, or an alert that came. */
static __always_inline struct verdict judge_go_network(
        struct ssll_handshake *handshake, __u64 error, const struct ssll_library *library)
{
	struct go_interface held;
	__u32 hash, alert;

	read_go_interface(&held, error + GO_HELD_ERROR);
	hash = go_type_hash(held.itab);
	alert = go_alert(&held, library);
	if (alert != GO_ALERT_UNKNOWN && is_received(error))
		return go_failure(handshake, SSLL_GO_REASON_ALERT + alert);
	if (alert != GO_ALERT_UNKNOWN)
		return go_failure(handshake, SSLL_GO_REASON_SENT + alert);
	if (is_go_type(hash, library, SSLL_GO_TYPE_DEADLINE))
		return go_failure(handshake, SSLL_GO_REASON_TYPE | (hash & SSLL_GO_REASON_HASH));
	return failure(is_go_type(hash, library, SSLL_GO_TYPE_CLOSED) ? SSLL_END_NONE : SSLL_END_TRANSPORT, SSLL_REASON_NONE);
}

/* The beginning of an error's text as a number, up to its second colon, as what follows that is another error's text; 0 where
 * it isn't crypto/tls' own. python/ssllatency/stacks/go/handshake/names.py has the same. */
static __always_inline __u32 go_text_hash(const __u8 *text)
{
	__u32 hash = GO_HASH_BASIS;
	bool ended = false;

	if (text[0] != 't' || text[1] != 'l' || text[2] != 's' || text[3] != ':')
		return 0;
	for (__u32 i = 0; i < SSLL_GO_REASON_TEXT_SIZE; i++) {
		ended |= i > 3 && text[i] == ':';
		hash ^= ended ? 0 : text[i];
		hash *= GO_HASH_PRIME;
	}
	return hash;
}

/* The reason that an *errors.errorString is. */
static __always_inline __u32 reason_of_text(const struct go_string *string, __u32 type)
{
	__u8 text[SSLL_GO_REASON_TEXT_SIZE] = {};
	__u32 size = string->size < SSLL_GO_REASON_TEXT_SIZE ? string->size : SSLL_GO_REASON_TEXT_SIZE, hash;

	asm volatile("" : "+r"(size));
	if (size < 1 || size > SSLL_GO_REASON_TEXT_SIZE || bpf_probe_read_user(text, size, (void *)string->text))
		return SSLL_GO_REASON_TYPE | (type & SSLL_GO_REASON_HASH);
	hash = go_text_hash(text);
	return hash ? SSLL_GO_REASON_TEXT | (hash & SSLL_GO_REASON_HASH) : SSLL_GO_REASON_TYPE | (type & SSLL_GO_REASON_HASH);
}

/* Whether the text is io.EOF's or io.ErrUnexpectedEOF's. */
static __always_inline bool says_eof(const struct go_string *string)
{
	__u64 end = 0;

	return (string->size == GO_EOF_SIZE || string->size == GO_UNEXPECTED_EOF_SIZE) &&
	       !bpf_probe_read_user(&end, GO_EOF_SIZE, (void *)(string->text + string->size - GO_EOF_SIZE)) && end == GO_EOF;
}

/* How a handshake ended whose call returned an error; why is kept with it. */
static __always_inline struct verdict judge_go_handshake(
        struct ssll_handshake *handshake, __u64 itab, __u64 data, const struct ssll_library *library)
{
	struct go_interface error = {itab, data};
	struct go_string string = {};
	__u32 hash;

	unwrap_permanent(&error, library);
	hash = go_type_hash(error.itab);
	if (is_go_type(hash, library, SSLL_GO_TYPE_NETWORK))
		return judge_go_network(handshake, error.data, library);
	if (!hash)
		return failure(SSLL_END_ERROR, SSLL_REASON_NONE);
	if (!is_go_type(hash, library, SSLL_GO_TYPE_TEXT) || bpf_probe_read_user(&string, sizeof(string), (void *)error.data))
		return go_failure(handshake, SSLL_GO_REASON_TYPE | (hash & SSLL_GO_REASON_HASH));
	if (says_eof(&string))
		return failure(SSLL_END_TRANSPORT, SSLL_REASON_NONE);
	return go_failure(handshake, reason_of_text(&string, hash));
}

#endif
