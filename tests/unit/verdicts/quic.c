/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Has the programs' headers read IDs of connections over QUIC out of made-up messages and packets, as many as the argument
 * says: whole ones, and some that are damaged; and out of the messages whether a Retry was sent. Prints of how many messages
 * and packets an ID was told, and of how many messages a Retry, and none; ends with 1 at the first that differs from what was
 * made up.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made_up.h"

#include "labels/quic_ids.bpf.h"

enum {
	MOST = 4096,
	OTHER = 12,
};

static __u8 content[MOST], id[64];
static __u32 written, id_length, id_begin, id_end; /* where the parameter with the ID lies in the content */
static __u32 retries, none;                        /* messages that told of a Retry, and of none */
static bool found, retried, before, parsed; /* whether there are parameters that tell a Retry, before the ID, and have an end */

static void put(__u32 byte)
{
	content[written++] = byte;
}

static void put_any(__u32 number)
{
	while (number--)
		put(any(256));
}

static void put_big(__u64 value, __u32 size)
{
	while (size--)
		put(value >> 8 * size & 0xff);
}

/* In one of the lengths that hold it. */
static void put_integer(__u64 value)
{
	__u32 least = value < 1 << 6 ? 0 : value < 1 << 14 ? 1 : value < 1 << 30 ? 2 : 3, length = least + any(4 - least);

	put_big(value | (__u64)length << (8 * (1U << length) - 2), 1U << length);
}

static void put_id(void)
{
	for (__u32 i = 0; i < id_length; i++)
		put(id[i] = any(256));
}

/* Makes an ID up: one in four is of a length that none has. */
static void choose_id(void)
{
	id_length = once_in(4) ? (once_in(2) ? 0 : 21 + any(20)) : 1 + any(20);
}

static __u64 another_kind(void)
{
	__u64 kind = once_in(3) ? any_word() >> 2 : any(64);

	return kind == QUIC_INITIAL_SOURCE_ID || kind == QUIC_RETRY_SOURCE_ID ? QUIC_RETRY_SOURCE_ID + 1 : kind;
}

static void put_parameters(__u32 number)
{
	while (number--) {
		__u32 length = any(30);

		put_integer(another_kind());
		put_integer(length);
		put_any(length);
	}
}

static void put_retry(void)
{
	__u32 length = any(21);

	retried = true;
	put_integer(QUIC_RETRY_SOURCE_ID);
	put_integer(length);
	put_any(length);
}

/* The parameters of a server; whether they have an ID. One in eight says that it is longer than all. A Retry may be told before
 * it or behind. */
static bool put_own(void)
{
	bool there = !once_in(8), too_long = once_in(8);

	retried = false;
	parsed = !too_long || !there;
	put_parameters(any(OTHER));
	if (once_in(4))
		put_retry();
	before = retried;
	if (there) {
		id_begin = written;
		choose_id();
		put_integer(QUIC_INITIAL_SOURCE_ID);
		put_integer(too_long ? MOST : id_length);
		put_id();
		id_end = written;
	}
	if (parsed) {
		put_parameters(any(OTHER));
		if (!retried && once_in(4))
			put_retry();
	}
	return there && !too_long && id_length >= 1 && id_length <= SSLL_QUIC_ID_BYTES;
}

static void put_extensions(__u32 number)
{
	while (number--) {
		__u32 kind = any(1 << 16), length = any(40);

		put_big(kind == TLS_QUIC_PARAMETERS ? kind + 1 : kind, 2);
		put_big(length, 2);
		put_any(length);
	}
}

static void set_big(__u32 at, __u32 value, __u32 size)
{
	__u32 end = written;

	written = at;
	put_big(value, size);
	written = end;
}

