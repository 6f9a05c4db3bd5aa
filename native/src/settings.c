/* Reads the settings of a fault. Text of any kind comes here: nothing is allocated, and no number wraps round. */
#define _GNU_SOURCE
#include "settings.h"

#include <stddef.h>
#include <string.h>

#include "device.h"

struct xid {
	int xid, running, later, nvml, ecc, preload;
};

static const struct xid XIDS[] = {
#define XID(xid, running, later, nvml, ecc, preload) { xid, running, later, nvml, ecc, preload },
#include "xids.def"
#undef XID
};

enum { CUDA_NO_DEVICE = 100, LARGEST_ERROR = 999, LARGEST_XID = 999 };
static const uint64_t LARGEST = UINT64_MAX / 4;

static const struct xid *xid_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(XIDS) / sizeof(XIDS[0]); i++)
		if ((uint64_t)XIDS[i].xid == number)
			return &XIDS[i];
	return NULL;
}

/* The digits at the beginning of a text as a number; NULL if there are none or too many, else what follows them. */
static const char *digits(const char *text, uint64_t *number)
{
	const char *at = text;

	for (*number = 0; *at >= '0' && *at <= '9'; at++) {
		if (*number > LARGEST / 10 - 1)
			return NULL;
		*number = *number * 10 + (uint64_t)(*at - '0');
	}
	return at == text ? NULL : at;
}

