/* Arms and disarms faults in the control file while programs run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "node.h"
#include "settings.h"

static const char USAGE[] =
	"usage: faultctl [--file FILE] COMMAND\n"
	"\n"
	"  init                  make the control file, with nothing armed; programs look for it at their first CUDA call\n"
	"  arm SETTING ...       arm a fault and print its number, as in: arm xid=79 gpu=0 for=10m\n"
	"  disarm NUMBER | all   end a fault; a context that has failed stays dead\n"
	"  show [--json]         list the armed faults\n"
	"\n"
	"settings: xid=79 gpu=any|0|GPU-...|0000:3b:00 error=719 new=100 nvml=15 nccl=6 ecc=1 after=30s after-calls=1000 for=10m\n"
	"          chance=0.05 seed=7 hang=45s latency=500us memory=16GiB hide refuse sticky nccl-hang\n"
	"\n"
	"FILE is $" CONTROL_VARIABLE " or " CONTROL_PATH " unless it is given.\n";

enum { FAILED = 1, WRONG_USE = 2 };

static int wrong(const char *what, const char *why)
{
	fprintf(stderr, "faultctl: %s: %s\n", what, why);
	return FAILED;
}

static uint64_t monotonic(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* The page of the file, locked against other writers; NULL with a message. */
static struct control *locked(const char *path)
{
	int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct control *page;
	struct stat facts;

	if (file < 0) {
		wrong(path, errno == ENOENT ? "there is no such file: run 'faultctl init' first" : strerror(errno));
		return NULL;
	}
	if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size != CONTROL_BYTES || flock(file, LOCK_EX) != 0) {
		wrong(path, "this is no control file");
		return NULL;
	}
	page = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED || atomic_load(&page->magic) != CONTROL_MAGIC) {
		wrong(path, "this is no control file");
		return NULL;
	}
	return page; /* the lock ends with the process */
}

/* /run is empty after a restart. Where this fails, so does what follows, and tells why. */
static void make_folder(const char *path)
{
	char *folder = strdup(path), *end = folder == NULL ? NULL : strrchr(folder, '/');

	if (end != NULL && end != folder) {
		*end = '\0';
		mkdir(folder, 0755);
	}
	free(folder);
}

static int made_already(const char *path)
{
	return locked(path) == NULL ? FAILED : 0;
}

/* Made beside the place and then put there as a whole; if another has made one meanwhile, that one stays, with what is armed in it. */
static int make(const char *path)
{
	char name[4096];
	struct control page = { .magic = CONTROL_MAGIC };
	char bytes[CONTROL_BYTES] = { 0 };
	int file;

	if (access(path, F_OK) == 0)
		return made_already(path);
	make_folder(path);
	if (snprintf(name, sizeof(name), "%s.%ld", path, (long)getpid()) >= (int)sizeof(name))
		return wrong(path, "this name is too long");
	file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	memcpy(bytes, &page, sizeof(page));
	if (file < 0 || fchmod(file, 0644) != 0 || write(file, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes) || fsync(file) != 0 || link(name, path) != 0) {
		int error = errno;

		unlink(name);
		return error == EEXIST && access(path, F_OK) == 0 ? made_already(path) : wrong(path, strerror(error));
	}
	unlink(name);
	return 0;
}

static void begin(struct control *page)
{
	uint64_t sequence = atomic_load(&page->sequence);

	atomic_store(&page->sequence, sequence | 1); /* of a writer that died half-way it is odd already */
}

static void end(struct control *page)
{
	uint64_t armed = 0;

	for (int place = 0; place < CONTROL_FAULTS; place++)
		armed += atomic_load(&page->fault[place][FAULT_ID]) != 0;
	atomic_store(&page->sequence, (atomic_load(&page->sequence) | 1) + 1);
	atomic_store(&page->gate, armed);
}

