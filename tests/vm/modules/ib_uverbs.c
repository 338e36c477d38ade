// SPDX-License-Identifier: GPL-2.0
#include "standin.h"
#include "generation.h"

NEED(mlx_backport_dependency);
NEED(ib_register_client);
PROVIDE(uverbs_destroy_def_handler);

#ifdef PEER_MEMORY_IN_IB_UVERBS
#include "peer_memory.c"
#endif
