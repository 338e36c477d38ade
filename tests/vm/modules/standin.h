// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in has the name, the dependencies and the exports of a MOFED module, and nothing else.
 * Its init and exit can be told to linger, so `coming` and `going` last long enough to be seen,
 * and its init can be told to fail. A module that does more defines BEGIN and END first.
 */
#include <linux/delay.h>
#include <linux/module.h>

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in");

static unsigned int init_delay_ms;
module_param(init_delay_ms, uint, 0444);

/* Writable: most tests know only once the module is loaded that they want to see it go. */
static unsigned int exit_delay_ms;
module_param(exit_delay_ms, uint, 0644);

static bool init_fails;
module_param(init_fails, bool, 0444);

#ifndef BEGIN
#define BEGIN() 0
#define END() do { } while (0)
#endif

static int __init standin_init(void)
{
	msleep(init_delay_ms);
	return init_fails ? -EIO : BEGIN();
}
module_init(standin_init);

static void __exit standin_exit(void)
{
	msleep(exit_delay_ms);
	END();
}
module_exit(standin_exit);

#ifndef ARGUMENT
#define ARGUMENT const char
#endif

/* A symbol others import; named after in-tree's, so in-tree's provider is refused for its CRC. */
#define PROVIDE(symbol)				\
	int symbol(ARGUMENT *user);		\
	int symbol(ARGUMENT *user)		\
	{					\
		return user ? 0 : -EINVAL;	\
	}					\
	EXPORT_SYMBOL(symbol)

/* A reference is all a dependency takes. */
#define NEED(symbol)				\
	int symbol(const char *user);		\
	static void *__used need_##symbol = symbol
