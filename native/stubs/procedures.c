/* How programs ask the stub for its functions: cuGetProcAddress, and the runtime's unpublished tables. */
#include <stdlib.h>
#include <string.h>

#include "stub.h"

enum { PER_THREAD = 2 };

struct row {
	const char *symbol, *base;
	int version;
	void *function;
};

/* Published calls that are in no table, since no fault changes what they say. */
#define OTHERS(X)                                                                                                              \
	X(cuDriverGetVersion, 2020) X(cuDeviceGet, 2000) X(cuDeviceGetName, 2000) X(cuDeviceGetUuid, 9020) X(cuDeviceGetUuid_v2, 11040)              \
	X(cuDeviceGetAttribute, 2000) X(cuDeviceGetPCIBusId, 4010) X(cuDevicePrimaryCtxGetState, 7000) X(cuCtxSetCurrent, 4000) \
	X(cuCtxGetCurrent, 4000) X(cuCtxGetDevice, 2000) X(cuCtxPushCurrent_v2, 4000) X(cuCtxPopCurrent_v2, 4000)               \
	X(cuGetExportTable, 3000) X(cuStreamIsCapturing, 10000) X(cuStreamGetCaptureInfo, 10010)
#define DECLARED(symbol, version) EXPORT int symbol();
OTHERS(DECLARED)

static const struct row rows[] = {
#define CALL(symbol, base, version, kind, extra, params, names) { #symbol, #base, version, (void *)symbol },
#define OWN CALL
#include "../src/driver.def"
#define OTHER(symbol, version) { #symbol, #symbol, version, (void *)symbol },
	OTHERS(OTHER)
};

static int is_threaded(const char *symbol)
{
	const char *end = strrchr(symbol, '_');

	return end != NULL && strncmp(end, "_pt", 3) == 0;
}

static int is_named(const struct row *row, const char *base)
{
	size_t length = strlen(base);

	return strcmp(row->base, base) == 0 || (strncmp(row->base, base, length) == 0 && strcmp(row->base + length, "_v2") == 0);
}

static const struct row *named(const char *base, int version, uint64_t flags)
{
	const struct row *best = NULL;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];

		if (!is_named(row, base) || row->version > version || (is_threaded(row->symbol) && !(flags & PER_THREAD)))
			continue;
		if (best == NULL || row->version > best->version || (row->version == best->version && is_threaded(row->symbol)))
			best = row;
	}
	return best;
}

/* What is not in the tables exists, too, and succeeds: a program asks for more than it uses. */
static int other(void)
{
	return stub_done();
}

/* A call that has another address here than in the symbol table, as a driver is free to have it. */
static int synchronize(void)
{
	return stub_done();
}

static void *function_of(const struct row *row)
{
	if (row == NULL)
		return (void *)other;
	return strcmp(row->symbol, "cuCtxSynchronize") == 0 ? (void *)synchronize : row->function;
}

static int procedure(const char *symbol, void **found, int version, uint64_t flags, int *status)
{
	const struct row *row = named(symbol, version, flags);

	if (status != NULL)
		*status = 0;
	if (symbol[0] == '\0' || found == NULL)
		return INVALID_VALUE;
	*found = function_of(row);
	return SUCCESS;
}

EXPORT int cuGetProcAddress(void *symbol, void *found, int version, uint64_t flags)
{
	return procedure(symbol, found, version, flags, NULL);
}

EXPORT int cuGetProcAddress_v2(void *symbol, void *found, int version, uint64_t flags, void *status)
{
	return procedure(symbol, found, version, flags, status);
}

/*
 * The runtime's unpublished tables begin with their size in bytes. All that it calls here may simply succeed, but for two: the one that
 * makes a device's context, and the runtime's notes on a context.
 */
enum { TABLE_PLACES = 32 };

struct note {
	void *context, *key, *value;
};
static struct note notes[256];

static int note_put(void *context, void *key, void *value, void *destroyed)
{
	(void)destroyed;
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		if (notes[i].key == NULL || (notes[i].key == key && notes[i].context == context)) {
			notes[i] = (struct note){ context, key, value };
			return SUCCESS;
		}
	return INVALID_VALUE;
}

static int note_get(void **value, void *context, void *key)
{
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		if (notes[i].key == key && notes[i].context == context) {
			*value = notes[i].value;
			return SUCCESS;
		}
	return INVALID_VALUE;
}

static const void *runtime_table[TABLE_PLACES], *notes_table[TABLE_PLACES], *tools_table[TABLE_PLACES], *handshake_table[TABLE_PLACES],
	*other_table[TABLE_PLACES];

/* Places in which tools leave their functions; the runtime looks whether there are any. */
static void first_places(void **where, size_t *size)
{
	static char places[1024];

	*where = places;
	*size = sizeof(places);
}

static void second_places(void **where, size_t *size)
{
	static char places[14];

	*where = places;
	*size = sizeof(places);
}

static int handshake(uint32_t version, uint64_t seconds, void *digest)
{
	stub_handshake(version, seconds, runtime_table, (const void *const *)handshake_table, digest);
	return SUCCESS;
}

static void filled(const void **table)
{
	for (int i = 1; i < TABLE_PLACES; i++)
		table[i] = (void *)other;
	table[0] = (void *)sizeof(runtime_table);
}

static void prepared(void)
{
	filled(runtime_table);
	filled(notes_table);
	filled(tools_table);
	filled(handshake_table);
	filled(other_table);
	runtime_table[2] = (void *)cuDevicePrimaryCtxRetain;
	notes_table[0] = (void *)note_put;
	notes_table[2] = (void *)note_get;
	tools_table[2] = (void *)first_places;
	tools_table[6] = (void *)second_places;
	handshake_table[1] = (void *)handshake;
}

EXPORT int cuGetExportTable(const void **table, const unsigned char uuid[16])
{
	static const struct {
		unsigned char begins[4];
		const void **table;
	} TABLES[] = {
		{ { 0x6b, 0xd5, 0xfb, 0x6c }, runtime_table },   { { 0xc6, 0x93, 0x33, 0x6e }, notes_table },
		{ { 0xa0, 0x94, 0x79, 0x8c }, tools_table },     { { 0xd4, 0x08, 0x20, 0x55 }, handshake_table },
	};

	if (runtime_table[0] == NULL)
		prepared();
	*table = other_table;
	for (size_t i = 0; i < sizeof(TABLES) / sizeof(TABLES[0]); i++)
		if (memcmp(uuid, TABLES[i].begins, sizeof(TABLES[i].begins)) == 0)
			*table = TABLES[i].table;
	return SUCCESS;
}
