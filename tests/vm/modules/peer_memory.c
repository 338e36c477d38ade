// SPDX-License-Identifier: GPL-2.0
/*
 * No module of its own: compiled into whichever module provides it in this generation. A client shows as a
 * directory in sysfs while it is registered, and the kernel itself refuses a second one of the same name.
 *
 * Not MOFED's: `witness` beside `version` tells what the node looked like at the moment of the registration.
 */
#include <linux/fs.h>
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include "peer_memory.h"

struct registered {
	struct kobject kobj;
	const struct peer_memory_client *client;
	char witness[128];
};

static struct kobject *memory_peers;
static unsigned int peers;

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attribute, char *buffer)
{
	return sysfs_emit(buffer, "%s\n", container_of(kobj, struct registered, kobj)->client->version);
}
static struct kobj_attribute version_attribute = __ATTR_RO(version);

static ssize_t witness_show(struct kobject *kobj, struct kobj_attribute *attribute, char *buffer)
{
	return sysfs_emit(buffer, "%s\n", container_of(kobj, struct registered, kobj)->witness);
}
static struct kobj_attribute witness_attribute = __ATTR_RO(witness);

/* The file's first word; "absent" if there is no such file, "there" if it is empty. */
static void look(const char *path, char *word, size_t size)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t at = 0;
	ssize_t length;

	strscpy(word, "absent", size);
	if (IS_ERR(file))
		return;
	length = kernel_read(file, word, size - 1, &at);
	filp_close(file, NULL);
	if (length <= 0) {
		strscpy(word, length ? "unreadable" : "there", size);
		return;
	}
	word[length] = '\0';
	*strchrnul(word, '\n') = '\0';
}

static void testify(char *witness, size_t size)
{
	static const char *const names[] = { "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib" };
	char path[64], word[16];
	int i, at;

	look("/run/mellanox/drivers/.driver-ready", word, sizeof(word));
	at = scnprintf(witness, size, "marker=%s", word);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/sys/module/%s/initstate", names[i]);
		look(path, word, sizeof(word));
		at += scnprintf(witness + at, size - at, " %s=%s", names[i], word);
	}
}

static void registered_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct registered, kobj));
}

static const struct kobj_type registered_type = {
	.release = registered_release,
	.sysfs_ops = &kobj_sysfs_ops,
};

static void last_one_out(void)
{
	if (peers)
		return;
	kobject_put(memory_peers);
	memory_peers = NULL;
}

/* mm_kobj is exported no more since Linux 6.7; sysfs has it as the owner of the directory. */
static struct kobject *mm_directory(void)
{
	struct kernfs_node *node = kernfs_find_and_get(kernel_kobj->sd, "mm");
	struct kobject *mm = node ? node->priv : NULL;

	kernfs_put(node);
	return mm;
}

void *ib_register_peer_memory_client(const struct peer_memory_client *client,
				     invalidate_peer_memory *callback)
{
	struct registered *registered = kzalloc(sizeof(*registered), GFP_KERNEL);

	if (!memory_peers)
		memory_peers = kobject_create_and_add("memory_peers", mm_directory());
	registered->client = client;
	testify(registered->witness, sizeof(registered->witness));
	if (kobject_init_and_add(&registered->kobj, (struct kobj_type *)&registered_type, memory_peers, "%s",
				 client->name) ||
	    sysfs_create_file(&registered->kobj, &version_attribute.attr) ||
	    sysfs_create_file(&registered->kobj, &witness_attribute.attr)) {
		kobject_put(&registered->kobj);
		last_one_out();
		return NULL;
	}
	peers++;
	return registered;
}
EXPORT_SYMBOL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *reg_handle)
{
	struct registered *registered = reg_handle;

	kobject_put(&registered->kobj);
	peers--;
	last_one_out();
}
EXPORT_SYMBOL(ib_unregister_peer_memory_client);
