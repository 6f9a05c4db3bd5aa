/*
 * A program that may open no file and read no variable from its first calls on: the kernel ends it at such a call (seccomp), and its
 * environment lies in a page that nobody can read. It makes calls of all four libraries for each line of its input.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

typedef int (*call_fn)(void *, void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

#define REFUSED(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int locked_down(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef __NR_open
		REFUSED(open), REFUSED(stat), REFUSED(access), REFUSED(readlink),
#endif
		REFUSED(openat), REFUSED(openat2), REFUSED(newfstatat), REFUSED(statx), REFUSED(readlinkat), REFUSED(faccessat),
		REFUSED(getdents64), REFUSED(mmap), REFUSED(socket),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	environ = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static const struct {
	int library;
	const char *symbol;
} CALLS[] = {
	{ 0, "cuCtxSynchronize" }, { 0, "cuDeviceGetCount" }, { 0, "cuDeviceTotalMem_v2" }, { 0, "cuMemGetInfo_v2" },
	{ 0, "cuMemAlloc_v2" },    { 0, "cuLaunchKernel" },   { 1, "cudaMemGetInfo" },      { 1, "cudaDeviceSynchronize" },
	{ 1, "cudaGetLastError" }, { 1, "cudaStreamQuery" },  { 2, "nvmlDeviceGetCount_v2" }, { 3, "ncclAllReduce" },
	{ 3, "ncclCommGetAsyncError" },
};
enum { COUNT = sizeof(CALLS) / sizeof(CALLS[0]) };
static call_fn calls[COUNT];
static uint64_t places[2][64];

static void all(int rounds)
{
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < COUNT; i++)
			calls[i](places[0], places[1], 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* quiet RUNTIME: prints what a wait gives after each line. */
int main(int count, char **words)
{
	const char *files[] = { "libcuda.so.1", words[count - 1], "libnvidia-ml.so.1", "libnccl.so.2" };
	void *libraries[4];
	char line[16];

	for (int i = 0; i < 4; i++)
		libraries[i] = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; i < COUNT; i++)
		calls[i] = (call_fn)dlsym(libraries[CALLS[i].library], CALLS[i].symbol);
	((int (*)(int))dlsym(libraries[0], "cuInit"))(0);
	((int (*)(void *, int, int))dlsym(libraries[0], "cuCtxCreate_v2"))(places[0], 0, 0);
	all(1);
	puts("ready");
	fflush(stdout);
	if (!locked_down())
		return puts("no seccomp") > 0;
	while (read(STDIN_FILENO, line, sizeof(line)) > 0) { /* stdio would ask what kind of file its input is */
		all(ROUNDS);
		count = snprintf(line, sizeof(line), "%d\n", calls[0](places[0], places[1], 0, 0, 0, 0, 0, 0, 0, 0, 0));
		if (write(STDOUT_FILENO, line, (size_t)count) != count)
			return 1;
	}
	return 0;
}
