/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The certificates that servers serve: how often, at which port and to whom by the name that was asked for, and the certificate
 * itself once, for user space to read. OpenSSL keeps what was signed of one as it came; the other libraries keep the whole. A
 * full handshake of OpenSSL's has one where the library has chosen an algorithm to sign with; a resumed one has none.
 *
 * Of a certificate only that is read which the server sends to anybody. Its private key lies beside the pointer to it, and that
 * pointer alone is read there.
 */
#ifndef HANDSHAKES_CERTIFICATES_BPF_H
#define HANDSHAKES_CERTIFICATES_BPF_H

#include "handshakes/labels.bpf.h"
#include "labels/sockets.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_certificate_key);
	__type(value, __u32);
} certificates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_served_key);
	__type(value, struct ssll_served);
} served SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
} new_certificates SEC(".maps");

__u32 last_certificate SEC(".data.last_certificate") = 0;

const struct ssll_served blank_served = {.chain = -1};

/* include/openssl/asn1.h, the same from 1.1.1 on. */
struct asn1_encoding {
	__u64 bytes;
	__s64 length;
	__s32 modified; /* else than 0: the certificate was changed since, or is still to be encoded */
	__s32 pad;
};

struct asn1_string {
	__s32 length;
	__s32 type;
	__u64 bytes;
};

/* crypto/stack/stack.c, the same from 1.1.1 on. */
struct asn1_stack {
	__s32 count;
	__s32 pad;
	__u64 members;
};

/* A slice of Go's. */
struct go_slice {
	__u64 data;
	__u64 length;
	__u64 room;
};

enum {
	DER_INTEGER = 0x02,
	DER_SEQUENCE = 0x30,
	DER_VERSION = 0xa0,            /* of a certificate, of three bytes */
	DER_ONE_BYTE_OF_LENGTH = 0x81, /* of what has 128 bytes or more; no certificate has less */
	DER_TWO_BYTES_OF_LENGTH = 0x82,
	LARGEST_SIGNATURE = 1 << 16,
	MOST_CHAIN = 64,     /* certificates that go with another; more are none */
	MOST_CHAIN_READ = 8, /* those whose bytes are added up; of more they aren't known */
	CHOSEN_CHAIN = 32,   /* where the length of the chain lies in ssll_handshake.chosen, behind the number, */
	CHOSEN_BYTES = 40,   /* and its bytes; 0: they aren't known */
	UNKNOWN_CHAIN = 255, /* in place of that length */
	MOST_SLOTS = 16,     /* AWS-LC has three */
	MOST_CHOSEN_BYTES = 1 << 24,
};

/* Whether a DER sequence of just this length lies there. */
static __always_inline bool is_sequence(__u64 bytes, __u64 length)
{
	__u8 header[4] = {};

	if (length < 128 || length >= 1 << 16 || bpf_probe_read_user(header, sizeof(header), (void *)bytes) ||
	        header[0] != DER_SEQUENCE)
		return false;
	if (header[1] == DER_ONE_BYTE_OF_LENGTH)
		return header[2] + 3ULL == length;
	return header[1] == DER_TWO_BYTES_OF_LENGTH && (__u64)(header[2] << 8 | header[3]) + 4 == length;
}

/* What was signed of a certificate of OpenSSL's, as it came; false where it isn't there, or was changed since. Not inlined: its
 * caller has no stack to spare. */
static __noinline bool read_signed(__u64 encoding_at, struct asn1_encoding *encoding)
{
	return !bpf_probe_read_user(encoding, sizeof(*encoding), (void *)encoding_at) && !encoding->modified &&
	       is_sequence(encoding->bytes, encoding->length);
}

