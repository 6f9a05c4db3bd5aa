/*
 * Calls every replaced function of a library by one route and prints what each returns. Its library is opened and has a context before
 * it says "ready"; the calls come after a line on its input, so that a fault can be armed in between.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *symbol, *base;
	int version;
	const char *kind;
};

#define CALL(symbol, base, version, kind, extra, params, names) { #symbol, #base, version, #kind },
#define OWN CALL
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

static char places[2][4096];

/* Places to write to where a call has its results, and zeros for all the rest. */
static int called(void *function)
{
	return ((any_fn)function)(places[0], places[1], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void *by_address(void *library, const char *how, const struct row *row)
{
	address_fn ask = (address_fn)dlsym(library, "cuGetProcAddress_v2");
	int version = strcmp(how, "11030") == 0 ? 11030 : strcmp(how, "12000") == 0 ? 12000 : row->version, status;
	void *found = NULL;

	if (version < row->version)
		return NULL;
	ask(row->base, &found, version, strstr(row->symbol, "_pt") != NULL ? 2 : 0, &status);
	return found;
}

static void *found(void *library, const char *route, const struct row *row)
{
	if (strcmp(route, "direct") == 0)
		return dlsym(RTLD_DEFAULT, row->symbol);
	if (strcmp(route, "dlsym") == 0)
		return dlsym(library, row->symbol);
	return by_address(library, route, row);
}

static void ready(void *library, const char *name)
{
	char line[16];

	if (strcmp(name, "driver") == 0) {
		((int (*)(int))dlsym(library, "cuInit"))(0);
		((int (*)(void *, int, int))dlsym(library, "cuCtxCreate_v2"))(places[0], 0, 0);
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
			printf("%s %s %d\n", row->symbol, row->kind, called(function));
		else if (strcmp(row->kind, "OWN") != 0)
			printf("%s %s -\n", row->symbol, row->kind);
	}
	return 0;
}

/* matrix LIBRARY FILE ROUTE; ROUTE: direct, dlsym, or the version for cuGetProcAddress (own: that of the call). */
int main(int count, char **words)
{
	void *library = count == 4 ? dlopen(words[2], RTLD_NOW | (strcmp(words[3], "direct") == 0 ? RTLD_GLOBAL : RTLD_LOCAL)) : NULL;

	if (library == NULL)
		return 2;
	ready(library, words[1]);
	for (size_t i = 0; i < sizeof(LIBRARIES) / sizeof(LIBRARIES[0]); i++)
		if (strcmp(LIBRARIES[i].name, words[1]) == 0)
			return all(i, library, words[3]);
	return 2;
}
