// SPDX-License-Identifier: GPL-2.0
#include "standin.h"

NEED(mlx_backport_dependency);
NEED(ib_register_client);
