// SPDX-License-Identifier: GPL-2.0
#include "standin.h"
#include "generation.h"

/* The only one of the stack that has a version; as in MOFED it does not need ib_core. */
MODULE_VERSION(MOFED_VERSION);

NEED(mlx_backport_dependency);
PROVIDE(mlx5_core_create_mkey);
