// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded, has qatengine 2.0 use libcrypto_mb on a CPU of any maker: the engine's own check, which this stands before, wants
 * Intel's. Only where `lanes` says that libcrypto_mb works there.
 */
int qat_sw_cpu_support(void);

int qat_sw_cpu_support(void)
{
	return 1;
}
