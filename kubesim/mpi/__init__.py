"""Open MPI 4.1: the command line of mpirun, the hosts of a job, and the job that its daemons and ranks connect to."""
