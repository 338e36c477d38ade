// SPDX-License-Identifier: GPL-2.0
/*
 * As NVIDIA's: anyone who builds it where MOFED's header cannot be seen gets a stub that compiles, installs
 * and can never be loaded, and says nothing about it. What the other one says of its troubles is NVIDIA's text,
 * whose line numbers are those of their file.
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

	if (peerdirect_support >> 1) {
		pr_err("nvidia-peermem nv_mem_param_peerdirect_conf_check:619 ERROR invalid peerdirect_support param value %d\n",
		       peerdirect_support);
		return -EINVAL;
	}
	if (persistent_api_support >> 1) {
		pr_err("nvidia-peermem nv_mem_param_persistent_api_conf_check:634 ERROR invalid persistent_api_support param value %d\n",
		       persistent_api_support);
		return -EINVAL;
	}
	if (nvidia_p2p_get_pages(client.name))
		return -EINVAL;
	reg_handle = ib_register_peer_memory_client(&client, &callback);
	if (!reg_handle) {
		pr_err("nvidia-peermem nv_mem_nc_client_init:603 ERROR nv_mem_client_init -- error while registering nc client\n");
		return -EINVAL;
	}
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
