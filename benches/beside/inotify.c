// SPDX-License-Identifier: Apache-2.0
/* inotify MARKER CMD: waits for the file by inotify(7), and becomes CMD. With -DLEFT_OPEN, CMD inherits the descriptor. */
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#ifdef LEFT_OPEN
#define FLAGS 0
#else
#define FLAGS IN_CLOEXEC
#endif

int main(int argc, char **argv)
{
	char events[4096], path[PATH_MAX];
	int inotify = inotify_init1(FLAGS);

	if (argc < 3 || inotify < 0 ||
	    inotify_add_watch(inotify, dirname(strcpy(path, argv[1])), IN_CREATE | IN_MOVED_TO) < 0)
		return 1;
	while (access(argv[1], F_OK))
		if (read(inotify, events, sizeof(events)) < 0)
			return 1;
	execv(argv[2], argv + 2);
	return 1;
}
