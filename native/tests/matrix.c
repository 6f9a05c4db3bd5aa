/*
 * Calls every replaced function of a library by one route and prints what each returns. Its library is opened and has a context before
 * it says "ready"; the calls come after a line on its input, so that a fault can be armed in between. None may change errno.
 *
 * Routes: direct, linked, dlsym, dlvsym:VERSION; own, 11030, 12000: cuGetProcAddress_v2, asked for the call's own version or for this one;
 * first: cuGetProcAddress; of-11030, of-12000: the cuGetProcAddress that the driver gives for this version; entry, entry_ptsz, byversion,
 * byversion_ptsz: the runtime's cudaGetDriverEntryPoint and ...ByVersion.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *symbol, *base;
	int version;
	const char *kind;
	void *linked;
};

/* Built once more as a library in which the linker has bound every call (LINKED). */
#ifdef LINKED
#define CALL(symbol, base, version, kind, extra, params, names) extern char symbol[];
#define OWN CALL
#include "../src/driver.def"
#include "../src/runtime.def"
#include "../src/nvml.def"
#include "../src/nccl.def"
#undef CALL
#define CALL(symbol, base, version, kind, extra, params, names) { #symbol, #base, version, #kind, symbol },
#else
#define CALL(symbol, base, version, kind, extra, params, names) { #symbol, #base, version, #kind, NULL },
#define OWN CALL
#endif
static const struct row DRIVER_ROWS[] = {
#include "../src/driver.def"
};
static const struct row RUNTIME_ROWS[] = {
#include "../src/runtime.def"
};
static const struct row NVML_ROWS[] = {
#include "../src/nvml.def"
};
static const struct row NCCL_ROWS[] = {
#include "../src/nccl.def"
};

static const struct {
	const char *name;
	const struct row *rows;
	size_t count;
} LIBRARIES[] = {
	{ "driver", DRIVER_ROWS, sizeof(DRIVER_ROWS) / sizeof(struct row) },
	{ "runtime", RUNTIME_ROWS, sizeof(RUNTIME_ROWS) / sizeof(struct row) },
	{ "nvml", NVML_ROWS, sizeof(NVML_ROWS) / sizeof(struct row) },
	{ "nccl", NCCL_ROWS, sizeof(NCCL_ROWS) / sizeof(struct row) },
};

