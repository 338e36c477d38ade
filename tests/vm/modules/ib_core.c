// SPDX-License-Identifier: GPL-2.0
#include "standin.h"
#include "generation.h"

NEED(mlx_backport_dependency);
PROVIDE(ib_register_client);

#ifdef PEER_MEMORY_IN_IB_CORE
#include "peer_memory.c"
#endif
