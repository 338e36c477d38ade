// SPDX-License-Identifier: GPL-2.0
#include "standin.h"

NEED(nvidia_p2p_put_pages);
