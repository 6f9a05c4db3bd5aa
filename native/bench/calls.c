/*
 * What a call costs: nanoseconds of cuCtxSynchronize, which bench/driver.c answers at once, and seconds of launches, which take it
 * STUB_LAUNCH_NS each. The program looks them up as one that has the driver open for everybody; what
 * is preloaded is what is measured, whether it has functions of these names or answers dlsym itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int (*initialise)(int flags);
static int (*create)(void *context, int flags, int device);
static int (*synchronize)(void);
static int (*launch)(void *f, int gx, int gy, int gz, int bx, int by, int bz, int bytes, void *stream, void *params, void *extra);

static int found(void)
{
	if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL)
		return 0;
	*(void **)&initialise = dlsym(RTLD_DEFAULT, "cuInit");
	*(void **)&create = dlsym(RTLD_DEFAULT, "cuCtxCreate_v2");
	*(void **)&synchronize = dlsym(RTLD_DEFAULT, "cuCtxSynchronize");
	*(void **)&launch = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
	return initialise != NULL && create != NULL && synchronize != NULL && launch != NULL;
}

static double seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double of_calls(long count)
{
	double began = seconds();

	for (long i = 0; i < count; i++)
		synchronize();
	return (seconds() - began) / (double)count * 1e9;
}

static double of_launches(long count)
{
	double began = seconds();

	for (long i = 0; i < count; i++)
		launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	return seconds() - began;
}

/* calls ROUNDS CALLS LAUNCHES, and what a call gives: the least of so many rounds, which is what the machine's other work disturbs least. */
int main(int count, char **words)
{
	double call = 1e9, launched = 1e9;
	void *context;
	int result = 0;

	if (count != 4 || !found() || initialise(0) != 0 || create(&context, 0, 0) != 0)
		return 2;
	for (int round = atoi(words[1]); round > 0; round--) {
		double one = of_calls(atol(words[2])), all = of_launches(atol(words[3]));

		call = one < call ? one : call;
		launched = all < launched ? all : launched;
	}
	result = synchronize();
	printf("%.3f %.6f %d\n", call, launched, result);
	return 0;
}