/* Hands the certificate over, and gives it a number; 0 where there is no room. Nothing is copied of one that is too long. */
static __noinline __u32 hand_over(__u64 bytes, __u32 length, __u32 signature_length)
{
	struct ssll_certificate *certificate = bpf_ringbuf_reserve(&new_certificates, sizeof(*certificate), 0);
	__u32 size, number;

	if (!certificate)
		return 0;
	certificate->length = length;
	certificate->signature_length = signature_length;
	certificate->pad = 0;
	size = length;
	asm volatile("" : "+r"(size)); /* else the compiler checks another register than the one that it reads by */
	if (size <= SSLL_CERTIFICATE_MOST_BYTES && bpf_probe_read_user(certificate->bytes, size, (void *)bytes)) {
		bpf_ringbuf_discard(certificate, 0);
		return 0;
	}
	number = __sync_fetch_and_add(&last_certificate, 1) + 1;
	certificate->number = number;
	bpf_ringbuf_submit(certificate, 0);
	return number;
}

/* Hands a certificate over that isn't known yet. Room is taken for it first: without any, each handshake would hand it over.
 * Another thread that comes upon it meanwhile finds no number, and its handshake counts as untold. */
static __always_inline __u32 make_known(
        const struct ssll_certificate_key *key, __u64 bytes, __u32 length, __u32 signature_length)
{
	__u64 *entries = entries_of(key->tgid, SSLL_SHARED_CERTIFICATES);
	__u32 number = 0;

	if (!entries || (__s64)*entries >= SSLL_CERTIFICATES_OF_PROCESS ||
	        bpf_map_update_elem(&certificates, key, &number, BPF_NOEXIST))
		return 0;
	count(entries);
	number = hand_over(bytes, length, signature_length);
	if (number) {
		bpf_map_update_elem(&certificates, key, &number, BPF_EXIST);
	} else if (!bpf_map_delete_elem(&certificates, key)) {
		release_entry(key->tgid, SSLL_SHARED_CERTIFICATES);
	}
	return number;
}

/* The number of the certificate of OpenSSL's whose encoding lies there, which is handed over where it is new; 0 where that
 * can't be. */
static __noinline __u32 number_of_certificate(__u64 encoding_at, __u64 signature_at)
{
	struct ssll_certificate_key key = {.tgid = this_process()};
	union { /* one after the other: there is no stack to spare */
		struct asn1_string signature;
		struct asn1_encoding encoding;
	} read = {};
	__u32 *number;

	if (bpf_probe_read_user(&read.signature, sizeof(read.signature), (void *)signature_at) ||
	        read.signature.length < SSLL_CERTIFICATE_TELLING_BYTES || read.signature.length > LARGEST_SIGNATURE)
		return 0;
	key.signature_length = read.signature.length;
	if (bpf_probe_read_user(key.signature, sizeof(key.signature),
	            (void *)(read.signature.bytes + read.signature.length - SSLL_CERTIFICATE_TELLING_BYTES)))
		return 0;
	number = bpf_map_lookup_elem(&certificates, &key);
	if (number)
		return *number;
	if (!read_signed(encoding_at, &read.encoding))
		return 0;
	return make_known(&key, read.encoding.bytes, read.encoding.length, key.signature_length);
}

/* The same of a certificate that is kept as a whole: it ends with its signature. */
static __noinline __u32 number_of_whole(__u64 bytes, __u64 length)
{
	struct ssll_certificate_key key = {.tgid = this_process(), .signature_length = length};
	__u32 *number;

	if (!is_sequence(bytes, length) || bpf_probe_read_user(key.signature, sizeof(key.signature),
	                                           (void *)(bytes + length - SSLL_CERTIFICATE_TELLING_BYTES)))
		return 0;
	number = bpf_map_lookup_elem(&certificates, &key);
	return number ? *number : make_known(&key, bytes, length, 0);
}

/* The bytes of a slice of certificates but for the first, each of which is a slice; 0 where they aren't all to be seen. */
static __noinline __u32 go_chain_bytes(__u64 members, __u32 count)
{
	struct go_slice member;
	__u32 bytes = 0;

	if (count > MOST_CHAIN_READ)
		return 0;
	for (__u32 number = 0; number < MOST_CHAIN_READ; number++) {
		if (number >= count)
			break;
		if (bpf_probe_read_user(&member, sizeof(member), (void *)(members + (number + 1) * sizeof(member))))
			return 0;
		if (!is_sequence(member.data, member.length))
			return 0;
		bytes += member.length;
	}
	return bytes;
}

