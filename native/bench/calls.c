/*
 * What a call costs: nanoseconds of cuCtxSynchronize, which bench/driver.c answers at once, and seconds of launches, which take it
 * STUB_LAUNCH_NS each. The program is linked with the driver; what is preloaded is what is measured.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int cuInit(int flags);
int cuCtxCreate_v2(void *context, int flags, int device);
int cuCtxSynchronize(void);
int cuLaunchKernel(void *f, int gx, int gy, int gz, int bx, int by, int bz, int bytes, void *stream, void *params, void *extra);

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
		cuCtxSynchronize();
	return (seconds() - began) / (double)count * 1e9;
}

static double of_launches(long count)
{
	double began = seconds();

	for (long i = 0; i < count; i++)
		cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	return seconds() - began;
}

/* calls ROUNDS CALLS LAUNCHES, and what a call gives: the least of so many rounds, which is what the machine's other work disturbs least. */
int main(int count, char **words)
{
	double call = 1e9, launch = 1e9;
	void *context;
	int result = 0;

	if (count != 4 || cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0)
		return 2;
	for (int round = atoi(words[1]); round > 0; round--) {
		double one = of_calls(atol(words[2])), all = of_launches(atol(words[3]));

		call = one < call ? one : call;
		launch = all < launch ? all : launch;
	}
	result = cuCtxSynchronize();
	printf("%.3f %.6f %d\n", call, launch, result);
	return 0;
}
