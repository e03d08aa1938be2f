/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Holds what bpftrace's script says of a connection, as scripted.h has it in C, against the verdict of the programs: for each
 * of its layouts, of all codes with all that else is looked at. What can't be read is 0 to bpftrace, so all of it can. Prints
 * how often each verdict was told; ends with 1 at the first that differs.
 */
#include <stdio.h>
#include <string.h>

#include "made_up.h"

#include "stacks/outcome.bpf.h"

enum {
	OBJECT = 256,
	CODES = 40,
	FLAGS = 16,
	REASONS = 5,
	VERDICTS = 4 * 32,
};

#define TOLD(outcome, reason) ((__u32)(outcome)*32 + (__u32)(reason))

static __s32 read32(__u64 from)
{
	__s32 value = 0;

	return bpf_probe_read_user(&value, sizeof(value), from) ? 0 : value;
}

static __u64 read64(__u64 from)
{
	__u64 value = 0;

	return bpf_probe_read_user(&value, sizeof(value), from) ? 0 : value;
}

typedef __u32 judge(__u64 ssl, __s32 returned);

#include "scripted.h"

/* What a connection holds beside its code. */
struct made_up {
	__u64 ssl, holder, rbio, wbio;
	__u32 type, shutdown, state, flags, reason;
	__s32 returned;
};

static void write32(__u64 object, __s32 offset, __u32 value)
{
	if (offset >= 0)
		write_made_up(object + offset, &value, sizeof(value));
}

static void write64(__u64 object, __s32 offset, __u64 value)
{
	if (offset >= 0)
		write_made_up(object + offset, &value, sizeof(value));
}

static void write_bio(__u64 bio, const struct ssll_library *library, __u32 flags, __u32 reason)
{
	if (!bio || library->bio_flags < 0)
		return;
	write32(bio, library->bio_flags, flags);
	write32(bio, library->bio_flags + 4, reason);
}

static void write_connection(const struct made_up *made, const struct ssll_library *library)
{
	if (library->typed)
		write32(made->ssl, 0, made->type);
	write64(made->ssl, library->holder, made->holder);
	write32(made->ssl, library->shutdown, made->shutdown);
	write32(made->ssl, library->state, made->state);
	write64(made->ssl, library->rbio, made->rbio);
	write64(made->ssl, library->wbio, made->wbio);
	write_bio(made->rbio, library, made->flags, made->reason);
	write_bio(made->wbio, library, (made->flags + 5) % FLAGS, (made->reason + 3) % REASONS);
}

static void judge_all_codes(const struct made_up *made, const struct ssll_library *library, judge *scripted, long *told)
{
	static const __u32 others[] = {99, 100, 3000, ~0U};

	for (__u32 i = 0; i < CODES + sizeof(others) / sizeof(*others); i++) {
		__u32 code = i < CODES ? i : others[i - CODES], of_script;
		struct verdict verdict;

		write32(made->holder ? made->holder : made->ssl, library->rwstate, code);
		verdict = judge_ssl(made->ssl, made->returned, library);
		of_script = scripted(made->ssl, made->returned);
		if (of_script != TOLD(verdict.outcome, verdict.reason)) {
			fprintf(stderr, "code %u, returned %d, type %u, shutdown %u, state %u, flags %u, reason %u\n", code,
			        made->returned, made->type, made->shutdown, made->state, made->flags, made->reason);
			differ("verdict of the script", of_script, TOLD(verdict.outcome, verdict.reason));
		}
		told[of_script]++;
	}
}

/* All that a connection of this layout may hold: number `number` of it. */
static bool make_up(__u32 number, struct made_up *made)
{
	static const __u32 types[] = {0, 1, 0x80};

	made->flags = number % FLAGS;
	made->reason = (number /= FLAGS) % REASONS;
	made->state = (number /= REASONS) % 3;
	made->shutdown = (number /= 3) % 4;
	made->returned = (__s32)((number /= 4) % 3) - 1;
	made->type = types[(number /= 3) % 3];
	return number < 3;
}

static void judge_layout(const struct ssll_library *library, judge *scripted, long *told)
{
	struct made_up made = {}, without;
	__u64 rbio, wbio;

	begin_memory();
	made.ssl = place_for(OBJECT, true);
	made.holder = library->holder >= 0 ? place_for(OBJECT, true) : 0;
	rbio = place_for(OBJECT, true);
	wbio = place_for(OBJECT, true);
	for (__u32 number = 0; make_up(number, &made); number++) {
		made.rbio = number % 7 ? rbio : 0;
		made.wbio = number % 11 ? wbio : 0;
		write_connection(&made, library);
		judge_all_codes(&made, library, scripted, told);
	}
	without = made;
	without.holder = 0;
	write_connection(&without, library);
	judge_all_codes(&without, library, scripted, told);
	if (scripted(0, -1) != TOLD(SSLL_RETRY, SSLL_REASON_UNKNOWN))
		differ("verdict of the script without a connection", scripted(0, -1), TOLD(SSLL_RETRY, SSLL_REASON_UNKNOWN));
}

int main(void)
{
	long told[VERDICTS] = {};

	for (__u32 i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		struct ssll_library library;

		memcpy(&library, layouts[i].record, sizeof(library));
		judge_layout(&library, layouts[i].scripted, told);
	}
	for (__u32 i = 0; i < VERDICTS; i++) {
		if (told[i])
			printf("%u %u %ld\n", i / 32, i % 32, told[i]);
	}
	return 0;
}
