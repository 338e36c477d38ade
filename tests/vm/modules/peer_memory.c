// SPDX-License-Identifier: GPL-2.0
/* No module of its own: compiled into whichever module provides it in this generation. */
#include "peer_memory.h"

void *ib_register_peer_memory_client(const struct peer_memory_client *client,
				     invalidate_peer_memory *callback)
{
	return (void *)client;
}
EXPORT_SYMBOL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *reg_handle)
{
}
EXPORT_SYMBOL(ib_unregister_peer_memory_client);
