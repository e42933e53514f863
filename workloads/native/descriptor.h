/* Descriptors that the program may take from us. It may close those that it does not know, and then get the
   number for its own file: nobody may read from that, write to it, or close it. */
#ifndef LOCKSTEP_DESCRIPTOR_H
#define LOCKSTEP_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/stat.h>

/* Whether a descriptor still belongs to the file that was `made`. */
static inline bool is_still(int descriptor, const struct stat *made)
{
    struct stat found;

    return fstat(descriptor, &found) == 0 && found.st_ino == made->st_ino && found.st_dev == made->st_dev;
}

#endif
