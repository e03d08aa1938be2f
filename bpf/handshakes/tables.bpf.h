/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is counted of handshakes that have ended: their times by the labels that are asked for and by part; how many failed of
 * which cause, used which key, had which label.
 */
#ifndef HANDSHAKES_TABLES_BPF_H
#define HANDSHAKES_TABLES_BPF_H

#include "common/tasks.bpf.h"
#include "common/times.bpf.h"
#include "handshakes/labels.bpf.h"

/* Which row counts the handshakes with these labels. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct ssll_labels);
	__type(value, __u32);
} rows SEC(".maps");

/* The rows themselves, in memory that user space reads in place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_handshake_row);
} row_counts SEC(".maps");

/* The rows that count nothing yet, and are empty: user space puts them here. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 64);
	__type(value, __u32);
} free_rows SEC(".maps");

/* The names of processes that have rows of their own, kept for when they are gone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct ssll_process);
} processes SEC(".maps");

__noinline int keep_process_name(__u32 tgid)
{
	struct ssll_process process = {};

	read_process_name(&process);
	bpf_map_update_elem(&processes, &tgid, &process, BPF_NOEXIST);
	return 0;
}

union label_words {
	struct ssll_labels labels;
	__u32 words[sizeof(struct ssll_labels) / sizeof(__u32)];
};

/* What the row is told apart by: the labels that were asked for. */
static __always_inline void set_row_key(union label_words *key, const struct ssll_labels *all)
{
	const volatile __u32 *mask =
	        (const volatile __u32 *)&handshake_config.mask; /* copied whole, it would pass for the constant 0 */
	const __u32 *words = (const __u32 *)all;

	for (__u32 word = 0; word < sizeof(*key) / sizeof(*key->words); word++)
		key->words[word] = words[word] & mask[word];
}

static __always_inline struct ssll_handshake_row *row_at(const __u32 *number)
{
	return number ? bpf_map_lookup_elem(&row_counts, number) : NULL;
}

/* The number of a row that was free and has this key now, or of the one that another thread made first. */
static __always_inline __u32 *make_row(const struct ssll_labels *key)
{
	__u32 fresh = 0, *number;

	if (bpf_map_pop_elem(&free_rows, &fresh))
		return NULL;
	number = lookup_or_init_shared(&rows, key, &fresh, SSLL_SHARED_ROWS, handshake_config.most_rows);
	if (!number || *number != fresh)
		bpf_map_push_elem(&free_rows, &fresh, 0);
	return number;
}

/* The row with this key, made where it is new; NULL past the most rows, or the most of one process. */
static __always_inline struct ssll_handshake_row *find_own_row(const struct ssll_labels *key)
{
	__u32 *number = bpf_map_lookup_elem(&rows, key);

	if (number)
		return row_at(number);
	number = make_row(key);
	if (number && key->values[SSLL_LABEL_PROCESS])
		keep_process_name(key->values[SSLL_LABEL_PROCESS]);
	return row_at(number);
}

/* The row that handshakes with this key count in: their own, or that of "other", made by user space. */
static __always_inline struct ssll_handshake_row *find_row(union label_words *key)
{
	__u8 ending = key->labels.ending;
	struct ssll_handshake_row *row = is_known(&key->labels, SSLL_LABEL_OTHER) ? NULL : find_own_row(&key->labels);

	if (row)
		return row;
	for (__u32 word = 0; word < sizeof(*key) / sizeof(*key->words); word++)
		key->words[word] = 0;
	key->labels.known = 1U << SSLL_LABEL_OTHER;
	key->labels.ending = ending;
	return row_at(bpf_map_lookup_elem(&rows, key));
}

/* Parts that every handshake has, whatever their length; the others only count where they occurred. */
static __always_inline bool is_always_counted(__u32 part)
{
	return part == SSLL_PART_WALL || part == SSLL_PART_CALLS || part == SSLL_PART_REST;
}

__noinline int add_row(struct ssll_handshake_row *row, const struct ssll_handshake *handshake)
{
	if (!row || !handshake)
		return 0;
	for (__u32 part = 0; part < SSLL_PARTS; part++) {
		if (handshake->parts[part] || is_always_counted(part))
			add_time(&row->parts[part], handshake->parts[part]);
	}
	return 0;
}

