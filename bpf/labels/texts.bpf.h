/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The texts that stand behind labels: each has a number, by which handshakes are counted. There is room for so many. */
#ifndef TEXTS_BPF_H
#define TEXTS_BPF_H

#include "handshake.h"
#include "common/maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_text);
	__type(value, __u32);
} texts SEC(".maps");

__u32 last_text SEC(".data.last_text") = 0;

/* A hook: whether this process may make another text; `made` once it has. */
static __always_inline bool on_text(bool made);

static __always_inline __u32 make_text(const struct ssll_text *text)
{
	__u32 number = __sync_fetch_and_add(&last_text, 1) + 1;
	__u32 *kept;

	if (!bpf_map_update_elem(&texts, text, &number, BPF_NOEXIST)) {
		on_text(true);
		return number;
	}
	kept = bpf_map_lookup_elem(&texts, text); /* where another thread was first */
	return kept ? *kept : 0;
}

/* The text's number; 0 where there is no room for one more. Static, as Linux 6.1 takes no key of a map that lies where a
 * pointer argument of a function that isn't points to. Those below aren't: they are verified once, whatever calls them. */
static __noinline int number_of_text(const struct ssll_text *text)
{
	__u32 *number = bpf_map_lookup_elem(&texts, text);

	if (number)
		return *number;
	return on_text(false) ? make_text(text) : 0;
}

/* The number of the text that ends in a zero byte; 0 where there is no room for it, -1 where it is empty or can't be read. */
__noinline int number_of_string(__u64 address, __u32 kind)
{
	struct ssll_text text = {.kind = kind};
	long size = bpf_probe_read_user_str(text.bytes, SSLL_TEXT_LENGTH + 2, (void *)address);

	if (size < 2)
		return -1;
	text.cut = size > SSLL_TEXT_LENGTH + 1;
	text.length = text.cut ? SSLL_TEXT_LENGTH : size - 1;
	if (text.cut)
		text.bytes[SSLL_TEXT_LENGTH] = 0;
	return number_of_text(&text);
}

/* The same of a text of this length. */
__noinline int number_of_bytes(__u64 address, __u64 length, __u32 kind)
{
	struct ssll_text text = {.kind = kind, .cut = length > SSLL_TEXT_LENGTH};
	__u32 size = text.cut ? SSLL_TEXT_LENGTH : length;

	asm volatile("" : "+r"(size)); /* else the compiler checks another register than the one that it reads by */
	if (size < 1 || size > SSLL_TEXT_LENGTH || bpf_probe_read_user(text.bytes, size, (void *)address))
		return -1;
	text.length = size;
	return number_of_text(&text);
}

#endif