/* A server of Go's has chosen this *tls.Certificate, which begins with the slice of its certificates; 0: none. Returns what
 * ssll_handshake.chosen is then, without a number where it can't be read. Behind that slice lies the private key. */
__noinline __u64 choose_go_certificate(__u64 certificate)
{
	const __u64 untold = (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN;
	struct go_slice chain = {}, first = {};
	__u64 number, count, bytes;

	if (!certificate)
		return 0;
	if (bpf_probe_read_user(&chain, sizeof(chain), (void *)certificate) || !chain.length || chain.length > MOST_CHAIN ||
	        bpf_probe_read_user(&first, sizeof(first), (void *)chain.data))
		return untold;
	number = number_of_whole(first.data, first.length);
	if (!number)
		return untold;
	count = chain.length - 1;
	bytes = go_chain_bytes(chain.data, count);
	return number | count << CHOSEN_CHAIN | (bytes < MOST_CHOSEN_BYTES ? bytes : 0) << CHOSEN_BYTES;
}

static __always_inline void add_served(const struct ssll_served_key *key, __u64 chosen, bool success)
{
	struct ssll_served *value =
	        lookup_or_init_shared(&served, key, &blank_served, SSLL_SHARED_SERVED, SSLL_SERVED_OF_PROCESS);
	__u8 chain = chosen >> CHOSEN_CHAIN;

	if (!value) {
		count(&handshake_counters.untold);
		return;
	}
	count(&value->count);
	if (!success)
		count(&value->unsuccessful);
	value->chain = chain == UNKNOWN_CHAIN ? -1 : chain;
	value->chain_bytes = chosen >> CHOSEN_BYTES;
	value->last_ns = bpf_ktime_get_ns();
}

/* The bytes that tag and length take in front of so many. */
static __always_inline __u32 header_bytes(__u32 length)
{
	return length < 128 ? 2 : length < 256 ? 3 : length < 1 << 16 ? 4 : 5;
}

/* Of the element that begins there, of a length of one byte: all its bytes; 0 of another tag, or another form of length. */
static __always_inline __u32 element_bytes(__u64 at, __u8 tag)
{
	__u8 header[2] = {};

	if (bpf_probe_read_user(header, sizeof(header), (void *)at) || header[0] != tag || header[1] >= 128)
		return 0;
	return 2 + header[1];
}

/* The bytes of the algorithm in what was signed of a certificate, which follows the serial number; 0 not known. */
static __always_inline __u32 algorithm_bytes(const struct asn1_encoding *encoding)
{
	__u64 at = encoding->bytes + (encoding->length < 3 + 256 ? 3 : 4);
	__u32 serial;

	at += element_bytes(at, DER_VERSION); /* of the first version there is none */
	serial = element_bytes(at, DER_INTEGER);
	return serial ? element_bytes(at + serial, DER_SEQUENCE) : 0;
}

/* The bytes of a certificate of OpenSSL's, as it is sent: what was signed, the algorithm once more, and the signature; 0 where
 * they can't be known. */
static __noinline __u32 certificate_bytes(__u64 encoding_at, __u64 signature_at)
{
	struct asn1_encoding encoding = {};
	__s32 signature = 0; /* its length, which an ASN1_STRING begins with */
	__u32 algorithm, bits, content;

	if (bpf_probe_read_user(&signature, sizeof(signature), (void *)signature_at) || signature <= 0 ||
	        signature > LARGEST_SIGNATURE || bpf_probe_read_user(&encoding, sizeof(encoding), (void *)encoding_at) ||
	        encoding.modified || !is_sequence(encoding.bytes, encoding.length))
		return 0;
	algorithm = algorithm_bytes(&encoding);
	if (!algorithm)
		return 0;
	bits = 1 + signature; /* the first byte of a string of bits says how many are unused */
	content = encoding.length + algorithm + header_bytes(bits) + bits;
	return header_bytes(content) + content;
}

/* The STACK of X509 that lies there, as ssll_handshake.chosen has it: its length, and its bytes where they are all to be seen.
 * `encoding`, `signature`: their offsets in an X509. */
static __noinline __u64 chain_of_stack(__u64 at, __u32 encoding, __u32 signature)
{
	struct asn1_stack stack = {};
	__u64 chain, bytes = 0;

	if (bpf_probe_read_user(&stack, sizeof(stack), (void *)at) || stack.count < 0 || stack.count > MOST_CHAIN)
		return (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN;
	chain = (__u64)stack.count << CHOSEN_CHAIN;
	for (__u32 number = 0; number < MOST_CHAIN_READ; number++) {
		__u64 member = 0;
		__u32 size;

		if (number >= (__u32)stack.count)
			break;
		if (bpf_probe_read_user(&member, sizeof(member), (void *)(stack.members + number * sizeof(member))))
			return chain;
		size = certificate_bytes(member + encoding, member + signature);
		if (!size)
			return chain;
		bytes += size;
	}
	return stack.count > MOST_CHAIN_READ ? chain : chain | bytes << CHOSEN_BYTES;
}

/* The step of a path that leads from an X509 to its part. */
static __always_inline __u32 last_step(const struct ssll_library *library, enum ssll_place_of place)
{
	const struct ssll_path *path = &library->paths[place];

	return path->offsets[(path->length - 1) & (SSLL_PATH_LENGTH - 1)];
}

/* The certificate of a connection of OpenSSL's, whose encoding lies there, as ssll_handshake.chosen has it; 0 where it can't be
 * read. The chain is the one that the application has given with it, if it has: else others that the context has may go with
 * it.
 */
static __always_inline __u64 find_x509(__u64 ssl, __u64 at, const struct ssll_library *library)
{
	__u32 to_encoding = last_step(library, SSLL_PLACE_OF_CERTIFICATE);
	__u32 to_signature = last_step(library, SSLL_PLACE_OF_SIGNATURE_BITS);
	__u64 number;

	number = number_of_certificate(at, at - to_encoding + to_signature);
	if (!number)
		return 0;
	if (!read_place(ssl, library, SSLL_PLACE_OF_CHAIN, &at))
		return number | (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN;
	return number | chain_of_stack(at, to_encoding, to_signature);
}

/* The number of the certificate that lies there as a whole, behind its address and its length; 0 where it can't be read. */
static __noinline __u64 number_at(__u64 at)
{
	struct {
		__u64 bytes;
		__u32 length;
		__u32 pad;
	} whole = {};

	if (bpf_probe_read_user(&whole, sizeof(whole), (void *)at))
		return 0;
	return number_of_whole(whole.bytes, whole.length);
}

/* The same as ssll_handshake.chosen has it. */
static __always_inline __u64 find_whole(__u64 at)
{
	__u64 number = number_at(at);

	return number ? number | (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN : 0;
}

/* The stack of certificates that are sent, from what the function that signs is called with: where there are slots, that of the
 * chosen one. 0 where it can't be read. */
static __noinline __u64 find_stack(__u64 from, const struct ssll_library *library)
{
	__u64 at = 0, slot = 0;

	if (!library || !read_place(from, library, SSLL_PLACE_OF_SENT_CERTIFICATES, &at))
		return 0;
	if (!library->paths[SSLL_PLACE_OF_SENT_SLOT].length)
		return at;
	if (!read_place(from, library, SSLL_PLACE_OF_SENT_SLOT, &slot) || slot >= MOST_SLOTS)
		return 0;
	at += slot * last_step(library, SSLL_PLACE_OF_NEXT_SLOT);
	return read_place(at, library, SSLL_PLACE_OF_SLOT_CERTIFICATES, &at) ? at : 0;
}

/* The bytes of `count` certificates behind the first in the array that lies there; 0 where they aren't all to be seen.
 * `step`: from a certificate to its address and its length. */
static __noinline __u32 sent_bytes(__u64 members, __u32 count, __u32 step)
{
	struct {
		__u64 bytes;
		__u64 length;
	} whole = {};
	__u64 member = 0;
	__u32 bytes = 0;

	if (count > MOST_CHAIN_READ)
		return 0;
	for (__u32 number = 0; number < MOST_CHAIN_READ; number++) {
		if (number >= count)
			break;
		if (bpf_probe_read_user(&member, sizeof(member), (void *)(members + (number + 1) * sizeof(member))) ||
		        bpf_probe_read_user(&whole, sizeof(whole), (void *)(member + step)) ||
		        !is_sequence(whole.bytes, whole.length))
			return 0;
		bytes += whole.length;
	}
	return bytes;
}

/* Those that go with the first in the stack, as ssll_handshake.chosen has them. */
static __noinline __u64 chain_of_sent(__u64 stack, const struct ssll_library *library)
{
	__u64 count = 0, members = 0;
	__u32 bytes;

	if (!library || !read_place(stack, library, SSLL_PLACE_OF_SENT_COUNT, &count) || !count || count > MOST_CHAIN)
		return (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN;
	count--;
	stack += library->paths[SSLL_PLACE_OF_FIRST_CERTIFICATE].offsets[0];
	if (bpf_probe_read_user(&members, sizeof(members), (void *)stack))
		return (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN;
	bytes = sent_bytes(members, count, last_step(library, SSLL_PLACE_OF_FIRST_CERTIFICATE));
	return count << CHOSEN_CHAIN | (__u64)bytes << CHOSEN_BYTES;
}

/* The first of the certificates that are sent and those that go with it, from what the function that signs is called with, as
 * ssll_handshake.chosen has them, without a number where it can't be read. */
static __noinline __u64 find_sent(__u64 from, const struct ssll_library *library)
{
	const __u64 untold = (__u64)UNKNOWN_CHAIN << CHOSEN_CHAIN;
	__u64 stack, at = 0, number;

	if (!library)
		return 0;
	stack = find_stack(from, library);
	if (!stack || !read_place(stack, library, SSLL_PLACE_OF_FIRST_CERTIFICATE, &at))
		return untold;
	number = number_at(at);
	return number ? number | chain_of_sent(stack, library) : untold;
}

/* The function that signs for a handshake is called: with what leads to the certificates, and with the algorithm. It may be
 * called once more where the key is elsewhere. */
static __always_inline int note_signing(__u64 from, __u16 algorithm)
{
	struct ssll_thread *thread = find_thread();
	struct ssll_handshake *handshake = handshake_of_thread(thread);
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;
	bool server = true;

	if (!thread || !handshake || !library)
		return 0;
	handshake->signature = algorithm;
	if (!handshake_config.certificates || !read_server(thread->ssl, library, &server) || !server)
		return 0;
	handshake->chosen = find_sent(from, library);
	handshake->flags |= SSLL_FLAG_CHOSEN;
	return 0;
}

/* Whether the library shows how it keeps certificates as OpenSSL does. */
static __always_inline bool keeps_x509(const struct ssll_library *library)
{
	return library->paths[SSLL_PLACE_OF_CERTIFICATE].length && library->paths[SSLL_PLACE_OF_SIGNATURE_BITS].length;
}

/* A handshake of a server is over. `port`: this side's, 0 not known. `chosen`: as ssll_handshake has it. */
__noinline int note_certificate(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u32 port, __u64 chosen)
{
	struct ssll_served_key key = {.tgid = this_process()};
	__u64 at = 0;

	if (!library || !labels || !is_known(labels, SSLL_LABEL_RESUMED) || labels->values[SSLL_LABEL_RESUMED])
		return 0;
	if (!chosen && !is_known(labels, SSLL_LABEL_SIGNATURE))
		return 0;
	if (!chosen && keeps_x509(library)) {
		if (!read_place(ssl, library, SSLL_PLACE_OF_CERTIFICATE, &at)) /* none, as of raw public keys */
			return 0;
		chosen = find_x509(ssl, at, library);
	} else if (!chosen) {
		if (!labels->values[SSLL_LABEL_SIGNATURE] || !read_place(ssl, library, SSLL_PLACE_OF_CERTIFICATE_BYTES, &at))
			return 0;
		chosen = find_whole(at);
	}
	key.certificate = chosen;
	if (!key.certificate) {
		count(&handshake_counters.untold);
		return 0;
	}
	key.port = port;
	key.name_known = is_known(labels, SSLL_LABEL_SNI);
	key.name = labels->values[SSLL_LABEL_SNI];
	add_served(&key, chosen, labels->ending == SSLL_ENDING_SUCCESS);
	return 0;
}

#endif
