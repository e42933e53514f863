#define _GNU_SOURCE
#include "fd_passing.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BEFORE_NAME (offsetof(struct sockaddr_un, sun_path))

static int own = -1;
static uint64_t token;

/* Room for one file beside a message. */
union beside {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int fd_open(struct fd_card *card)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;

    memset(card, 0, sizeof *card);
    own = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (own < 0)
        return errno;
    /* Bound to no name, it gets one from the kernel. */
    if (getrandom(&token, sizeof token, 0) != sizeof token ||
        bind(own, (struct sockaddr *)&name, BEFORE_NAME) ||
        getsockname(own, (struct sockaddr *)&name, &length)) {
        int error = errno;

        fd_close();
        return error;
    }
    card->token = token;
    memcpy(card->name, name.sun_path, sizeof card->name);
    return 0;
}

int fd_is_open(const struct fd_card *card)
{
    return card->name[1] != 0;
}

int fd_send(const struct fd_card *card, int file)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    uint64_t theirs = card->token;
    struct iovec text = {&theirs, sizeof theirs};
    union beside beside = {{0}};
    struct msghdr message = {
        .msg_name = &name,
        .msg_namelen = (socklen_t)(BEFORE_NAME + 1 + strnlen(card->name + 1, sizeof card->name - 1)),
        .msg_iov = &text,
        .msg_iovlen = 1,
    };
    int error = 0;

    if (!fd_is_open(card))
        return 0; /* it knows */
    memcpy(name.sun_path, card->name, sizeof card->name);
    beside.header = (struct cmsghdr){CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&beside.header), &file, sizeof file);
    if (file >= 0) {
        message.msg_control = &beside;
        message.msg_controllen = sizeof beside;
        error = sendmsg(own, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
        message.msg_control = NULL;
        message.msg_controllen = 0;
    }
    if (file < 0 || error)
        (void)sendmsg(own, &message, MSG_NOSIGNAL);
    return error;
}

int fd_take(int *file)
{
    uint64_t received = 0;
    struct iovec text = {&received, sizeof received};
    union beside beside = {{0}};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside};

    *file = -1;
    if (recvmsg(own, &message, MSG_CMSG_CLOEXEC) < 0)
        return 0;
    if (message.msg_controllen >= CMSG_LEN(sizeof *file) && beside.header.cmsg_type == SCM_RIGHTS)
        memcpy(file, CMSG_DATA(&beside.header), sizeof *file);
    if (received == token)
        return 1;
    if (*file >= 0)
        close(*file);
    return 0;
}

void fd_close(void)
{
    if (own >= 0)
        close(own);
    own = -1;
}
