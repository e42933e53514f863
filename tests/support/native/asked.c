/* A rank that is asked where it is, and meanwhile does what could hinder that: by its first argument. */
#define _GNU_SOURCE
#include <mpi.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How many threads answer. */
static int asked(void)
{
    DIR *all = opendir("/proc/self/task");
    int count = 0;

    for (const struct dirent *one; all != NULL && (one = readdir(all)) != NULL;) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", one->d_name);
        file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof name, file))
            count += strcmp(name, "lockstep-asked\n") == 0;
        if (file != NULL)
            fclose(file);
    }
    closedir(all);
    return count;
}

static void wait_for_end_of_input(void)
{
    char byte;

    while (read(0, &byte, 1) > 0)
        ;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    printf("asked by %d\n", asked());
    fflush(stdout);
    if (strcmp(kind, "closes") == 0) {
        for (int descriptor = 3; descriptor < 1024; descriptor++)
            close(descriptor);
        wait_for_end_of_input();
        _exit(0);
    }
    if (strcmp(kind, "forks") == 0 && fork() != 0)
        _exit(0);
    if (strcmp(kind, "forks") == 0 || strcmp(kind, "waits") == 0)
        wait_for_end_of_input();
    if (strcmp(kind, "forks") == 0)
        _exit(0);
    if (strcmp(kind, "executes") == 0)
        execlp("cat", "cat", NULL);
    MPI_Finalize();
    printf("asked by %d\n", asked());
    fflush(stdout);
    if (strcmp(kind, "leaves") == 0)
        pthread_exit(NULL);
    return 0;
}