static __always_inline void add_fact(struct ssll_handshake_row *row, enum ssll_fact fact, __u64 number)
{
	if (number)
		__sync_fetch_and_add(&row->facts[fact], number);
}

static __always_inline void add_flag(
        struct ssll_handshake_row *row, enum ssll_fact fact, const struct ssll_handshake *handshake, enum ssll_flag flag)
{
	add_fact(row, fact, !!(handshake->flags & flag));
}

/* Whether the client wanted to resume a session, and why it wasn't resumed. Where a lookup may have gone unwatched nothing is
 * counted, not even what was resumed: refused sessions would seem to be rarer than they are. */
static __always_inline void add_offer(
        struct ssll_handshake_row *row, const struct ssll_handshake *handshake, const struct ssll_labels *labels)
{
	bool resumed = labels->values[SSLL_LABEL_RESUMED];

	if (labels->ending != SSLL_ENDING_SUCCESS || !is_known(labels, SSLL_LABEL_RESUMED))
		return;
	if (handshake->flags & SSLL_FLAG_UNPHASED)
		return;
	add_fact(row, SSLL_FACT_OFFERED, resumed || handshake->flags & (SSLL_FLAG_TICKET | SSLL_FLAG_CACHE));
	if (resumed)
		return;
	if (handshake->flags & SSLL_FLAG_TICKET)
		add_fact(row, SSLL_FACT_TICKETS_REFUSED, 1);
	else
		add_flag(row, SSLL_FACT_CACHE_MISSES, handshake, SSLL_FLAG_CACHE);
}

__noinline int add_facts(
        struct ssll_handshake_row *row, const struct ssll_handshake *handshake, const struct ssll_labels *labels)
{
	if (!row || !handshake || !labels)
		return 0;
	add_offer(row, handshake, labels);
	add_flag(row, SSLL_FACT_UNPHASED, handshake, SSLL_FLAG_UNPHASED);
	add_flag(row, SSLL_FACT_HELLO_RETRY_KNOWN, handshake, SSLL_FLAG_RETRY_KNOWN);
	add_flag(row, SSLL_FACT_HELLO_RETRIES, handshake, SSLL_FLAG_RETRY);
	add_flag(row, SSLL_FACT_QUIC_RETRY_KNOWN, handshake, SSLL_FLAG_QUIC_RETRY_KNOWN);
	add_flag(row, SSLL_FACT_QUIC_RETRIES, handshake, SSLL_FLAG_QUIC_RETRY);
	/* Of a socket that another goroutine reads nothing was seen: what it has sent is asked for at waits. */
	if (!handshake->socket || ((handshake->flags & SSLL_FLAG_GOROUTINE) && (handshake->flags & SSLL_FLAG_SLEPT)))
		return 0;
	add_fact(row, SSLL_FACT_SOCKET, 1);
	add_fact(row, SSLL_FACT_FLIGHTS, handshake->flights);
	add_fact(row, SSLL_FACT_FLIGHT_BYTES, handshake->flight_bytes);
	add_flag(row, SSLL_FACT_UNSENT, handshake, SSLL_FLAG_UNSENT);
	add_flag(row, SSLL_FACT_RETRANSMITTED, handshake, SSLL_FLAG_LOST);
	add_fact(row, SSLL_FACT_RETRANSMISSIONS, handshake->retransmissions);
	add_flag(row, SSLL_FACT_GONE, handshake, SSLL_FLAG_GONE);
	return 0;
}

static __always_inline void add_resumption(struct ssll_handshake_row *row, const struct ssll_labels *labels)
{
	if (labels->ending != SSLL_ENDING_SUCCESS || !is_known(labels, SSLL_LABEL_RESUMED))
		return;
	count(&row->resumption_known);
	if (labels->values[SSLL_LABEL_RESUMED])
		count(&row->resumed);
}

/*
 * Returns the process that the row is told apart by, 0 where it isn't or the row is that of "other": what else is counted of
 * the handshake goes with its row. Not inlined: its keys would lie on the stack of whatever is called before it, too.
 */
