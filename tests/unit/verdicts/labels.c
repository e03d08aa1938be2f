/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Has the programs' own code read the labels of connections that are made up at random, whole and damaged ones, and holds each
 * against what was laid there. Prints how often each label was known; ends with 1 at the first that differs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "made_up.h"

#include "handshake.h"
#include "handshakes/labels.bpf.h"
#include "labels/texts.bpf.h"

enum {
	TLS_1_3 = 0x0304,
	LONGEST = 100,
};

/* The value at the end of a path, and whether it can be had. */
struct made_value {
	bool known;
	__u64 value;
};

static bool may_make_text;

static __always_inline bool on_text(bool made)
{
	return made || may_make_text;
}

static __u64 of_size(__u64 value, __u32 size)
{
	return size == 8 ? value : value & ((1ULL << 8 * size) - 1);
}

/* A path from the SSL to this value, mostly sound. Its end is known where every pointer on it and the value itself is. */
static struct made_value lay_path(struct ssll_path *path, __u64 ssl, __u64 value)
{
	static const __u16 sizes[] = {1, 2, 4, 8, 0, 4, 2, 3};
	__u64 at = ssl, next, place;
	bool known = true;

	path->length = once_in(10) ? any(7) : 1 + any(SSLL_PATH_LENGTH);
	path->size = sizes[any(8)];
	path->bits = once_in(4) ? any_word() : 0;
	for (__u32 step = 0; step + 1 < path->length && step + 1 < SSLL_PATH_LENGTH; step++) {
		bool readable = !once_in(20), is_null = once_in(20);

		place = place_for(8, readable);
		next = is_null ? 0 : place_for(8, true);
		write_made_up(place, &next, sizeof(next));
		path->offsets[step] = place - at;
		known &= readable && !is_null;
		at = next;
	}
	if (path->length < 1 || path->length > SSLL_PATH_LENGTH || !known)
		return (struct made_value){};
	known = !once_in(20);
	place = place_for(8, known);
	write_made_up(place, &value, sizeof(value));
	path->offsets[path->length - 1] = place - at;
	if (!path->size) /* the address itself, whether anything can be read there or not */
		return (struct made_value){true, place};
	known &= path->size != 3; /* the size of no value */
	return (struct made_value){known, known ? of_size(value, path->size) & (path->bits ? path->bits : ~0ULL) : 0};
}

static __u64 any_value(enum ssll_place_of place, bool gnutls)
{
	static const __u64 versions[] = {0x0301, 0x0302, 0x0303, TLS_1_3, 0xfefd};
	static const __u64 protocols[] = {1, 2, 3, 4, 5, 200, 202, 255, 0, 6}; /* gnutls_protocol_t */

	if (place == SSLL_PLACE_OF_VERSION)
		return gnutls ? protocols[any(10)] : versions[any(5)];
	if (place == SSLL_PLACE_OF_VERIFY_MODE || place == SSLL_PLACE_OF_CREDENTIALS)
		return any(4);
	return once_in(3) ? 0 : any_word();
}

/* What GnuTLS' own values mean: its numbers of versions, the two bytes of a suite in their order, 0 for no signature; whether a
 * session was resumed is only known of a server and by TLS 1.3. */
static void mean_as_gnutls(struct made_value ends[SSLL_PLACES], bool server)
{
	static const __u16 versions[] = {0, 0x0300, 0x0301, 0x0302, 0x0303, TLS_1_3};
	struct made_value *version = &ends[SSLL_PLACE_OF_VERSION], *cipher = &ends[SSLL_PLACE_OF_CIPHER];
	__u16 protocol = version->value;

	version->value = protocol <= 5 ? versions[protocol] : 0;
	version->known &= version->value != 0;
	cipher->value = 0x03000000 | (cipher->value % 256) * 256 | cipher->value / 256 % 256;
	ends[SSLL_PLACE_OF_SIGNATURE].known &= (__u16)ends[SSLL_PLACE_OF_SIGNATURE].value != 0;
	if (!server && !(version->known && version->value == TLS_1_3))
		ends[SSLL_PLACE_OF_RESUMED] = (struct made_value){};
}