static bool is_over(const struct control *page, int place)
{
	uint64_t duration = atomic_load(&page->fault[place][FAULT_DURATION]);
	uint64_t armed = atomic_load(&page->fault[place][FAULT_ARMED]), now = monotonic();

	return duration != 0 && (now < armed ? now : now - armed) >= duration;
}

static int free_place(const struct control *page)
{
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (atomic_load(&page->fault[place][FAULT_ID]) == 0 || is_over(page, place))
			return place;
	return -1;
}

/* A number as nvidia-smi counts becomes the GPU's UUID: in a container that has not all GPUs, the number is another one's. */
static const char *numbered(uint64_t fault[FAULT_WORDS])
{
	const struct gpu *gpus;
	int count = node_gpus(&gpus);
	uint64_t number = fault[FAULT_TARGET_A];

	if (fault[FAULT_TARGET] != TARGET_ORDINAL || count == 0)
		return NULL;
	if (number >= (uint64_t)count)
		return "this node has no GPU of this number (nvidia-smi -L lists them)";
	fault[FAULT_TARGET] = TARGET_UUID;
	fault[FAULT_TARGET_A] = gpus[number].uuid[0];
	fault[FAULT_TARGET_B] = gpus[number].uuid[1];
	return NULL;
}

static int arm(struct control *page, int count, char **settings)
{
	uint64_t fault[FAULT_WORDS] = { 0 };
	const char *problem;
	int place;

	for (int i = 0; i < count; i++)
		if ((problem = settings_read(settings[i], fault)) != NULL)
			return wrong(settings[i], problem);
	if ((problem = settings_complete(fault)) != NULL)
		return wrong("arm", problem);
	if ((problem = numbered(fault)) != NULL)
		return wrong("gpu", problem);
	if ((place = free_place(page)) < 0)
		return wrong("arm", "eight faults are armed already: disarm one");
	begin(page);
	fault[FAULT_ID] = atomic_load(&page->last_id) + 1;
	fault[FAULT_ARMED] = monotonic();
	atomic_store(&page->last_id, fault[FAULT_ID]);
	for (int number = 0; number < FAULT_WORDS; number++)
		atomic_store(&page->fault[place][number], fault[number]);
	end(page);
	printf("%" PRIu64 "\n", fault[FAULT_ID]);
	return 0;
}

static int disarm(struct control *page, const char *which)
{
	bool all = strcmp(which, "all") == 0, found = all;
	char *rest;
	uint64_t id = strtoull(which, &rest, 10);

	if (!all && (which[0] < '1' || which[0] > '9' || *rest != '\0'))
		return wrong(which, "disarm takes the number that arm printed, or all");
	begin(page);
	for (int place = 0; place < CONTROL_FAULTS; place++)
		if (all || atomic_load(&page->fault[place][FAULT_ID]) == id) {
			found = true;
			atomic_store(&page->fault[place][FAULT_ID], 0);
		}
	end(page);
	return found ? 0 : wrong(which, "no armed fault has this number (faultctl show lists them)");
}

static const struct {
	const char *name;
	enum word word;
} SHOWN[] = {
	{ "xid", FAULT_XID },           { "running_error", FAULT_RUNNING }, { "new_error", FAULT_NEW },
	{ "nvml_error", FAULT_NVML },   { "nccl_error", FAULT_NCCL },       { "after_calls", FAULT_AFTER_CALLS },
	{ "after_ns", FAULT_AFTER_TIME }, { "for_ns", FAULT_DURATION },     { "hang_ns", FAULT_HANG },
	{ "latency_ns", FAULT_LATENCY }, { "memory_bytes", FAULT_MEMORY },  { "ecc", FAULT_ECC },
	{ "seed", FAULT_SEED },
};
static const char *const FLAG_NAMES[] = { "hide", "refuse", "nccl_hang", "sticky" };

