/* A machine with eight healthy GPUs, as far as the two calls can tell. */
int cuInit(unsigned int flags)
{
	return flags == 0 ? 0 : 1;
}

int cuDeviceGetCount(int *count)
{
	*count = 8;
	return 0;
}