/* BoringSSL keeps a suite's two bytes as a number. */
static void mean_as_boringssl(struct made_value ends[SSLL_PLACES])
{
	struct made_value *cipher = &ends[SSLL_PLACE_OF_CIPHER];

	cipher->value = cipher->value ? cipher->value | 0x03000000 : 0;
}

/* Whether a certificate may be where certificates are, by GnuTLS' kind of credentials, which OpenSSL doesn't have. */
static bool is_by_certificate(const struct made_value *credentials)
{
	return !credentials->known || (__u32)credentials->value == 1;
}

static void expect(const struct ssll_labels *labels, enum ssll_label label, bool known, __u32 value)
{
	if ((labels->known >> label & 1) != known)
		differ("whether a label is known", label, known);
	if (labels->values[label] != (known ? value : 0))
		differ("a label's value", labels->values[label], value);
}

static void read_connections(long number, long known[SSLL_LABELS])
{
	for (long i = 0; i < number; i++) {
		struct made_value ends[SSLL_PLACES], group = {};
		struct ssll_labels labels = {};
		bool gnutls = once_in(3), boringssl = !gnutls && once_in(3), server = once_in(2), tls_1_3, resumed;
		struct ssll_library library = {.server_bits = 1};
		__u32 entity = server ? 1 : 2;
		__u64 ssl;

		library.stack = gnutls ? SSLL_STACK_GNUTLS : boringssl ? SSLL_STACK_BORINGSSL : SSLL_STACK_OPENSSL;
		begin_memory();
		ssl = place_for(8, true);
		for (__u32 place = 0; place < SSLL_PLACES; place++)
			ends[place] = lay_path(&library.paths[place], ssl, any_value(place, gnutls));
		write_made_up(ssl, &entity, sizeof(entity));
		if (once_in(2))
			library.paths[SSLL_PLACE_OF_GROUP].length = 0;
		if (gnutls)
			mean_as_gnutls(ends, server);
		if (!server) /* which alone asks for a client's certificate */
			ends[SSLL_PLACE_OF_VERIFY_MODE] = (struct made_value){};
		if (boringssl)
			mean_as_boringssl(ends);
		read_labels(ssl, &library, &labels);

		tls_1_3 = ends[SSLL_PLACE_OF_VERSION].known && (__u16)ends[SSLL_PLACE_OF_VERSION].value == TLS_1_3;
		resumed = ends[SSLL_PLACE_OF_RESUMED].known && ends[SSLL_PLACE_OF_RESUMED].value;
		expect(&labels, SSLL_LABEL_VERSION, ends[SSLL_PLACE_OF_VERSION].known,
		        (__u16)ends[SSLL_PLACE_OF_VERSION].value);
		expect(&labels, SSLL_LABEL_CIPHER, ends[SSLL_PLACE_OF_CIPHER].known, ends[SSLL_PLACE_OF_CIPHER].value);
		expect(&labels, SSLL_LABEL_RESUMED, ends[SSLL_PLACE_OF_RESUMED].known, resumed);
		expect(&labels, SSLL_LABEL_SIGNATURE, ends[SSLL_PLACE_OF_SIGNATURE].known,
		        (__u16)ends[SSLL_PLACE_OF_SIGNATURE].value);

		/* TLS 1.3: that of a key exchange of its own. Before: that of a session which isn't another handshake's. */
		if (ends[SSLL_PLACE_OF_DID_KEX].known && tls_1_3 && ends[SSLL_PLACE_OF_DID_KEX].value)
			group = ends[SSLL_PLACE_OF_GROUP_TLS13];
		if (ends[SSLL_PLACE_OF_DID_KEX].known && !tls_1_3 && !resumed)
			group = ends[SSLL_PLACE_OF_GROUP_SESSION];
		if (library.paths[SSLL_PLACE_OF_GROUP].length)
			group = resumed && !tls_1_3 ? (struct made_value){} : ends[SSLL_PLACE_OF_GROUP];
		expect(&labels, SSLL_LABEL_GROUP, group.known, (__u16)group.value);

		if (!ends[SSLL_PLACE_OF_VERIFY_MODE].known)
			expect(&labels, SSLL_LABEL_CLIENT_CERTIFICATE, false, 0);
		else if (gnutls ? !ends[SSLL_PLACE_OF_VERIFY_MODE].value : ends[SSLL_PLACE_OF_VERIFY_MODE].value % 2 == 0)
			expect(&labels, SSLL_LABEL_CLIENT_CERTIFICATE, true, SSLL_CLIENT_CERTIFICATE_NOT_ASKED);
		else if (!library.paths[SSLL_PLACE_OF_PEER_CERTIFICATE].length)
			expect(&labels, SSLL_LABEL_CLIENT_CERTIFICATE, false, 0);
		else
			expect(&labels, SSLL_LABEL_CLIENT_CERTIFICATE, true,
			        (ends[SSLL_PLACE_OF_PEER_CERTIFICATE].value &&
			                is_by_certificate(&ends[SSLL_PLACE_OF_CREDENTIALS])) ||
			                        ends[SSLL_PLACE_OF_PEER_DIGEST].value
			                ? SSLL_CLIENT_CERTIFICATE_GIVEN
			                : SSLL_CLIENT_CERTIFICATE_NOT_GIVEN);
		for (__u32 label = 0; label < SSLL_LABELS; label++)
			known[label] += labels.known >> label & 1;
	}
}

