/* A rank at a meeting, without MPI: meets NAME RANKS. It says "here", reads a line, and says the answer. */
#include "meeting.c"

#include <time.h>

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void say(const char *what)
{
    fprintf(stderr, "%s\n", what);
}

int main(int count, char **words)
{
    (void)count;
    meeting_begin(words[1]);
    printf("here\n");
    fflush(stdout);
    if (getchar() == EOF)
        return 1;
    printf("%s\n", meeting_all(atoi(words[2])) ? "yes" : "no");
    return 0;
}
