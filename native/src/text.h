/*
 * Comparisons of text without the C library: dlsym is called before everything else is ready, by sanitizers for one, which replace strcmp
 * and look for the real one with it.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>

static inline bool text_begins(const char *text, const char *with)
{
	while (*with != '\0' && *text == *with) {
		text++;
		with++;
	}
	return *with == '\0';
}

static inline bool text_is(const char *one, const char *other)
{
	while (*one != '\0' && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

/* What follows the last such letter; NULL if there is none. */
static inline const char *text_after(const char *text, char letter)
{
	const char *found = NULL;

	for (; *text != '\0'; text++)
		if (*text == letter)
			found = text + 1;
	return found;
}

#endif
