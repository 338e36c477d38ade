// SPDX-License-Identifier: GPL-2.0
#if !__has_include("generation.h")
/* A driver of another branch: other prototypes, and so other CRCs. */
#define ARGUMENT const void
#endif
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

/* A process that has it open uses the driver. */
static const struct file_operations control = { .owner = THIS_MODULE };
static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "nvidiactl", .fops = &control };
#define BEGIN() misc_register(&device)
#define END() misc_deregister(&device)
#include "standin.h"

MODULE_VERSION("595.45.04");

PROVIDE(nvidia_p2p_get_pages);
PROVIDE(nvidia_p2p_put_pages);
PROVIDE(nvidia_p2p_dma_map_pages);
PROVIDE(nvidia_p2p_dma_unmap_pages);
PROVIDE(nvidia_p2p_free_page_table);
PROVIDE(nvidia_p2p_free_dma_mapping);
PROVIDE(nvidia_p2p_get_pages_persistent);
PROVIDE(nvidia_p2p_put_pages_persistent);