/* A text of so many bytes in memory of `room` bytes, which end it where it has no zero byte. */
static __u64 lay_text(unsigned char *text, __u32 length, __u32 room)
{
	__u64 at = place_for(room, true);

	place_for(16, false);
	for (__u32 i = 0; i < length; i++)
		text[i] = 1 + any(255);
	write_made_up(at, text, length);
	return at;
}

static void expect_text(const char *what, int number, const unsigned char *bytes, __u32 length)
{
	struct ssll_text expected = {.kind = 1, .length = length, .cut = length > SSLL_TEXT_LENGTH};

	if (!may_make_text) {
		if (number)
			differ(what, number, 0);
		return;
	}
	expected.length = expected.cut ? SSLL_TEXT_LENGTH : length;
	memcpy(expected.bytes, bytes, expected.length);
	if (number <= 0 || memcmp(kept_text, &expected, sizeof(expected)))
		differ(what, number, length);
}

static void read_texts(long number)
{
	for (long i = 0; i < number; i++) {
		unsigned char text[LONGEST + 1] = {};
		__u32 length = any(LONGEST);
		__u64 at;
		int told;

		begin_memory();
		last_text = 0;
		may_make_text = !once_in(4);
		at = lay_text(text, length, length + 1);
		write_made_up(at + length, "", 1);
		told = number_of_string(at, 1);
		if (!length && told != -1)
			differ("an empty string", told, -1);
		if (length)
			expect_text("a string", told, text, length);

		at = lay_text(text, length, length + 1);
		told = number_of_bytes(at, length, 1);
		if (!length && told != -1)
			differ("no bytes", told, -1);
		if (length)
			expect_text("bytes", told, text, length);
		told = number_of_bytes(place_for(16, false), 1 + any_word() % (1ULL << 40), 1);
		if (told != -1)
			differ("bytes that can't be read", told, -1);
	}
}

int main(int count, char **words)
{
	long number = count > 1 ? atol(words[1]) : 1000, known[SSLL_LABELS] = {};

	read_connections(number, known);
	read_texts(number);
	for (__u32 label = 0; label < SSLL_LABEL_ROLE; label++)
		printf("%u %ld\n", label, known[label]);
	return 0;
}
