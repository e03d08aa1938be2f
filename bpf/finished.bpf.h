/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What becomes of a handshake that has ended: its times by part, why it failed, what it was like, and itself where it was slow.
 */
#ifndef FINISHED_BPF_H
#define FINISHED_BPF_H

#include "accounts.bpf.h"
#include "extremes.bpf.h"
#include "labels.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct ssll_labels);
	__type(value, struct ssll_handshake_row);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ssll_handshake_row);
} blank_row SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct ssll_cause_key);
	__type(value, struct ssll_tally);
} causes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct ssll_key_use);
	__type(value, struct ssll_tally);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct ssll_mix_key);
	__type(value, __u64);
} mix SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} singles SEC(".maps");

__noinline int add_time(struct ssll_times *times, __u64 duration_ns)
{
	__s32 bucket;

	if (!times)
		return 0;
	bucket = bucket_of(duration_ns);
	raise_extremes(times->maximum, times->minimum, *(volatile __u64 *)&account.interval, duration_ns);
	__sync_fetch_and_add(&times->total_ns, duration_ns);
	if (bucket < 0)
		count(&times->underflow);
	else if (bucket < SSLL_BUCKETS)
		count(&times->exponential[bucket]);
	else
		count(&times->overflow);
	return 0;
}

static __always_inline void add_tally(struct ssll_tally *tally, __u64 duration_ns)
{
	count(&tally->count);
	__sync_fetch_and_add(&tally->total_ns, duration_ns);
}

/* Adds to the map's row of the key, which is made at its first use. */
#define TALLY(map, key, duration_ns)                                                                                           \
	do {                                                                                                                   \
		const struct ssll_tally none_ = {};                                                                            \
		struct ssll_tally *tally_ = bpf_map_lookup_elem(&(map), key);                                                  \
		if (!tally_) {                                                                                                 \
			bpf_map_update_elem(&(map), key, &none_, BPF_NOEXIST);                                                 \
			tally_ = bpf_map_lookup_elem(&(map), key);                                                             \
		}                                                                                                              \
		if (tally_)                                                                                                    \
			add_tally(tally_, duration_ns);                                                                        \
		else                                                                                                           \
			count(&account.map_full);                                                                              \
	} while (0)

/* The row that handshakes with these labels count in; past the maximum of rows that of "other", made by user space. */
static __always_inline struct ssll_handshake_row *row_of(const struct ssll_labels *labels)
{
	struct ssll_handshake_row *row = bpf_map_lookup_elem(&rows, labels), *blank;
	struct ssll_labels other = {.known = 1U << SSLL_LABEL_OTHER, .ending = labels->ending};
	__u32 zero = 0;

	if (row)
		return row;
	blank = bpf_map_lookup_elem(&blank_row, &zero);
	if (blank)
		bpf_map_update_elem(&rows, labels, blank, BPF_NOEXIST); /* EEXIST: another thread was first */
	row = bpf_map_lookup_elem(&rows, labels);
	return row ? row : bpf_map_lookup_elem(&rows, &other);
}

static __always_inline bool grouped_by(enum ssll_label label)
{
	return view.by & 1U << label;
}

/* What the row is told apart by: the labels that were asked for. */
static __always_inline struct ssll_labels row_key(const struct ssll_labels *all)
{
	struct ssll_labels key = {.known = all->known & view.by, .ending = all->ending};

	if (grouped_by(SSLL_LABEL_VERSION))
		key.version = all->version;
	if (grouped_by(SSLL_LABEL_CIPHER))
		key.cipher = all->cipher;
	if (grouped_by(SSLL_LABEL_RESUMED))
		key.resumed = all->resumed;
	if (grouped_by(SSLL_LABEL_GROUP))
		key.group = all->group;
	if (grouped_by(SSLL_LABEL_SIGNATURE))
		key.signature = all->signature;
	if (grouped_by(SSLL_LABEL_CLIENT_CERTIFICATE))
		key.client_certificate = all->client_certificate;
	if (grouped_by(SSLL_LABEL_ROLE))
		key.server = all->server;
	if (grouped_by(SSLL_LABEL_PROCESS))
		key.tgid = all->tgid;
	if (view.by & ~(SSLL_KNOWN(PROCESS) | SSLL_KNOWN(RESUMED) | SSLL_KNOWN(ROLE) | SSLL_KNOWN(CLIENT_CERTIFICATE)))
		key.library = all->library; /* whose names its codes have */
	return key;
}

/* Parts that every handshake has, whatever their length; the others only count where they occurred. */
static __always_inline bool always_there(__u32 part)
{
	return part == SSLL_PART_WALL || part == SSLL_PART_CALLS || part == SSLL_PART_REST;
}

