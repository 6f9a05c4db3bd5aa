/* Reads the UUID of a GPU. */
#include "device.h"

static int digit_of(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	letter |= 0x20;
	return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool uuid_of(const char *text, uint64_t *first, uint64_t *second)
{
	static const char FORM[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	uint64_t halves[2] = { 0, 0 };
	int digits = 0;

	for (int i = 0; FORM[i] != '\0'; i++) {
		if (FORM[i] != 'x') {
			if (text[i] != FORM[i])
				return false;
			continue;
		}
		if (digit_of(text[i]) < 0)
			return false;
		halves[digits / 16] = halves[digits / 16] << 4 | (uint64_t)digit_of(text[i]);
		digits++;
	}
	*first = halves[0];
	*second = halves[1];
	return text[sizeof(FORM) - 1] == '\0';
}
