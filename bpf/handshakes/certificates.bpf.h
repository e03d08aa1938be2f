/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The certificates that servers serve: how often, at which port and to whom by the name that was asked for, and the certificate
 * itself once, for user space to read. A full handshake has one where the library has chosen an algorithm to sign with; a
 * resumed one has none.
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

enum {
	DER_SEQUENCE = 0x30,
	DER_ONE_BYTE_OF_LENGTH = 0x81, /* of what has 128 bytes or more; no certificate has less */
	DER_TWO_BYTES_OF_LENGTH = 0x82,
	LARGEST_SIGNATURE = 1 << 16,
};

/* Whether what lies there is up to date, and begins as a DER sequence of just this length. */
static __always_inline bool is_sequence(const struct asn1_encoding *encoding)
{
	__u8 header[4] = {};

	if (encoding->modified || encoding->length < 128 || encoding->length >= 1 << 16 ||
	        bpf_probe_read_user(header, sizeof(header), (void *)encoding->bytes) || header[0] != DER_SEQUENCE)
		return false;
	if (header[1] == DER_ONE_BYTE_OF_LENGTH)
		return header[2] + 3 == encoding->length;
	return header[1] == DER_TWO_BYTES_OF_LENGTH && (header[2] << 8 | header[3]) + 4 == encoding->length;
}

/* Hands the certificate over, and gives it a number; 0 where there is no room, or it isn't there. Nothing is copied of one that
 * is too long. */
static __noinline __u32 hand_over(__u64 encoding_at, __u32 signature_length)
{
	struct asn1_encoding encoding = {};
	struct ssll_certificate *certificate;
	__u32 size, number;

	if (bpf_probe_read_user(&encoding, sizeof(encoding), (void *)encoding_at) || !is_sequence(&encoding))
		return 0;
	certificate = bpf_ringbuf_reserve(&new_certificates, sizeof(*certificate), 0);
	if (!certificate)
		return 0;
	certificate->length = encoding.length;
	certificate->signature_length = signature_length;
	certificate->pad = 0;
	size = encoding.length;
	asm volatile("" : "+r"(size)); /* else the compiler checks another register than the one that it reads by */
	if (size <= SSLL_CERTIFICATE_MOST_BYTES && bpf_probe_read_user(certificate->bytes, size, (void *)encoding.bytes)) {
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
static __always_inline __u32 make_known(const struct ssll_certificate_key *key, __u64 encoding_at)
{
	__u64 *entries = entries_of(key->tgid, SSLL_SHARED_CERTIFICATES);
	__u32 number = 0;

	if (!entries || (__s64)*entries >= SSLL_CERTIFICATES_OF_PROCESS ||
	        bpf_map_update_elem(&certificates, key, &number, BPF_NOEXIST))
		return 0;
	count(entries);
	number = hand_over(encoding_at, key->signature_length);
	if (number) {
		bpf_map_update_elem(&certificates, key, &number, BPF_EXIST);
	} else if (!bpf_map_delete_elem(&certificates, key)) {
		release_entry(key->tgid, SSLL_SHARED_CERTIFICATES);
	}
	return number;
}

/* The number of the certificate whose encoding lies there, which is handed over where it is new; 0 where that can't be. */
static __noinline __u32 number_of_certificate(__u64 encoding_at, __u64 signature_at)
{
	struct ssll_certificate_key key = {.tgid = this_process()};
	struct asn1_string signature = {};
	__u32 *number;

	if (bpf_probe_read_user(&signature, sizeof(signature), (void *)signature_at) ||
	        signature.length < SSLL_CERTIFICATE_TELLING_BYTES || signature.length > LARGEST_SIGNATURE)
		return 0;
	key.signature_length = signature.length;
	if (bpf_probe_read_user(key.signature, sizeof(key.signature),
	            (void *)(signature.bytes + signature.length - SSLL_CERTIFICATE_TELLING_BYTES)))
		return 0;
	number = bpf_map_lookup_elem(&certificates, &key);
	return number ? *number : make_known(&key, encoding_at);
}

static __always_inline void add_served(const struct ssll_served_key *key, bool success, __s64 chain)
{
	struct ssll_served *value =
	        lookup_or_init_shared(&served, key, &blank_served, SSLL_SHARED_SERVED, SSLL_SERVED_OF_PROCESS);

	if (!value) {
		count(&handshake_counters.untold);
		return;
	}
	count(&value->count);
	if (!success)
		count(&value->unsuccessful);
	value->chain = chain;
	value->last_ns = bpf_ktime_get_ns();
}

/* How many certificates the application has given to go with it; -1 where it has given none with it, as then others that the
 * context has may go with it. */
static __always_inline __s64 chain_length(__u64 ssl, const struct ssll_library *library)
{
	__u64 length = 0;

	if (!read_place(ssl, library, SSLL_PLACE_OF_CHAIN_LENGTH, &length) || length > 64)
		return -1;
	return length;
}

/* A handshake of a server is over. `socket`: the kernel's address of its socket, as long as that is its; 0 not known. */
__noinline int note_certificate(__u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u64 socket)
{
	__u32 here = SSLL_PLACE_OF_CERTIFICATE, there = SSLL_PLACE_OF_SIGNATURE_BITS;
	__u32 last = SSLL_PATH_LENGTH - 1;
	struct ssll_served_key key = {.tgid = this_process()};
	__u64 encoding = 0;

	if (!library || !labels || !is_known(labels, SSLL_LABEL_SIGNATURE) || !is_known(labels, SSLL_LABEL_RESUMED) ||
	        labels->values[SSLL_LABEL_RESUMED])
		return 0;
	if (library->paths[here].length != SSLL_PATH_LENGTH || library->paths[there].length != SSLL_PATH_LENGTH ||
	        !read_place(ssl, library, SSLL_PLACE_OF_CERTIFICATE, &encoding))
		return 0;
	key.certificate = number_of_certificate(
	        encoding, encoding - library->paths[here].offsets[last] + library->paths[there].offsets[last]);
	if (!key.certificate) {
		count(&handshake_counters.untold);
		return 0;
	}
	if (socket)
		key.port = port_of((struct sock *)socket);
	key.name_known = is_known(labels, SSLL_LABEL_SNI);
	key.name = labels->values[SSLL_LABEL_SNI];
	add_served(&key, labels->ending == SSLL_ENDING_SUCCESS, chain_length(ssl, library));
	return 0;
}

#endif
