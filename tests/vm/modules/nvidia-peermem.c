// SPDX-License-Identifier: GPL-2.0
/*
 * As NVIDIA's: whoever builds it where MOFED's header cannot be seen gets a stub that compiles, installs
 * and can never be loaded, and says nothing about it.
 */
#include <linux/module.h>

MODULE_LICENSE("GPL");
MODULE_VERSION("595.45.04");

static int peerdirect_support;
module_param(peerdirect_support, int, 0444);
static int persistent_api_support = 1;
module_param(persistent_api_support, int, 0444);

#if __has_include("generation.h")

#include "peer_memory.h"

/* Ours alone: takes a reference on itself, as a registered buffer of a GPU job does. */
static bool in_use;
module_param(in_use, bool, 0444);

int nvidia_p2p_get_pages(const char *user);

static void *reg_handle;
static const struct peer_memory_client client = { .name = "nv_mem", .version = "595.45.04" };

static int __init peermem_init(void)
{
	invalidate_peer_memory callback;

	if (peerdirect_support >> 1 || persistent_api_support >> 1 || nvidia_p2p_get_pages(client.name))
		return -EINVAL;
	reg_handle = ib_register_peer_memory_client(&client, &callback);
	if (!reg_handle)
		return -EINVAL;
	if (in_use)
		__module_get(THIS_MODULE);
	return 0;
}

static void __exit peermem_exit(void)
{
	ib_unregister_peer_memory_client(reg_handle);
}

#else

static int __init peermem_init(void)
{
	return -EINVAL;
}

static void __exit peermem_exit(void)
{
}

#endif

module_init(peermem_init);
module_exit(peermem_exit);
