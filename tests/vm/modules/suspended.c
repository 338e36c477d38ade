// SPDX-License-Identifier: GPL-2.0
/*
 * A suspend as the clocks see it. The processor of an emulated machine goes on in a suspend, or never wakes from it, so
 * the time is added where the kernel's own real-time clock adds it on machines whose other clocks stop: in the resume
 * of a device, before the first process runs again.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/time64.h>

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in");

static unsigned int seconds;
module_param(seconds, uint, 0444);

/* The kernel does not export it. */
static void (*inject_sleeptime)(const struct timespec64 *delta);

static int suspended_resume(struct device *device)
{
	struct timespec64 slept = { .tv_sec = seconds };

	inject_sleeptime(&slept);
	return 0;
}

static const struct dev_pm_ops operations = { .resume = suspended_resume };
static struct platform_driver driver = { .driver = { .name = "suspended", .pm = &operations } };
static struct platform_device *device;

static int __init suspended_init(void)
{
	struct kprobe probe = { .symbol_name = "timekeeping_inject_sleeptime64" };
	int status = register_kprobe(&probe);

	if (status)
		return status;
	inject_sleeptime = (void *)probe.addr;
	unregister_kprobe(&probe);
	status = platform_driver_register(&driver);
	if (status)
		return status;
	device = platform_device_register_simple("suspended", -1, NULL, 0);
	if (IS_ERR(device)) {
		platform_driver_unregister(&driver);
		return PTR_ERR(device);
	}
	return 0;
}
module_init(suspended_init);

static void __exit suspended_exit(void)
{
	platform_device_unregister(device);
	platform_driver_unregister(&driver);
}
module_exit(suspended_exit);
