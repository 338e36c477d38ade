// SPDX-License-Identifier: Apache-2.0
/* usage SECONDS CMD...: runs CMD for so long, and prints the microseconds of processor time of it and of its children. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage used;
	pid_t child;

	if (argc < 3)
		return 1;
	child = fork();
	if (child == 0) {
		setpgid(0, 0);
		execv(argv[2], argv + 2);
		_exit(1);
	}
	sleep(atoi(argv[1]));
	/* A sleep that a shell has not reaped by now is missing; it has done next to nothing. */
	setpgid(child, child);
	kill(-child, SIGTERM);
	wait4(child, NULL, 0, &used);
	printf("%ld\n", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	return 0;
}
