/* Passes an open file from one rank of a host to others, over Unix sockets without a name in any directory. It
   needs no right to look into another process: ranks may be in their own user and process namespaces, and
   may have given up that others look into them. They must share a network namespace. */
#ifndef LOCKSTEP_FD_PASSING_H
#define LOCKSTEP_FD_PASSING_H

#include <stdint.h>

/* How others reach a rank. */
struct fd_card {
    uint64_t token; /* what comes without it is ignored */
    char name[8];   /* of the socket */
};

/* Open this rank's socket, and describe it. Returns 0, or the error. */
int fd_open(struct fd_card *card);

/* Send a file to a rank, which may be this one, or tell it that it gets none: `file` is -1, or cannot be sent.
   Returns 0, or the error. */
int fd_send(const struct fd_card *card, int file);

/* Whether that rank has a socket. */
int fd_is_open(const struct fd_card *card);

/* Take what was sent here: a file, or -1. Returns whether something was. */
int fd_take(int *file);

void fd_close(void);

#endif
