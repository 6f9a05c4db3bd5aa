/*
 * What the runtime asks of a driver before it works with it: a keyed digest of the process, the runtime's tables and the devices. It is
 * HMAC (RFC 2104) over MD2 (RFC 1319), both public; the key and the order of what goes in are facts that ZLUDA's authors published
 * (https://github.com/vosen/ZLUDA, dark_api). Two old versions of it are constants.
 */
#include "stub.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 16, STATE = 3 * BLOCK, ROUNDS = 18 };

/* RFC 1319: a permutation of bytes made from the digits of pi. */
static const unsigned char PI[256] = {
	41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19, 98, 167, 5, 243, 192, 199,
	115, 140, 152, 147, 43, 217, 188, 76, 130, 202, 30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24,
	138, 23, 229, 18, 190, 78, 196, 214, 218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122, 169, 104,
	121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11, 34, 95, 33, 128, 127, 93, 154, 90, 144, 50, 39,
	53, 62, 204, 231, 191, 247, 151, 3, 255, 25, 48, 179, 72, 165, 181, 209, 215, 94, 146, 42, 172, 86,
	170, 198, 79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241, 69, 157, 112, 89,
	100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2, 27, 96, 37, 173, 174, 176, 185, 246, 28, 70,
	97, 105, 52, 64, 126, 15, 85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197, 234, 38,
	44, 83, 13, 110, 133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82, 106, 220, 55, 200, 108, 193,
	171, 250, 36, 225, 123, 8, 12, 189, 177, 74, 120, 136, 149, 139, 227, 99, 232, 109, 233, 203, 213, 254,
	59, 0, 29, 57, 242, 239, 183, 14, 102, 88, 208, 228, 166, 119, 114, 248, 235, 117, 75, 10, 49, 68,
	80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
};
static const unsigned char KEY[BLOCK] = { 0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f };

struct md2 {
	unsigned char state[STATE], checksum[BLOCK], block[BLOCK];
	int used;
};

static void stirred(struct md2 *md2)
{
	unsigned char last = md2->checksum[BLOCK - 1], t = 0;

	for (int i = 0; i < BLOCK; i++) {
		md2->state[BLOCK + i] = md2->block[i];
		md2->state[2 * BLOCK + i] = md2->block[i] ^ md2->state[i];
		last = md2->checksum[i] ^= PI[md2->block[i] ^ last];
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < STATE; i++)
			t = md2->state[i] ^= PI[t];
		t = (unsigned char)(t + round);
	}
	md2->used = 0;
}

static void update(struct md2 *md2, const void *data, size_t length, unsigned char mask)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < length; i++) {
		md2->block[md2->used++] = bytes[i] ^ mask;
		if (md2->used == BLOCK)
			stirred(md2);
	}
}

static void finish(struct md2 *md2, unsigned char digest[BLOCK])
{
	unsigned char padding = (unsigned char)(BLOCK - md2->used), sum[BLOCK];

	for (int i = padding; i > 0; i--)
		update(md2, &padding, 1, 0);
	memcpy(sum, md2->checksum, BLOCK);
	update(md2, sum, BLOCK, 0);
	memcpy(digest, md2->state, BLOCK);
}

struct process {
	uint32_t driver, runtime, process, thread;
	const void *runtime_table, *own_table, *function;
	uint64_t seconds;
};

struct identity {
	unsigned char uuid[16];
	int domain, bus, device;
};

void stub_handshake(uint32_t version, uint64_t seconds, const void *runtime_table, const void *const *own_table, void *digest)
{
	static const uint64_t CONSTANT[2][2] = { { UINT64_C(0x3341181c03cb675c), UINT64_C(0x8ed383aa1f4cd1e8) },
						 { UINT64_C(0x1841181c03cb675c), UINT64_C(0x8ed383aa1f4cd1e8) } };
	struct process process = { STUB_VERSION,  version,   (uint32_t)getpid(), (uint32_t)(uintptr_t)pthread_self(),
				   runtime_table, own_table, own_table[1],       seconds };
	struct md2 inner = { .used = 0 }, outer = { .used = 0 };
	unsigned char sum[BLOCK];

	if (version % 10 < 2) {
		memcpy(digest, CONSTANT[version % 10], BLOCK);
		return;
	}
	update(&inner, KEY, BLOCK, 0x36);
	update(&inner, &process, sizeof(process), 0);
	for (int device = 0; device < stub_devices(); device++) {
		struct identity identity = { .domain = 0, .bus = stub_bus(device) };

		stub_uuid(identity.uuid, device);
		update(&inner, &identity, sizeof(identity), 0);
	}
	finish(&inner, sum);
	update(&outer, KEY, BLOCK, 0x5c);
	update(&outer, sum, BLOCK, 0);
	finish(&outer, digest);
}
