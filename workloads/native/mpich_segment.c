/* MPICH 5 gives the memory that the ranks of a node share a name in /dev/shm. Every rank opens it in MPI_Init,
   and nobody opens it later; the rank that made it removes the name in MPI_Finalize, whether or not it is
   there. So we remove it as soon as all ranks have left MPI_Init: then the memory ends with its last process,
   however that ends. Older MPICHs do the same themselves. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "wrappers.h"

#define NAMED "/dev/shm/mpich_shm_"

void mpich_segment_remove_name(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128], name[PATH_MAX] = NAMED;
    unsigned major, minor;
    unsigned long inode;
    struct stat found;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%*s %*s %*s %x:%x %lu " NAMED "%127[^ \n]", &major, &minor, &inode,
                   name + sizeof NAMED - 1) == 4 &&
            stat(name, &found) == 0 && found.st_ino == inode && found.st_dev == makedev(major, minor))
            unlink(name);
    if (maps != NULL)
        fclose(maps);
}
