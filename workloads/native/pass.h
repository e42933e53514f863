/* Passes an open file from one rank of a host to others, over Unix sockets without a name in any directory. It
   needs no right to look into another process: ranks may be in their own user and process namespaces, and
   may have given up that others look into them. They must share a network namespace. */
#ifndef LOCKSTEP_PASS_H
#define LOCKSTEP_PASS_H

#include <stdint.h>

/* How others reach a rank. */
struct pass_card {
    uint64_t token; /* what comes without it is ignored */
    char name[8];   /* of the socket */
};

/* Open this rank's socket, and describe it. Returns 0, or the error. */
int pass_open(struct pass_card *card);

/* Send a file to a rank, which may be this one, or tell it that it gets none: `file` is -1, or cannot be sent.
   Returns 0, or the error. */
int pass_to(const struct pass_card *card, int file);

/* Whether that rank has a socket. */
int pass_is_open(const struct pass_card *card);

/* Take what was sent here: a file, or -1. Returns whether something was. */
int pass_take(int *file);

void pass_close(void);

#endif
