/*
 * A CUDA program as small as they come: it allocates so many MiB and launches a kernel for each line of its input, and ends at the first
 * error, which it prints as programs do. The runtime is linked into it; the driver's calls come from cudaGetDriverEntryPointByVersion, as
 * in PyTorch and NCCL. No header and no compiler of CUDA is needed: the kernel is PTX (https://docs.nvidia.com/cuda/parallel-thread-execution/).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cudaGetDeviceCount(int *count), cudaMemGetInfo(size_t *left, size_t *total), cudaMalloc(void **at, size_t bytes);
int cudaMemset(void *at, int value, size_t bytes), cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaStreamSynchronize(void *stream), cudaGetLastError(void);
int cudaGetDriverEntryPointByVersion(const char *symbol, void **found, unsigned version, unsigned long long flags, int *status);
const char *cudaGetErrorName(int error), *cudaGetErrorString(int error);

enum { DEVICE_TO_HOST = 2, CUDA_12 = 12000 };

static const char KERNEL[] = ".version 6.4\n.target sm_52\n.address_size 64\n"
			     ".visible .entry add_one(.param .u64 place)\n"
			     "{\n"
			     "\t.reg .u64 %rd<3>;\n\t.reg .u32 %r<3>;\n"
			     "\tld.param.u64 %rd1, [place];\n\tcvta.to.global.u64 %rd2, %rd1;\n"
			     "\tld.global.u32 %r1, [%rd2];\n\tadd.u32 %r2, %r1, 1;\n\tst.global.u32 [%rd2], %r2;\n"
			     "\tret;\n"
			     "}\n";

/* Ends the program with the error of a call, if it has one. */
static void checked(const char *call, int error)
{
	if (error == 0)
		return;
	printf("%s: %s (%d): %s\n", call, cudaGetErrorName(error), error, cudaGetErrorString(error));
	fflush(stdout);
	_Exit(1);
}

static void *entry(const char *symbol)
{
	void *found = NULL;
	int status;

	checked("cudaGetDriverEntryPointByVersion", cudaGetDriverEntryPointByVersion(symbol, &found, CUDA_12, 0, &status));
	return found;
}

static double seconds(void)
{
	struct timespec time;

	timespec_get(&time, TIME_UTC);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *kernel(void)
{
	int (*load)(void **, const void *) = (int (*)(void **, const void *))entry("cuModuleLoadData");
	int (*get)(void **, void *, const char *) = (int (*)(void **, void *, const char *))entry("cuModuleGetFunction");
	void *module = NULL, *function = NULL;

	checked("cuModuleLoadData", load(&module, KERNEL));
	checked("cuModuleGetFunction", get(&function, module, "add_one"));
	return function;
}

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

/* The driver stub does not compute: what it leaves in the host's memory is no result. */
static void step(int number, launch_fn launch, void *function, void *place)
{
	void *arguments[] = { &place };
	double began = seconds(), taken;
	int value = -1;

	checked("cuLaunchKernel", launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	checked("cudaStreamSynchronize", cudaStreamSynchronize(NULL));
	checked("cudaMemcpy", cudaMemcpy(&value, place, sizeof(value), DEVICE_TO_HOST));
	checked("cudaGetLastError", cudaGetLastError());
	taken = seconds() - began;
	printf("step %d: %s", number, value == number || value == -1 ? "ok" : "a wrong result");
	printf(taken < 0.05 ? "\n" : ", after %.1f s\n", taken);
	fflush(stdout);
}

int main(int count, char **words)
{
	size_t left, total, bytes = (size_t)(count > 1 ? atoi(words[1]) : 64) << 20;
	void *place, *function;
	launch_fn launch;
	char line[16];
	int devices;

	checked("cudaGetDeviceCount", cudaGetDeviceCount(&devices));
	checked("cudaMemGetInfo", cudaMemGetInfo(&left, &total));
	printf("%d devices, %zu MiB\n", devices, total >> 20);
	checked("cudaMalloc", cudaMalloc(&place, bytes));
	checked("cudaMemset", cudaMemset(place, 0, bytes));
	launch = (launch_fn)entry("cuLaunchKernel");
	function = kernel();
	for (int number = 1; fgets(line, sizeof(line), stdin) != NULL; number++)
		step(number, launch, function, place);
	return 0;
}