static bool whole(const char *text, uint64_t most, uint64_t *number)
{
	const char *end = digits(text, number);

	return end != NULL && *end == '\0' && *number <= most;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit TIMES[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", UINT64_C(1000000000) },
				     { "m", UINT64_C(60000000000) }, { "h", UINT64_C(3600000000000) }, { NULL, 0 } };
static const struct unit SIZES[] = { { "B", 1 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { NULL, 0 } };

static bool measured(const char *text, const struct unit *units, uint64_t *number)
{
	const char *end = digits(text, number);

	for (; end != NULL && units->name != NULL; units++)
		if (strcmp(end, units->name) == 0) {
			if (*number > LARGEST / units->factor)
				return false;
			*number *= units->factor;
			return true;
		}
	return false;
}

/* A part of 1 with up to nine decimals, as a part of 2^32. */
static bool chance(const char *text, uint64_t *number)
{
	uint64_t value = 0, scale = 1;

	if (strcmp(text, "1") == 0) {
		*number = UINT64_C(1) << 32;
		return true;
	}
	if (strncmp(text, "0.", 2) != 0 || text[2] == '\0' || strlen(text) > 11)
		return false;
	for (text += 2; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
		scale *= 10;
	}
	*number = (value << 32) / scale;
	return *number != 0;
}

static int digit_of(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static const char *hexadecimal(const char *text, int most, uint64_t *number)
{
	int count = 0;

	for (*number = 0; digit_of(*text) >= 0 && count < most; text++, count++)
		*number = *number << 4 | (uint64_t)digit_of(*text);
	return count == 0 ? NULL : text;
}

/* dddd:bb:dd, with or without the function .0, as the driver prints it. */
static bool address(const char *text, uint64_t *number)
{
	uint64_t domain, bus, device;

	text = hexadecimal(text, 8, &domain);
	if (text == NULL || *text++ != ':' || (text = hexadecimal(text, 2, &bus)) == NULL || *text++ != ':')
		return false;
	text = hexadecimal(text, 2, &device);
	*number = domain << 16 | bus << 8 | device;
	return text != NULL && (*text == '\0' || strcmp(text, ".0") == 0);
}

static bool gpu(const char *text, uint64_t fault[FAULT_WORDS])
{
	fault[FAULT_TARGET_B] = 0;
	if (strcmp(text, "any") == 0)
		fault[FAULT_TARGET] = TARGET_ANY;
	else if (whole(text, MOST_DEVICES - 1, &fault[FAULT_TARGET_A]))
		fault[FAULT_TARGET] = TARGET_ORDINAL;
	else if (uuid_of(text, &fault[FAULT_TARGET_A], &fault[FAULT_TARGET_B]))
		fault[FAULT_TARGET] = TARGET_UUID;
	else if (address(text, &fault[FAULT_TARGET_A]))
		fault[FAULT_TARGET] = TARGET_PCI;
	else
		return false;
	return true;
}

static const char *xid(const char *text, uint64_t fault[FAULT_WORDS])
{
	const struct xid *row;

	if (!whole(text, LARGEST_XID, &fault[FAULT_XID]))
		return "xid is a number, as in xid=79";
	row = xid_of(fault[FAULT_XID]);
	if (row == NULL)
		return "this Xid is not in the table (native/xids.yaml): give error=, new= and nvml= instead";
	fault[FAULT_RUNNING] = (uint64_t)row->running;
	fault[FAULT_NEW] = (uint64_t)row->later;
	fault[FAULT_NVML] = (uint64_t)row->nvml;
	fault[FAULT_ECC] = (uint64_t)row->ecc;
	fault[FAULT_FLAGS] |= FLAG_STICKY | (row->later == CUDA_NO_DEVICE ? FLAG_HIDE : 0);
	return NULL;
}

struct key {
	const char *name;
	enum word word;
	enum { NUMBER, TIME, SIZE } form;
	uint64_t most;
};

static const struct key KEYS[] = {
	{ "error", FAULT_RUNNING, NUMBER, LARGEST_ERROR },
	{ "new", FAULT_NEW, NUMBER, LARGEST_ERROR },
	{ "nvml", FAULT_NVML, NUMBER, LARGEST_ERROR },
	{ "nccl", FAULT_NCCL, NUMBER, 7 },
	{ "ecc", FAULT_ECC, NUMBER, 1000000 },
	{ "after-calls", FAULT_AFTER_CALLS, NUMBER, UINT64_MAX / 4 },
	{ "seed", FAULT_SEED, NUMBER, UINT64_MAX / 4 },
	{ "after", FAULT_AFTER_TIME, TIME, 0 },
	{ "for", FAULT_DURATION, TIME, 0 },
	{ "hang", FAULT_HANG, TIME, 0 },
	{ "latency", FAULT_LATENCY, TIME, 0 },
	{ "memory", FAULT_MEMORY, SIZE, 0 },
};

static const char *keyed(const struct key *key, const char *value, uint64_t fault[FAULT_WORDS])
{
	if (key->form == NUMBER)
		return whole(value, key->most, &fault[key->word]) ? NULL : "this setting is a whole number, and not so large";
	if (key->form == TIME)
		return measured(value, TIMES, &fault[key->word]) ? NULL : "a time is a whole number and ns, us, ms, s, m or h, as in 30s";
	return measured(value, SIZES, &fault[key->word]) ? NULL : "a size is a whole number and B, KiB, MiB or GiB, as in 16GiB";
}

static const struct unit FLAGS[] = { { "hide", FLAG_HIDE }, { "refuse", FLAG_REFUSE }, { "nccl-hang", FLAG_NCCL_HANG },
				     { "sticky", FLAG_STICKY }, { NULL, 0 } };

static const char *flagged(const char *text, uint64_t fault[FAULT_WORDS])
{
	for (const struct unit *flag = FLAGS; flag->name != NULL; flag++)
		if (strcmp(text, flag->name) == 0) {
			fault[FAULT_FLAGS] |= flag->factor;
			return NULL;
		}
	return "no such setting; xid, gpu, error, new, nvml, nccl, ecc, after, after-calls, for, chance, seed, hang, latency and memory have a "
	       "value after '=', hide, refuse, sticky and nccl-hang have none";
}

static const char *read_into(const char *text, uint64_t fault[FAULT_WORDS])
{
	const char *value = strchr(text, '=');
	size_t length = value == NULL ? 0 : (size_t)(value - text);

	if (value == NULL)
		return flagged(text, fault);
	value++;
	if (length == 3 && strncmp(text, "xid", 3) == 0)
		return xid(value, fault);
	if (length == 3 && strncmp(text, "gpu", 3) == 0)
		return gpu(value, fault) ? NULL : "gpu is any, a number, a UUID (GPU-...) or a PCI address (0000:3b:00)";
	if (length == 6 && strncmp(text, "chance", 6) == 0)
		return chance(value, &fault[FAULT_CHANCE]) ? NULL : "chance is a part of 1 with at most nine decimals, as in 0.05";
	for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++)
		if (strlen(KEYS[i].name) == length && strncmp(text, KEYS[i].name, length) == 0)
			return keyed(&KEYS[i], value, fault);
	return flagged(text, fault);
}

/* A setting that is refused has changed nothing. */
const char *settings_read(const char *text, uint64_t fault[FAULT_WORDS])
{
	uint64_t changed[FAULT_WORDS];
	const char *problem;

	memcpy(changed, fault, sizeof(changed));
	problem = read_into(text, changed);
	if (problem == NULL)
		memcpy(fault, changed, sizeof(changed));
	return problem;
}

const char *settings_complete(const uint64_t fault[FAULT_WORDS])
{
	/* An Xid that ends no program, such as 63, is an event of NVML at least. */
	static const enum word EFFECTS[] = { FAULT_XID,  FAULT_RUNNING, FAULT_NEW,    FAULT_NVML,
					     FAULT_NCCL, FAULT_LATENCY, FAULT_MEMORY, FAULT_ECC };

	for (size_t i = 0; i < sizeof(EFFECTS) / sizeof(EFFECTS[0]); i++)
		if (fault[EFFECTS[i]] != 0)
			return NULL;
	if (fault[FAULT_FLAGS] & (FLAG_HIDE | FLAG_NCCL_HANG))
		return NULL;
	return "these settings have no effect: give xid=, error=, new=, nvml=, nccl=, latency=, memory=, ecc=, hide or nccl-hang";
}

bool settings_of_variable(const char *text, struct control *page)
{
	const struct xid *row;
	uint64_t number;

	if (text[0] == '0' || !whole(text, LARGEST_XID, &number) || (row = xid_of(number)) == NULL || row->preload == 0)
		return false;
	atomic_store(&page->fault[0][FAULT_XID], number);
	atomic_store(&page->fault[0][FAULT_RUNNING], (uint64_t)row->preload);
	atomic_store(&page->fault[0][FAULT_NEW], (uint64_t)row->preload);
	atomic_store(&page->fault[0][FAULT_FLAGS], FLAG_REFUSE | FLAG_STICKY);
	atomic_store(&page->fault[0][FAULT_ID], 1);
	atomic_store(&page->gate, 1);
	return true;
}