static __noinline __u32 add_times(const struct ssll_labels *labels, const struct ssll_handshake *handshake)
{
	union label_words key;
	struct ssll_handshake_row *row;

	set_row_key(&key, labels);
	row = find_row(&key);
	if (!row) {
		count(&counters.map_full);
		return 0;
	}
	count_in_order(&row->begun);
	add_row(row, handshake);
	add_resumption(row, labels);
	add_facts(row, handshake, labels);
	count_in_order(&row->changes);
	return key.labels.values[SSLL_LABEL_PROCESS];
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_CAUSES);
	__type(key, struct ssll_cause_key);
	__type(value, struct ssll_tally);
} causes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_KEYS);
	__type(key, struct ssll_key_use);
	__type(value, struct ssll_tally);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_MIX);
	__type(key, struct ssll_mix_key);
	__type(value, __u64);
} mix SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_COMBINATIONS);
	__type(key, struct ssll_combination_key);
	__type(value, __u64);
} combinations SEC(".maps");

const struct ssll_tally blank_tally = {};

/* NULL where a map had no room for it. */
static __always_inline void add_tally(struct ssll_tally *tally, __u64 duration_ns)
{
	count_or_map_full(tally ? &tally->count : NULL);
	if (tally)
		__sync_fetch_and_add(&tally->total_ns, duration_ns);
}

static __always_inline void add_cause(const struct ssll_cause_key *cause, __u64 duration_ns)
{
	add_tally(lookup_or_init_shared(&causes, cause, &blank_tally, SSLL_SHARED_CAUSES, MOST_OF(SSLL_CAUSES)), duration_ns);
}

__noinline int add_label(__u32 tgid, __u32 label, __u32 library, __u64 value)
{
	struct ssll_mix_key key = {.tgid = tgid, .label = label, .library = library, .value = value};
	const __u64 none = 0;

	count_or_map_full(lookup_or_init_shared(&mix, &key, &none, SSLL_SHARED_MIX, MOST_OF(SSLL_MIX)));
	return 0;
}

/* Whether the label's values are codes that each library has names of its own for. */
static __always_inline bool has_own_names(enum ssll_label label)
{
	return label == SSLL_LABEL_CIPHER || label == SSLL_LABEL_GROUP || label == SSLL_LABEL_SIGNATURE;
}

/* Whether all labels could be counted at once: there are few combinations of them. */
static __always_inline bool add_combination(const struct ssll_labels *labels, __u32 tgid)
{
	struct ssll_combination_key key = {
	        .tgid = tgid,
	        .library = labels->library,
	        .known = labels->known & ((1U << SSLL_LABEL_ROLE) - 1),
	};
	const __u64 none = 0;
	__u64 *counted;

#pragma unroll
	for (__u32 label = 0; label < SSLL_LABEL_ROLE; label++)
		key.values[label] = labels->values[label];
	counted = lookup_or_init_shared(&combinations, &key, &none, SSLL_SHARED_COMBINATIONS, MOST_OF(SSLL_COMBINATIONS));
	if (counted)
		count(counted);
	return counted;
}

__noinline int add_labels(const struct ssll_labels *labels, __u32 tgid)
{
	if (!labels || add_combination(labels, tgid))
		return 0;
#pragma unroll
	for (__u32 label = 0; label < SSLL_LABEL_ROLE; label++) {
		if (is_known(labels, label))
			add_label(tgid, label, has_own_names(label) ? labels->library : 0, labels->values[label]);
	}
	return 0;
}

static __always_inline void add_key(const struct ssll_handshake *handshake, const struct ssll_labels *labels, __u32 tgid)
{
	struct ssll_key_use key = {
	        .tgid = tgid,
	        .bytes = handshake->key_bytes,
	        .operation = handshake->key_operation,
	        .library = labels->library,
	};

	if (!handshake->key_operation)
		return;
	if (handshake->key_operation == SSLL_KEY_OPERATION_SIGN)
		key.signature =
		        handshake->flags & SSLL_FLAG_GOROUTINE ? handshake->key_kind : labels->values[SSLL_LABEL_SIGNATURE];
	add_tally(lookup_or_init_shared(&keys, &key, &blank_tally, SSLL_SHARED_KEYS, MOST_OF(SSLL_KEYS)),
	        handshake->parts[SSLL_PART_PRIVATE_KEY]);
}

#endif
