// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * /dev/driver-log: what root writes there is a line of the kernel's own (facility 0, level err), as a driver's is.
 *
 * A program that writes to /dev/kmsg always gets the facility "user", by which every reader can tell the line from one
 * of the driver. One write is one line. Only lines of NVIDIA's driver about its GPUs are taken: printable, and
 * beginning with "NVRM: ". The node agent (faults/agent) opens it while it is still root.
 */
#include <linux/ctype.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/uaccess.h>

#define MAX_LINE 976
#define PREFIX "NVRM: "
#define PREFIX_LEN (sizeof(PREFIX) - 1)

static bool is_line(const char *text, size_t size)
{
	size_t at;

	for (at = 0; at < size; at++)
		if (!isascii(text[at]) || !isprint(text[at]))
			return false;
	return size > PREFIX_LEN && strncmp(text, PREFIX, PREFIX_LEN) == 0;
}

static ssize_t driver_log_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	char line[MAX_LINE + 1];
	size_t length = size;

	if (size == 0 || size > MAX_LINE)
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	if (line[length - 1] == '\n')
		length--;
	if (!is_line(line, length))
		return -EINVAL;
	line[length] = '\0';
	printk(KERN_ERR "%s\n", line);
	return size;
}

static const struct file_operations driver_log_operations = {
	.owner = THIS_MODULE,
	.write = driver_log_write,
	.llseek = noop_llseek,
};

static struct miscdevice driver_log = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "driver-log",
	.fops = &driver_log_operations,
	.mode = 0200,
};

module_misc_device(driver_log);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Lines of the kernel log, written by root");
