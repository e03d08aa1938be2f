// SPDX-License-Identifier: Apache-2.0
/*
 * Sixteen functions, one for each condition of a branch, that return 1 if it holds for the flags that they are given, else 0.
 * They bear names of the catalogue, so that they are planned and traced. It says "ready"; for each line on standard input it
 * calls each function with every combination of the flags, with each another number of times so that no two conditions hold
 * equally often, and prints how often each returned 1.
 */
#include <stdio.h>

#define FUNCTION(name, condition)                                                                                              \
	int name(unsigned long flags);                                                                                         \
	asm(".globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"                                       \
	    "push %rbx\n.cfi_adjust_cfa_offset 8\nmov %rdi, %rbx\npush %rdi\n.cfi_adjust_cfa_offset 8\n"                       \
	    "popfq\n.cfi_adjust_cfa_offset -8\nj" #condition " 1f\n"                                                           \
	    "pop %rbx\nxor %eax, %eax\nret\n1: pop %rbx\nmov $1, %eax\nret\n.cfi_endproc\n.size " #name ", .-" #name "\n")

#define FUNCTIONS(each)                                                                                                        \
	each(RSA_sign, o) each(RSA_verify, no) each(ECDSA_sign, b) each(ECDSA_verify, ae) each(EVP_PKEY_keygen, e)             \
	        each(ASYNC_pause_job, ne) each(ossl_ecdsa_sign, be) each(ossl_ecdsa_verify, a) each(ossl_ecdsa_sign_setup, s)  \
	                each(ossl_ecdsa_verify_sig, ns) each(ossl_ecdh_compute_key, p) each(ed25519_digest_verify, np)         \
	                        each(ed448_digest_verify, l) each(ml_dsa_digest_verify, ge) each(mb_ecdsa_sign, le)            \
	                                each(mb_ecdsa_verify, g)

#define DEFINE(name, condition) FUNCTION(name, condition);
#define ENTRY(name, condition) {#name, name},

FUNCTIONS(DEFINE)

static const struct {
	const char *name;
	int (*call)(unsigned long flags);
} functions[] = {FUNCTIONS(ENTRY)};

/* Bit 1 is always set. */
static unsigned long flags_of(int combination)
{
	const int bits[] = {0, 2, 6, 7, 11}; /* carry, parity, zero, sign, overflow */
	unsigned long flags = 2;

	for (int i = 0; i < 5; i++)
		flags |= (unsigned long)(combination >> i & 1) << bits[i];
	return flags;
}

int EVP_DigestSign(void); /* both mark the file as one that holds these libraries */
int EVP_DigestSign(void)
{
	return 1;
}

int multibuff_rsa_priv_enc(void);
int multibuff_rsa_priv_enc(void)
{
	return 1;
}

int main(void)
{
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		for (unsigned int i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
			int held = 0;

			for (int combination = 0; combination < 32; combination++)
				for (int times = 0; times < (combination + 1) * (combination + 1); times++)
					held += functions[i].call(flags_of(combination));
			printf("%s %d\n", functions[i].name, held);
		}
	return EVP_DigestSign() - multibuff_rsa_priv_enc();
}
