/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "made_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf_helpers.h>

enum {
	MEMORY = 1 << 14,
	CHUNK = 16,
	FAULT = -14,
};

unsigned char kept_text[128];
__u64 made_up_thread;
static unsigned char memory[MEMORY];
static bool readable_chunks[MEMORY / CHUNK];
static __u64 base, used, state = 0x9e3779b97f4a7c15ULL;

__u64 any_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

__u32 any(__u32 below)
{
	return (any_word() >> 32) % below;
}

bool once_in(__u32 times)
{
	return !any(times);
}

void begin_memory(void)
{
	memset(readable_chunks, 0, sizeof(readable_chunks));
	base = (any_word() >> 20 << 4) + (1 << 16);
	used = 0;
}

__u64 place_for(__u32 size, bool readable)
{
	__u64 chunks = (size + CHUNK - 1) / CHUNK, at = used;

	if ((used += (chunks + any(3)) * CHUNK) > MEMORY) {
		fprintf(stderr, "the made-up memory is full\n");
		exit(2);
	}
	for (__u64 chunk = at / CHUNK; chunk < at / CHUNK + chunks; chunk++)
		readable_chunks[chunk] = readable;
	return base + at;
}

void write_made_up(__u64 to, const void *from, __u32 size)
{
	memcpy(memory + (to - base), from, size);
}

static bool is_readable(__u64 from)
{
	return from >= base && from - base < MEMORY && readable_chunks[(from - base) / CHUNK];
}

long read_made_up(void *to, __u32 size, __u64 from)
{
	memset(to, 0, size); /* as the kernel does where it can't read all */
	for (__u32 i = 0; i < size; i++) {
		if (!is_readable(from + i))
			return FAULT;
	}
	memcpy(to, memory + (from - base), size);
	return 0;
}

long read_made_up_string(void *to, __u32 size, __u64 from)
{
	unsigned char *text = to;

	for (__u32 i = 0; i < size; i++) {
		if (!is_readable(from + i))
			return FAULT;
		text[i] = memory[from + i - base];
		if (!text[i])
			return i + 1;
	}
	text[size - 1] = 0;
	return size;
}

void differ(const char *what, __u64 told, __u64 expected)
{
	fprintf(stderr, "%s: told %#llx, expected %#llx\n", what, told, expected);
	exit(1);
}
