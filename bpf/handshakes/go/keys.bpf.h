/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The private keys of Go's crypto packages: of which kind one is, and its size. */
#ifndef HANDSHAKES_GO_KEYS_BPF_H
#define HANDSHAKES_GO_KEYS_BPF_H

#include "common/registers.bpf.h"
#include "running/running.bpf.h"
#include "stacks/go.bpf.h"

/* As tests/unit/stacks/go/test_go_handshakes.py finds them in the types of programs. */
enum {
	GO_RSA_MODULUS = 0,  /* in rsa.PrivateKey: a *big.Int */
	GO_ECDSA_POINT = 16, /* in ecdsa.PrivateKey: another, the public key's X */
	GO_BIG_WORDS = 16,   /* in big.Int: how many words of 8 bytes it has */
	GO_PSS_HASH = 8,     /* in rsa.PSSOptions */
};

/* Of crypto.Hash, of which TLS' numbers are one less; and the parts of the code points of signature schemes (RFC 8446, 4.2.3).
 */
enum {
	GO_HASH_SHA1 = 3,
	GO_HASH_SHA256 = 5,
	GO_HASH_SHA512 = 7,
	TLS_SCHEME_RSA = 1,
	TLS_SCHEME_ECDSA = 3,
	TLS_SCHEME_RSA_PSS_SHA256 = 0x0804,
	TLS_SCHEME_ED25519 = 0x0807,
};

static __always_inline __u32 go_words(__u64 key, __u32 offset)
{
	__u64 number = 0, words = 0;

	if (bpf_probe_read_user(&number, sizeof(number), (void *)(key + offset)) || !number)
		return 0;
	bpf_probe_read_user(&words, sizeof(words), (void *)(number + GO_BIG_WORDS));
	return words;
}

/* The longest signature by a key on a curve of so many words, by which user space names the curve; 0 for another. */
static __always_inline __u32 longest_signature(__u32 words)
{
	return words == 4 ? 72 : words == 6 ? 104 : words == 9 ? 139 : 0;
}

/* The code point of the signature scheme by which a key of this kind signs, whose Sign gets the hash, or PSS' options, last; 0
 * where it has none, as RSA's before TLS 1.2, or can't be read. */
static __noinline __u16 go_scheme(const struct pt_regs *ctx, __u32 kind, const struct ssll_library *library)
{
	__u32 type = go_type_hash(go_seventh(ctx));
	bool pss = is_go_type(type, library, SSLL_GO_TYPE_PSS);
	__u64 hash = 0;

	if (kind == SSLL_GO_KEY_ED25519)
		return TLS_SCHEME_ED25519;
	if (!pss && !is_go_type(type, library, SSLL_GO_TYPE_HASH))
		return 0;
	if (bpf_probe_read_user(&hash, sizeof(hash), (void *)(go_eighth(ctx) + (pss ? GO_PSS_HASH : 0))))
		return 0;
	if (hash < (pss ? GO_HASH_SHA256 : GO_HASH_SHA1) || hash > GO_HASH_SHA512)
		return 0;
	if (pss)
		return TLS_SCHEME_RSA_PSS_SHA256 + hash - GO_HASH_SHA256;
	return (hash - 1) << 8 | (kind == SSLL_GO_KEY_ECDSA ? TLS_SCHEME_ECDSA : TLS_SCHEME_RSA);
}

/* What kind of key the function that is called uses: the innermost that is watched says most. */
static __always_inline void note_go_key(const struct pt_regs *ctx, struct ssll_handshake *handshake, __u64 cookie)
{
	__u32 operation = field(cookie, SSLL_PHASE_COOKIE_OPERATION, 2), kind = field(cookie, SSLL_PHASE_COOKIE_KEY, 2);
	__u64 key = REGISTER(ctx, GO_FIRST_ARGUMENT);
	struct ssll_library *library;

	if (!operation || (handshake->key_operation && !kind))
		return;
	handshake->key_operation = operation;
	handshake->key_kind = kind;
	library = kind && operation == SSLL_KEY_OPERATION_SIGN ? library_of(handshake->library) : NULL;
	handshake->signature = library ? go_scheme(ctx, kind, library) : 0;
	if (kind == SSLL_GO_KEY_RSA)
		handshake->key_bytes = 8 * go_words(key, GO_RSA_MODULUS);
	if (kind == SSLL_GO_KEY_ECDSA)
		handshake->key_bytes = longest_signature(go_words(key, GO_ECDSA_POINT));
}

#endif
