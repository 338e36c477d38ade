// SPDX-License-Identifier: Apache-2.0
/* dnotify MARKER CMD: the same by dnotify (fcntl(2), F_NOTIFY), which tells by a signal and has nothing to take down. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char path[PATH_MAX];
	sigset_t io, before;
	int directory, signal;

	sigemptyset(&io);
	sigaddset(&io, SIGIO);
	sigprocmask(SIG_BLOCK, &io, &before);
	if (argc < 3)
		return 1;
	directory = open(dirname(strcpy(path, argv[1])), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0 || fcntl(directory, F_NOTIFY, DN_CREATE | DN_RENAME | DN_MULTISHOT))
		return 1;
	while (access(argv[1], F_OK))
		sigwait(&io, &signal);
	close(directory);
	sigprocmask(SIG_SETMASK, &before, NULL);
	execv(argv[2], argv + 2);
	return 1;
}
