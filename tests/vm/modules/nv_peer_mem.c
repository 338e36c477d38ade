// SPDX-License-Identifier: GPL-2.0
/*
 * The client from before NVIDIA's driver brought one. It has the same name among MOFED's clients as its
 * successor, and whichever comes second is refused.
 */
#include <linux/module.h>
#include "peer_memory.h"

MODULE_LICENSE("GPL");
MODULE_VERSION("1.3-0");

int nvidia_p2p_get_pages(const char *user);

static void *reg_handle;
static const struct peer_memory_client client = { .name = "nv_mem", .version = "1.3-0" };

static int __init nv_mem_client_init(void)
{
	invalidate_peer_memory callback;

	if (nvidia_p2p_get_pages(client.name))
		return -EINVAL;
	reg_handle = ib_register_peer_memory_client(&client, &callback);
	if (!reg_handle) {
		pr_err("nv_mem nv_mem_client_init:565 nv_mem_client_init -- error while registering client\n");
		return -EINVAL;
	}
	return 0;
}
module_init(nv_mem_client_init);

static void __exit nv_mem_client_cleanup(void)
{
	ib_unregister_peer_memory_client(reg_handle);
}
module_exit(nv_mem_client_cleanup);