__noinline int add_row(struct ssll_handshake_row *row, const struct ssll_handshake *handshake)
{
	if (!row || !handshake)
		return 0;
	for (__u32 part = 0; part < SSLL_PARTS; part++) {
		if (handshake->parts[part] || always_there(part))
			add_time(&row->parts[part], handshake->parts[part]);
	}
	return 0;
}

static __always_inline void add_mix(__u32 label, __u32 library, __u64 value)
{
	struct ssll_mix_key key = {.label = label, .library = library, .value = value};
	__u64 one = 1, *number = bpf_map_lookup_elem(&mix, &key);

	if (number)
		count(number);
	else if (bpf_map_update_elem(&mix, &key, &one, BPF_NOEXIST)) {
		number = bpf_map_lookup_elem(&mix, &key);
		if (number)
			count(number);
		else
			count(&account.map_full);
	}
}

__noinline int add_labels(const struct ssll_labels *labels)
{
	__u32 known;

	if (!labels)
		return 0;
	known = labels->known;
	if (known & SSLL_KNOWN(VERSION))
		add_mix(SSLL_LABEL_VERSION, 0, labels->version);
	if (known & SSLL_KNOWN(CIPHER))
		add_mix(SSLL_LABEL_CIPHER, labels->library, labels->cipher);
	if (known & SSLL_KNOWN(RESUMED))
		add_mix(SSLL_LABEL_RESUMED, 0, labels->resumed);
	if (known & SSLL_KNOWN(GROUP))
		add_mix(SSLL_LABEL_GROUP, labels->library, labels->group);
	if (known & SSLL_KNOWN(SIGNATURE))
		add_mix(SSLL_LABEL_SIGNATURE, labels->library, labels->signature);
	if (known & SSLL_KNOWN(CLIENT_CERTIFICATE))
		add_mix(SSLL_LABEL_CLIENT_CERTIFICATE, 0, labels->client_certificate);
	return 0;
}

static __always_inline void add_key(const struct ssll_handshake *handshake, const struct ssll_labels *labels)
{
	struct ssll_key_use key = {
	        .bytes = handshake->key_bytes,
	        .operation = handshake->key_operation,
	        .library = labels->library,
	};

	if (!handshake->key_operation)
		return;
	if (handshake->key_operation == SSLL_KEY_OPERATION_SIGN)
		key.signature = labels->signature;
	TALLY(keys, &key, handshake->parts[SSLL_PART_PRIVATE_KEY]);
}

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

/* The alert as it goes out: what TLS 1.3 has brought in is handshake_failure before it (RFC 8446, section 6; tls1_alert_code).
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
	__u32 index = handshake->library;
	struct ssll_layout *layout = bpf_map_lookup_elem(&layouts, &index);
	struct ssll_labels labels = {.tgid = this_process(), .ending = ending, .library = handshake->library}, key;
	struct ssll_cause_key cause = {
	        .error = errors_say_why(reason) ? handshake->error : 0,
	        .state = UNKNOWN_STATE,
	        .library = handshake->library,
	        .ending = ending,
	        .reason = reason,
	        .alert = handshake->alert,
	        .sent = !!(handshake->flags & SSLL_FLAG_ALERT_SENT),
	};
	struct ssll_handshake_row *row;
	__u64 state = 0;

	if (!layout)
		return;
	if (handshake->flags & SSLL_FLAG_PARTIAL) {
		count(&books.partial);
		close_account(ssl, labels.tgid);
		return;
	}
	settle_parts(handshake, now);
	labels.server = server;
	labels.known = SSLL_KNOWN(PROCESS) | SSLL_KNOWN(ROLE);
	read_labels(ssl, layout, &labels);
	if (handshake->key_operation == SSLL_KEY_OPERATION_DECRYPT) { /* nothing was signed, though an algorithm was chosen */
		labels.known &= ~SSLL_KNOWN(SIGNATURE);
		labels.signature = 0;
	}
	cause.alert = alert_on_the_wire(cause.alert, &labels);
	key = row_key(&labels);
	row = row_of(&key);
	if (row)
		add_row(row, handshake);
	else
		count(&account.map_full);
	if (handshake->pauses)
		count(&books.paused);
	if (ending == SSLL_ENDING_SUCCESS) {
		add_labels(&labels);
		add_key(handshake, &labels);
	} else {
		if (read_place(ssl, layout, SSLL_PLACE_OF_HAND_STATE, &state))
			cause.state = state;
		TALLY(causes, &cause, handshake->parts[SSLL_PART_WALL]);
	}
	if (handshake->parts[SSLL_PART_WALL] >= *(volatile __u64 *)&books.threshold_ns)
		emit_single(handshake, &labels, &cause, now);
	close_account(ssl, labels.tgid);
}

#endif
