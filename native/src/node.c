/* Reads /proc/driver/nvidia/gpus: a folder per GPU, named by its address, with a file that has its UUID. */
#define _GNU_SOURCE
#include "node.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

enum { UUID_LENGTH = 40, FILE_BYTES = 2048 };

static bool address_of(const char *name, uint64_t *address)
{
	unsigned domain, bus, device;

	if (sscanf(name, "%8x:%2x:%2x.", &domain, &bus, &device) != 3)
		return false;
	*address = (uint64_t)domain << 16 | (uint64_t)bus << 8 | device;
	return true;
}

static bool read_uuid(const char *name, struct gpu *gpu)
{
	char path[512], text[FILE_BYTES + 1], *found;
	ssize_t length = -1;
	int file;

	snprintf(path, sizeof(path), GPU_FOLDER "/%s/information", name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file >= 0) {
		length = read(file, text, FILE_BYTES);
		close(file);
	}
	if (length <= 0)
		return false;
	text[length] = '\0';
	found = strstr(text, "GPU-");
	if (found == NULL || strlen(found) < UUID_LENGTH)
		return false;
	found[UUID_LENGTH] = '\0';
	return uuid_of(found, &gpu->uuid[0], &gpu->uuid[1]);
}

static int by_address(const void *left, const void *right)
{
	uint64_t a = ((const struct gpu *)left)->address, b = ((const struct gpu *)right)->address;

	return (a > b) - (a < b);
}

static struct gpu known[MOST_DEVICES];
static int known_count;

static void read_gpus(void)
{
	DIR *folder = opendir(GPU_FOLDER);
	struct dirent *entry;

	if (folder == NULL)
		return;
	while (known_count < MOST_DEVICES && (entry = readdir(folder)) != NULL)
		known_count += address_of(entry->d_name, &known[known_count].address) && read_uuid(entry->d_name, &known[known_count]);
	closedir(folder);
	qsort(known, (size_t)known_count, sizeof(*known), by_address);
}

int node_gpus(const struct gpu **gpus)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_gpus);
	*gpus = known;
	return known_count;
}

static void written(const struct gpu *gpu, char text[UUID_LENGTH + 1])
{
	const uint64_t *uuid = gpu->uuid;

	snprintf(text, UUID_LENGTH + 1, "GPU-%08x-%04x-%04x-%04x-%012llx", (unsigned)(uuid[0] >> 32), (unsigned)(uuid[0] >> 16 & 0xffff),
		 (unsigned)(uuid[0] & 0xffff), (unsigned)(uuid[1] >> 48), (unsigned long long)(uuid[1] & UINT64_C(0xffffffffffff)));
}

/* The GPU that an entry of CUDA_VISIBLE_DEVICES names, by number or by the beginning of its UUID; -1 for none, where CUDA stops reading. */
static int named(const char *entry, size_t length, const struct gpu *gpus, int count)
{
	char text[UUID_LENGTH + 1], *end;
	long number = strtol(entry, &end, 10);

	if (end == entry + length && end != entry)
		return number >= 0 && number < count ? (int)number : -1;
	for (int i = 0; i < count && length > 0; i++) {
		written(&gpus[i], text);
		if (strncmp(text, entry, length) == 0)
			return i;
	}
	return -1;
}

struct list {
	char *text;
	size_t size, used;
	int count;
};

static void added(struct list *list, const char *entry, size_t length)
{
	if (list->used + length + 2 > list->size)
		return;
	if (list->count++ > 0)
		list->text[list->used++] = ',';
	memcpy(list->text + list->used, entry, length);
	list->used += length;
	list->text[list->used] = '\0';
}

static void added_gpu(struct list *list, const struct gpu *gpu)
{
	char text[UUID_LENGTH + 1];

	written(gpu, text);
	added(list, text, UUID_LENGTH);
}

/* An entry of the process's own list, unless its GPU is hidden. Slices of a GPU (MIG) stay. False where CUDA stops reading. */
static bool taken_over(struct list *list, const char *entry, size_t length, bool (*hidden)(const struct gpu *gpu, int number))
{
	const struct gpu *gpus;
	int count = node_gpus(&gpus), number = named(entry, length, gpus, count);

	if (strncmp(entry, "MIG-", 4) == 0)
		added(list, entry, length);
	else if (number < 0)
		return false;
	else if (!hidden(&gpus[number], number))
		added_gpu(list, &gpus[number]);
	return true;
}

int node_visible(char *text, size_t size, bool (*hidden)(const struct gpu *gpu, int number))
{
	const struct gpu *gpus;
	int count = node_gpus(&gpus);
	const char *own = getenv("CUDA_VISIBLE_DEVICES");
	struct list list = { text, size, 0, 0 };

	text[0] = '\0';
	if (count == 0)
		return -1;
	if (own == NULL) {
		for (int number = 0; number < count; number++)
			if (!hidden(&gpus[number], number))
				added_gpu(&list, &gpus[number]);
		return list.count;
	}
	for (;; own++) {
		size_t length = strcspn(own, ",");

		if (!taken_over(&list, own, length, hidden))
			return list.count;
		own += length;
		if (*own == '\0')
			return list.count;
	}
}
