// SPDX-License-Identifier: GPL-2.0
/* What nvidia-peermem registers with; the provider includes peer_memory.c on top. */
#include "generation.h"

typedef int (*invalidate_peer_memory)(void *reg_handle, u64 core_context);

void *ib_register_peer_memory_client(const struct peer_memory_client *client,
				     invalidate_peer_memory *callback);
void ib_unregister_peer_memory_client(void *reg_handle);
