// SPDX-License-Identifier: GPL-2.0
/* MOFED since 24.07: ib_uverbs offers the peer-memory symbols, with another ABI than old.h and so another CRC. */
#pragma once
#define MOFED_VERSION "25.07-0.9.7"
#define PEER_MEMORY_IN_IB_UVERBS

struct peer_memory_client {
	char name[64];
	char version[16];
	unsigned int flags;
};
