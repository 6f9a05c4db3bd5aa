/* Every call of the tables that a stub has no function of its own for: it succeeds. The linker takes the other where there is one. */
#include <stdint.h>

struct b8 { uint32_t words[2]; };
struct b64 { uint64_t words[8]; };
struct b128 { uint64_t words[16]; };

int stub_done(void);

#define CALL(symbol, base, version, kind, extra, params, names)             \
	__attribute__((weak, visibility("default"))) int symbol params      \
	{                                                                   \
		return stub_done();                                         \
	}
#define OWN CALL
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include TABLE
