// SPDX-License-Identifier: GPL-2.0
/* MOFED up to 24.04: ib_core offers the peer-memory symbols. */
#pragma once
#define MOFED_VERSION "24.04-0.6.6"
#define PEER_MEMORY_IN_IB_CORE

struct peer_memory_client {
	char name[64];
	char version[16];
};