/* A message, and whether it tells an ID. */
static bool put_message(void)
{
	bool tells = true;
	__u32 begin, end;

	written = 0;
	put(once_in(8) ? any(256) : TLS_ENCRYPTED_EXTENSIONS);
	tells = found = content[0] == TLS_ENCRYPTED_EXTENSIONS;
	put_big(0, 5);
	put_extensions(any(6));
	if (once_in(8)) {
		tells = found = false;
	} else {
		put_big(TLS_QUIC_PARAMETERS, 2);
		begin = written;
		put_big(0, 2);
		tells &= put_own();
		if (once_in(8)) { /* it says that it is longer than all */
			set_big(begin, MOST, 2);
			tells = found = false;
		} else if (tells && once_in(8)) { /* they end before the ID does */
			end = id_end - 1 - any(id_length + 2);
			set_big(begin, end - begin - 2, 2);
			tells = false;
			retried = before;
			parsed = end == id_begin;
		} else {
			set_big(begin, written - begin - 2, 2);
		}
		put_extensions(any(6));
	}
	set_big(1, written - 4, 3);
	set_big(4, written - 6, 2);
	if (once_in(16)) { /* one of the lengths is another's */
		__u32 other = written - 6 + 1 + any(3);

		once_in(2) ? set_big(1, other + 2, 3) : set_big(4, other, 2);
		tells = found = false;
	}
	return tells;
}

static __u64 lay(void)
{
	__u64 at;

	begin_memory();
	at = place_for(written + 64, true);
	write_made_up(at, content, written);
	return at;
}

static void hold(const char *what, bool told, bool expected, const struct ssll_quic_id *read)
{
	if (told != expected)
		differ(what, told, expected);
	if (told && (read->length != id_length || memcmp(read->bytes, id, id_length)))
		differ("the ID's length", read->length, id_length);
}

static enum quic_retry due_retry(void)
{
	if (!found || !(before || parsed))
		return QUIC_RETRY_UNKNOWN;
	return retried ? QUIC_RETRY_SENT : QUIC_RETRY_NOT_SENT;
}

static bool check_message(void)
{
	bool tells = put_message();
	struct ssll_quic_id read = {};
	__u64 at = lay(), parameters = parameters_in_message(at, written);
	enum quic_retry retry = QUIC_RETRY_UNKNOWN;
	bool told = false;

	if (parameters) {
		told = read_own_id(parameters >> 16, (parameters >> 16) + (parameters & 0xffff), &read);
		retry = find_quic_retry(parameters >> 16, (parameters >> 16) + (parameters & 0xffff));
	}
	hold("whether a message tells an ID", told, tells, &read);
	if (retry != due_retry())
		differ("whether a message tells a Retry", retry, due_retry());
	retries += retry == QUIC_RETRY_SENT;
	none += retry == QUIC_RETRY_NOT_SENT;
	return tells;
}

/* A packet, and whether it is of a handshake and bears an ID. */
static bool check_packet(void)
{
	static const __u32 versions[] = {0, QUIC_V1, QUIC_V2, 0xff00001d};
	__u32 version = versions[once_in(2) ? 1 : any(4)], first = once_in(4) ? any(256) : 0x80 | (any(2) * 2) << 4 | any(16);
	__u32 kind = first >> 4 & 3, receivers = once_in(8) ? any(256) : any(21), cut = 0;
	struct ssll_quic_id read = {};
	bool due, told;
	__u64 at;

	written = 0;
	choose_id();
	put(first);
	put_big(version, 4);
	put(receivers);
	put_any(receivers);
	put(id_length);
	put_id();
	due = first & 0x80 && receivers <= 20 && id_length >= 1 && id_length <= 20;
	if (version == QUIC_V1)
		due &= kind == 0 || kind == 2;
	else
		due &= version == QUIC_V2 && (kind == 1 || kind == 3);
	if (once_in(8)) { /* it ends too early */
		cut = 1 + any(written);
		due = false;
	}
	at = lay();
	told = read_source_id(at, at + written - cut, &read);
	hold("whether a packet bears an ID", told, due, &read);
	return told;
}

int main(int count, char **words)
{
	__u32 messages = 0, packets = 0;

	for (long number = count == 2 ? atol(words[1]) : 0; number; number--) {
		messages += check_message();
		packets += check_packet();
	}
	printf("%u %u %u %u\n", messages, packets, retries, none);
	return 0;
}
