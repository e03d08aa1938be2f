/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The times of handshakes that have ended, by the labels that are asked for and by part. */
#ifndef ROWS_BPF_H
#define ROWS_BPF_H

#include "times.bpf.h"
#include "labels.bpf.h"
#include "tasks.bpf.h"

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

/* The names of processes that have rows of their own, kept for when they are gone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct ssll_process);
} processes SEC(".maps");

__noinline int keep_name(__u32 tgid)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct ssll_process process = {};

	BPF_CORE_READ_STR_INTO(&process.comm, task, group_leader, comm);
	bpf_map_update_elem(&processes, &tgid, &process, BPF_NOEXIST);
	return 0;
}

/* The row that handshakes with these labels count in; past the most rows, or the most of one process, that of "other", made by
 * user space. */
static __always_inline struct ssll_handshake_row *row_of(const struct ssll_labels *labels)
{
	const struct ssll_labels other = {.known = 1U << SSLL_LABEL_OTHER, .ending = labels->ending};
	const __u32 zero = 0;
	struct ssll_handshake_row *row = bpf_map_lookup_elem(&rows, labels);

	if (row)
		return row;
	row = FOUND_OR_FAIRLY_MADE(&rows, labels, bpf_map_lookup_elem(&blank_row, &zero), rows, view.most_rows);
	if (row && labels->tgid)
		keep_name(labels->tgid);
	return row ? row : bpf_map_lookup_elem(&rows, &other);
}

union label_words {
	struct ssll_labels labels;
	__u32 words[sizeof(struct ssll_labels) / sizeof(__u32)];
};

/* What the row is told apart by: the labels that were asked for. */
static __always_inline struct ssll_labels row_key(const struct ssll_labels *all)
{
	const volatile __u32 *mask = (const volatile __u32 *)&view.mask; /* copied whole, it would pass for the constant 0 */
	union label_words key = {.labels = *all};

	for (__u32 word = 0; word < sizeof(key) / sizeof(*key.words); word++)
		key.words[word] &= mask[word];
	return key.labels;
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

static __always_inline void add_times(const struct ssll_labels *labels, const struct ssll_handshake *handshake)
{
	struct ssll_labels key = row_key(labels);
	struct ssll_handshake_row *row = row_of(&key);

	if (row)
		add_row(row, handshake);
	else
		count(&account.map_full);
}

#endif
