/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bench/bench.c - the command loop of the benchmark server, its clock and its memory. See bench.h.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

uint64_t bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

_Noreturn void bench_die(const char *what, const char *why) {
    fprintf(stderr, "sft_bench: %s: %s\n", what, why);
    exit(2);
}

void bench_try(sft_status status, const sft_error *err, const char *what) {
    if (status != SFT_OK) {
        bench_die(what, err->message);
    }
}

uint64_t bench_number(const char *text) {
    uint64_t v = 0;
    if (*text == '\0') {
        bench_die("number", "empty");
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            bench_die("not a number", text);
        }
        v = v * 10 + (uint64_t)(*text - '0');
    }
    return v;
}

static unsigned char *map_touched(size_t size, size_t *mapped) {
    const size_t huge = (size_t)2 << 20;
    size = (size + huge - 1) / huge * huge;
    unsigned char *p =
        mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        bench_die("mmap", strerror(errno));
    }
    size_t skew = (huge - (size_t)((uintptr_t)p % huge)) % huge;
    p += skew;
#if defined(MADV_HUGEPAGE)
    (void)madvise(p, size, MADV_HUGEPAGE);
#endif
    for (size_t i = 0; i < size; i += 4096) {
        p[i] = (unsigned char)(i >> 12);
    }
    *mapped = size;
    return p;
}

unsigned char *bench_memory(int slot, size_t size) {
    static unsigned char *memory[2];
    static size_t sizes[2];
    if (sizes[slot] < size) {
        if (memory[slot] != NULL) {
            munmap(memory[slot], sizes[slot]);
        }
        memory[slot] = map_touched(size, &sizes[slot]);
    }
    return memory[slot];
}

unsigned char *bench_load(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        bench_die(path, strerror(errno));
    }
    *size = (size_t)st.st_size;
    unsigned char *p = bench_memory(1, *size);
    for (size_t done = 0; done < *size;) {
        ssize_t n = pread(fd, p + done, *size - done, (off_t)done);
        if (n <= 0) {
            bench_die(path, "short read");
        }
        done += (size_t)n;
    }
    close(fd);
    return p;
}

/* ---------------------------------------------------------------- commands about the machine */

/* prewarm MIB: touches memory once, so that the host has backed it before anything is timed. */
static double run_prewarm(const bench_args *args) {
    size_t size = (size_t)bench_number(args->text[1]) << 20, mapped;
    uint64_t start = bench_now();
    unsigned char *p = map_touched(size, &mapped);
    munmap(p, mapped);
    return (double)(bench_now() - start);
}

/* spawn N PROGRAM ARGUMENT...: mean time of starting it and waiting for its end, output to
 * /dev/null. */
static double run_spawn(const bench_args *args) {
    uint64_t n = bench_number(args->text[1]), start = bench_now();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (uint64_t i = 0; i < n; i++) {
        pid_t pid;
        int status;
        if (posix_spawn(&pid, args->text[2], &actions, NULL, args->text + 2, environ) != 0) {
            bench_die(args->text[2], "cannot start");
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
            bench_die(args->text[2], "ended badly");
        }
    }
    posix_spawn_file_actions_destroy(&actions);
    return (double)(bench_now() - start) / (double)n;
}

/* peak: the most memory this process ever held, in bytes. (What getrusage tells includes the parent
 * before exec.) */
static double run_peak(const bench_args *args) {
    (void)args;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    if (f == NULL) {
        bench_die("/proc/self/status", strerror(errno));
    }
    uint64_t kib = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            char *digits = line + strcspn(line, "0123456789");
            digits[strspn(digits, "0123456789")] = '\0';
            kib = bench_number(digits);
        }
    }
    fclose(f);
    return (double)kib * 1024.0;
}

/* drop PATH: puts the file out of the page cache. */
static double run_drop(const bench_args *args) {
    int fd = open(args->text[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        bench_die(args->text[1], strerror(errno));
    }
#if defined(POSIX_FADV_DONTNEED)
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
    close(fd);
    return 0;
}

static const bench_command machine_commands[] = {{"prewarm", run_prewarm, 1},
                                                 {"spawn", run_spawn, 2},
                                                 {"peak", run_peak, 0},
                                                 {"drop", run_drop, 1},
                                                 {NULL, NULL, 0}};

/* ---------------------------------------------------------------- loop */

static const bench_command *find(const char *name) {
    const bench_command *tables[] = {machine_commands, bench_open_commands, bench_read_commands,
                                     bench_load_commands, bench_save_commands,
                                     bench_stream_commands, bench_matrix_commands};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const bench_command *c = tables[t]; c->name != NULL; c++) {
            if (strcmp(c->name, name) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

int main(void) {
    static char line[1 << 16];
    char *words[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        bench_args args = {0, words};
        char *at = line;
        while (args.count < 63) { /* words are separated by tabs */
            words[args.count++] = at;
            char *end = at + strcspn(at, "\t\n");
            bool last = *end != '\t';
            *end = '\0';
            at = end + 1;
            if (last) {
                break;
            }
        }
        words[args.count] = NULL;
        const bench_command *c = find(words[0]);
        if (c == NULL || args.count - 1 < c->least) {
            bench_die(words[0], "no such command, or arguments missing");
        }
        printf("%.1f\n", c->run(&args));
        fflush(stdout);
    }
    return 0;
}