typedef int (*any_fn)(void *, void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef int (*address_fn)(const char *, void **, int, uint64_t, int *);

/* A number of a device that is made of such an address means device 0 to the library. */
static _Alignas(4096) char places[2][4096];

/* Places to write to where a call has its results, and zeros for all the rest. */
static int called(const struct row *row, void *function)
{
	int result;

	errno = EDOM;
	result = ((any_fn)function)(places[0], places[1], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	if (errno != EDOM)
		fprintf(stderr, "%s changed errno to %d\n", row->symbol, errno);
	return result;
}

/* What gives the calls by name: of the driver, or what that gives when it is asked for itself. */
static address_fn asker(void *library, const char *how)
{
	void *found = dlsym(library, strcmp(how, "first") == 0 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
	int status;

	if (strncmp(how, "of-", 3) == 0)
		((address_fn)found)("cuGetProcAddress", &found, atoi(how + 3), 0, &status);
	return (address_fn)found;
}

static void *by_address(void *library, const char *how, const struct row *row)
{
	int version = atoi(how) != 0 ? atoi(how) : row->version, status;
	void *found = NULL;

	if (version < row->version)
		return NULL;
	asker(library, how)(row->base, &found, version, strstr(row->symbol, "_pt") != NULL ? 2 : 0, &status);
	return found;
}

typedef int (*entry_fn)(const char *, void **, uint64_t, int *);
typedef int (*versioned_fn)(const char *, void **, unsigned, uint64_t, int *);

/* What the runtime tells of the driver's functions: the newest that it knows itself, or that of a version. */
static void *by_runtime(void *library, const char *how, const struct row *row)
{
	static const char NAMES[][48] = { "cudaGetDriverEntryPoint", "cudaGetDriverEntryPoint_ptsz", "cudaGetDriverEntryPointByVersion",
					  "cudaGetDriverEntryPointByVersion_ptsz" };
	int which = 2 * (strncmp(how, "byversion", 9) == 0) + (strstr(how, "_ptsz") != NULL), status;
	uint64_t flags = strstr(row->symbol, "_pt") != NULL ? 2 : 0;
	void *function = dlsym(library, NAMES[which]), *found = NULL;
	int newest = 0;

	((int (*)(int *))dlsym(library, "cudaRuntimeGetVersion"))(&newest);
	if (which < 2 && newest < row->version)
		return NULL;
	if (which < 2)
		((entry_fn)function)(row->base, &found, flags, &status);
	else
		((versioned_fn)function)(row->base, &found, (unsigned)row->version, flags, &status);
	return found;
}

static void *found(void *library, const char *route, const struct row *row)
{
	const char *end = strrchr(row->symbol, '_');

	if (strcmp(route, "linked") == 0)
		return row->linked;
	if (strcmp(route, "direct") == 0)
		return dlsym(RTLD_DEFAULT, row->symbol);
	if (strcmp(route, "dlsym") == 0)
		return dlsym(library, row->symbol);
	if (strncmp(route, "dlvsym:", 7) == 0)
		return dlvsym(library, row->symbol, route + 7);
	if (strncmp(route, "entry", 5) == 0 || strncmp(route, "byversion", 9) == 0)
		return end != NULL && strcmp(end, "_ptds") == 0 ? NULL : by_runtime(library, route, row);
	return by_address(library, route, row);
}

/* The driver of the process, whichever library is under test. */
static void *driver(void)
{
	return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

static void ready(void *library, const char *name)
{
	char line[16];

	if (strcmp(name, "driver") == 0) {
		((int (*)(int))dlsym(driver(), "cuInit"))(0);
		((int (*)(void *, int, int))dlsym(driver(), "cuCtxCreate_v2"))(places[0], 0, 0);
	} else if (strcmp(name, "runtime") == 0) {
		((int (*)(void *, uint64_t))dlsym(library, "cudaMalloc"))(places[0], 1024);
	}
	puts("ready");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		exit(2);
}

static int all(size_t at, void *library, const char *route)
{
	for (size_t i = 0; i < LIBRARIES[at].count; i++) {
		const struct row *row = &LIBRARIES[at].rows[i];
		void *function = strcmp(row->kind, "OWN") == 0 ? NULL : found(library, route, row);

		if (function != NULL)
			printf("%s %s %d\n", row->symbol, row->kind, called(row, function));
		else if (strcmp(row->kind, "OWN") != 0)
			printf("%s %s -\n", row->symbol, row->kind);
	}
	return 0;
}

/* Every call, also those that are written by hand, without any library behind them. */
static int missing(void)
{
	for (size_t at = 0; at < sizeof(LIBRARIES) / sizeof(LIBRARIES[0]); at++)
		for (size_t i = 0; i < LIBRARIES[at].count; i++)
			printf("%s %s %d\n", LIBRARIES[at].rows[i].symbol, LIBRARIES[at].name,
			       called(&LIBRARIES[at].rows[i], LIBRARIES[at].rows[i].linked));
	return 0;
}

static int run(int count, char **words)
{
	if (count == 1)
		return missing();

	void *library = count == 4 ? dlopen(words[2], RTLD_NOW | (strcmp(words[3], "direct") == 0 ? RTLD_GLOBAL : RTLD_LOCAL)) : NULL;

	if (library == NULL)
		return 2;
	ready(library, words[1]);
	for (size_t i = 0; i < sizeof(LIBRARIES) / sizeof(LIBRARIES[0]); i++)
		if (strcmp(LIBRARIES[i].name, words[1]) == 0)
			return all(i, library, words[3]);
	return 2;
}

#ifdef LINKED
__attribute__((visibility("default"))) int linked(int count, char **words);
int linked(int count, char **words)
{
	return run(count, words);
}
#else
/* matrix LIBRARY FILE ROUTE; without arguments every call of the linked library. */
int main(int count, char **words)
{
	int (*linked)(int, char **);

	if (count == 4 && strcmp(words[3], "linked") != 0)
		return run(count, words);
	linked = (int (*)(int, char **))dlsym(dlopen("linked.so", RTLD_LAZY), "linked");
	return linked == NULL ? 2 : linked(count, words);
}
#endif