static void target(const struct control *page, int place, char *text, size_t size)
{
	uint64_t a = atomic_load(&page->fault[place][FAULT_TARGET_A]), b = atomic_load(&page->fault[place][FAULT_TARGET_B]);

	switch (atomic_load(&page->fault[place][FAULT_TARGET])) {
	case TARGET_ORDINAL:
		snprintf(text, size, "%" PRIu64, a);
		break;
	case TARGET_UUID:
		snprintf(text, size, "GPU-%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, a >> 32, a >> 16 & 0xffff,
			 a & 0xffff, b >> 48, b & UINT64_C(0xffffffffffff));
		break;
	case TARGET_PCI:
		snprintf(text, size, "%04" PRIx64 ":%02" PRIx64 ":%02" PRIx64, a >> 16, a >> 8 & 0xff, a & 0xff);
		break;
	default:
		snprintf(text, size, "any");
	}
}

static void show_one(const struct control *page, int place, bool json)
{
	const char *form = json ? ", \"%s\": %" PRIu64 : " %s=%" PRIu64;
	char gpu[64];

	target(page, place, gpu, sizeof(gpu));
	printf(json ? "{\"id\": %" PRIu64 ", \"gpu\": \"%s\"" : "%" PRIu64 ": gpu=%s", atomic_load(&page->fault[place][FAULT_ID]), gpu);
	for (size_t i = 0; i < sizeof(SHOWN) / sizeof(SHOWN[0]); i++) {
		uint64_t value = atomic_load(&page->fault[place][SHOWN[i].word]);

		if (value != 0)
			printf(form, SHOWN[i].name, value);
	}
	if (atomic_load(&page->fault[place][FAULT_CHANCE]) != 0)
		printf(json ? ", \"chance\": %.9g" : " chance=%.9g", (double)atomic_load(&page->fault[place][FAULT_CHANCE]) / 4294967296.0);
	for (int flag = 0; flag < 4; flag++)
		if (atomic_load(&page->fault[place][FAULT_FLAGS]) & (uint64_t)1 << flag)
			printf(json ? ", \"%s\": true" : " %s", FLAG_NAMES[flag]);
	fputs(json ? "}" : "\n", stdout);
}

static int show(const struct control *page, bool json)
{
	const char *between = "";

	fputs(json ? "[" : "", stdout);
	for (int place = 0; place < CONTROL_FAULTS; place++) {
		if (atomic_load(&page->fault[place][FAULT_ID]) == 0 || is_over(page, place))
			continue;
		fputs(json ? between : "", stdout);
		show_one(page, place, json);
		between = ", ";
	}
	fputs(json ? "]\n" : "", stdout);
	return 0;
}

static int misused(void)
{
	fputs(USAGE, stderr);
	return WRONG_USE;
}

static int run(const char *path, int count, char **words)
{
	struct control *page;
	bool json = count == 2 && strcmp(words[1], "--json") == 0;

	if (count == 1 && strcmp(words[0], "init") == 0)
		return make(path);
	if (!(strcmp(words[0], "arm") == 0 && count > 1) && !(strcmp(words[0], "disarm") == 0 && count == 2) &&
	    !(strcmp(words[0], "show") == 0 && (count == 1 || json)))
		return misused();
	if ((page = locked(path)) == NULL)
		return FAILED;
	if (strcmp(words[0], "arm") == 0)
		return arm(page, count - 1, words + 1);
	return strcmp(words[0], "disarm") == 0 ? disarm(page, words[1]) : show(page, json);
}

int main(int count, char **words)
{
	const char *path = getenv(CONTROL_VARIABLE);

	if (path == NULL)
		path = CONTROL_PATH;
	if (count > 2 && strcmp(words[1], "--file") == 0) {
		path = words[2];
		words += 2;
		count -= 2;
	}
	if (count == 2 && (strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0)) {
		fputs(USAGE, stdout);
		return 0;
	}
	return count < 2 ? misused() : run(path, count - 1, words + 1);
}
