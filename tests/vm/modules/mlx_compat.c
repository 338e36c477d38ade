// SPDX-License-Identifier: GPL-2.0
#include "standin.h"

PROVIDE(mlx_backport_dependency);
