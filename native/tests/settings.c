/*
 * The parser of settings under text of every kind: LLVMFuzzerTestOneInput for libFuzzer; without it, a program that takes a number to
 * begin with, a number of rounds and files of seeds: it changes each byte of those, and makes its own text out of pieces of settings and
 * of arbitrary bytes.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each piece between zero bytes is a setting. A fault that was accepted is within its limits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t fault[FAULT_WORDS] = { 0 };
	char *text = malloc(size + 1);
	static struct control page;

	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t at = 0; at <= size; at += strlen(text + at) + 1)
		settings_read(text + at, fault);
	settings_of_variable(text, &page);
	settings_complete(fault);
	if (fault[FAULT_RUNNING] > 999 || fault[FAULT_NEW] > 999 || fault[FAULT_TARGET] > TARGET_PCI || fault[FAULT_CHANCE] > UINT64_C(1) << 32)
		abort();
	free(text);
	return 0;
}

#ifndef FUZZER
static const char *const PIECES[] = { "xid=", "gpu=", "79", "GPU-", "0000:3b:00", "after=", "10s", "chance=0.", "memory=", "GiB", "hide",
				      "99999999999999999999", "-1", "=", "latency=", "us", "GPU-00000000-0000-0000-0000-000000000003" };

static size_t made(char *text, size_t size)
{
	size_t length = 0;

	while (length + 64 < size && rand() % 6 != 0) {
		const char *piece = PIECES[(size_t)rand() % (sizeof(PIECES) / sizeof(PIECES[0]))];

		if (rand() % 4 == 0) {
			text[length++] = (char)rand();
			continue;
		}
		memcpy(text + length, piece, strlen(piece));
		length += strlen(piece);
	}
	return length;
}

/* A seed that somebody wrote, as it is and with one byte changed at a time. False if it cannot be read. */
static bool mutated(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t data[1024];
	size_t size = file == NULL ? 0 : fread(data, 1, sizeof(data), file);

	if (file == NULL || fclose(file) != 0 || size == 0)
		return false;
	LLVMFuzzerTestOneInput(data, size);
	for (size_t at = 0; at < size; at++)
		for (int change = 1; change < 256; change++) {
			data[at] ^= (uint8_t)change;
			LLVMFuzzerTestOneInput(data, size);
			data[at] ^= (uint8_t)change;
		}
	return true;
}

int main(int count, char **words)
{
	char text[1024];

	if (count < 3)
		return 2;
	for (int i = 3; i < count; i++)
		if (!mutated(words[i]))
			return 2;
	srand((unsigned)atoi(words[1]));
	for (long round = atol(words[2]); round > 0; round--)
		LLVMFuzzerTestOneInput((const uint8_t *)text, made(text, sizeof(text)));
	puts("done");
	return 0;
}
#endif
