// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/short_kallsyms: what /proc/kallsyms says of modules, without the kernel's own 100,000 lines. An emulated
 * processor needs half a second for those, ten times as long as a real one.
 */
#include <linux/ctype.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in");

struct line {
	unsigned long address;
	char type;
	int exported;
	char name[512];
	char module[MODULE_NAME_LEN];
};

/* The kernel does not export it. */
static int (*get_symbol)(unsigned int number, unsigned long *address, char *type, char *name, char *module, int *exported);

static void *at(struct seq_file *file, loff_t number)
{
	struct line *line = file->private;

	return get_symbol(number, &line->address, &line->type, line->name, line->module, &line->exported) ? NULL : line;
}

static void *start(struct seq_file *file, loff_t *number)
{
	return at(file, *number);
}

static void *next(struct seq_file *file, void *line, loff_t *number)
{
	return at(file, ++*number);
}

static void stop(struct seq_file *file, void *line)
{
}

static int show(struct seq_file *file, void *each)
{
	struct line *line = each;
	char type = line->exported ? toupper(line->type) : tolower(line->type);

	if (line->name[0])
		seq_printf(file, "%px %c %s\t[%s]\n", (void *)line->address, type, line->name, line->module);
	return 0;
}

static const struct seq_operations operations = { .start = start, .next = next, .stop = stop, .show = show };

static int __init short_kallsyms_init(void)
{
	struct kprobe probe = { .symbol_name = "module_get_kallsym" };
	int status = register_kprobe(&probe);

	if (status)
		return status;
	get_symbol = (void *)probe.addr;
	unregister_kprobe(&probe);
	return proc_create_seq_private("short_kallsyms", 0444, NULL, &operations, sizeof(struct line), NULL) ? 0 : -ENOMEM;
}
module_init(short_kallsyms_init);
