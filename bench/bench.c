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
#include <sys/resource.h>
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

/* The number behind `key` in a file of /proc, 0 where there is none. */
static uint64_t proc_number(const char *path, const char *key) {
    char line[256];
    uint64_t v = 0;
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            char *digits = line + strcspn(line, "0123456789");
            digits[strspn(digits, "0123456789")] = '\0';
            v = *digits == '\0' ? 0 : bench_number(digits);
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return v;
}

typedef struct counters {
    uint64_t minor, major, user_us, system_us, device, rss;
} counters;

static counters began, spent;
static uint64_t peak_growth;
static bool counted;

static counters count_now(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (counters){(uint64_t)u.ru_minflt,
                      (uint64_t)u.ru_majflt,
                      (uint64_t)u.ru_utime.tv_sec * 1000000u + (uint64_t)u.ru_utime.tv_usec,
                      (uint64_t)u.ru_stime.tv_sec * 1000000u + (uint64_t)u.ru_stime.tv_usec,
                      proc_number("/proc/self/io", "read_bytes:"),
                      proc_number("/proc/self/status", "VmRSS:") << 10};
}

uint64_t bench_start(void) {
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) { /* 5: the peak begins anew */
        const ssize_t n = write(fd, "5", 1);
        (void)n;
        close(fd);
    }
    began = count_now();
    return bench_now();
}

uint64_t bench_stop(void) {
    const uint64_t now = bench_now();
    const counters end = count_now();
    const uint64_t peak = proc_number("/proc/self/status", "VmHWM:") << 10;
    spent = (counters){end.minor - began.minor,     end.major - began.major,
                       end.user_us - began.user_us, end.system_us - began.system_us,
                       end.device - began.device,   0};
    peak_growth = peak > began.rss ? peak - began.rss : 0;
    counted = true;
    return now;
}

static void answer(double value) {
    if (!counted) {
        printf("%.1f\n", value);
    } else {
        printf(
            "{\"ns\": %.1f, \"minor\": %llu, \"major\": %llu, \"cpu_us\": %llu, \"device\": %llu, "
            "\"peak\": %llu}\n",
            value, (unsigned long long)spent.minor, (unsigned long long)spent.major,
            (unsigned long long)(spent.user_us + spent.system_us), (unsigned long long)spent.device,
            (unsigned long long)peak_growth);
    }
    counted = false;
    fflush(stdout);
}

static volatile uint64_t kept;

void bench_keep(uint64_t result) {
    kept += result;
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

sft_pool *bench_pool(uint64_t threads) {
    static sft_pool *pool;
    static uint64_t made;
    sft_error err;
    if (made != threads) {
        sft_pool_free(pool);
        pool = NULL;
        if (threads > 1 || getenv("SFT_CPU") != NULL) {
            bench_try(sft_pool_create(&pool, (uint32_t)threads, NULL, &err), &err, "pool");
            bench_try(sft_pool_set_cpu(pool, getenv("SFT_CPU"), &err), &err, "SFT_CPU");
        }
        made = threads;
    }
    return pool;
}

/* What SFT_CPU leaves out, for sft_convert. */
uint32_t bench_convert_flags(void) {
    static uint32_t flags;
    static int known;
    if (!known && getenv("SFT_CPU") != NULL) {
        sft_pool *pool;
        sft_error err;
        bench_try(sft_pool_create(&pool, 1, NULL, &err), &err, "pool");
        bench_try(sft_pool_set_cpu(pool, getenv("SFT_CPU"), &err), &err, "SFT_CPU");
        flags = SFT_CONVERT_WITHOUT(sft_pool_without(pool));
        sft_pool_free(pool);
    }
    known = 1;
    return flags;
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
    uint64_t n = bench_number(args->text[1]), start = bench_start();
    struct rusage usage;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (uint64_t i = 0; i < n; i++) {
        pid_t pid;
        int status;
        if (posix_spawn(&pid, args->text[2], &actions, NULL, args->text + 2, environ) != 0) {
            bench_die(args->text[2], "cannot start");
        }
        while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
            bench_die(args->text[2], "ended badly");
        }
    }
    const uint64_t end = bench_stop();
    posix_spawn_file_actions_destroy(&actions);
    /* What counts is the (last) child: its peak includes this process's at the start, so a server
     * that has touched little should be asked. */
    peak_growth = (uint64_t)usage.ru_maxrss << 10;
    spent.minor = (uint64_t)usage.ru_minflt;
    spent.major = (uint64_t)usage.ru_majflt;
    spent.device = (uint64_t)usage.ru_inblock * 512u;
    spent.user_us = (uint64_t)usage.ru_utime.tv_sec * 1000000u + (uint64_t)usage.ru_utime.tv_usec;
    spent.system_us = (uint64_t)usage.ru_stime.tv_sec * 1000000u + (uint64_t)usage.ru_stime.tv_usec;
    return (double)(end - start) / (double)n;
}

/* peak: the most memory this process ever held, in bytes. (What getrusage tells includes the parent
 * before exec.) */
static double run_peak(const bench_args *args) {
    (void)args;
    return (double)(proc_number("/proc/self/status", "VmHWM:") << 10);
}

/* Share of the file's pages that are in the page cache. */
static double resident(int fd, const char *path) {
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size == 0) {
        bench_die(path, "empty, or no such file");
    }
    const size_t size = (size_t)st.st_size, pages = (size + 4095) / 4096;
    unsigned char *state = malloc(pages);
    void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (state == NULL || p == MAP_FAILED || mincore(p, size, (void *)state) != 0) {
        bench_die(path, "cannot tell what is cached");
    }
    size_t present = 0;
    for (size_t i = 0; i < pages; i++) {
        present += state[i] & 1u;
    }
    munmap(p, size);
    free(state);
    return (double)present / (double)pages;
}

static int open_or_die(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        bench_die(path, strerror(errno));
    }
    return fd;
}

/* drop PATH...: puts the files out of the page cache; the answer is the largest share that is still
 * there, by mincore. */
static double run_drop(const bench_args *args) {
    double worst = 0;
    for (int i = 1; i < args->count; i++) {
        const int fd = open_or_die(args->text[i]);
        double left = 1;
        for (int try = 0; try < 5 && left > 0; try++) {
            if (fsync(fd) != 0) {
                bench_die(args->text[i], strerror(errno));
            }
#if defined(POSIX_FADV_DONTNEED)
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
            left = resident(fd, args->text[i]);
        }
        worst = left > worst ? left : worst;
        close(fd);
    }
    return worst * 1e6; /* in millionths: the answer has one decimal */
}

/* warm PATH...: brings the files into the page cache. */
static double run_warm(const bench_args *args) {
    unsigned char *p = bench_memory(0, (size_t)8 << 20);
    for (int i = 1; i < args->count; i++) {
        const int fd = open_or_die(args->text[i]);
        ssize_t n;
        for (off_t at = 0; (n = pread(fd, p, (size_t)8 << 20, at)) > 0; at += n) {
        }
        close(fd);
    }
    return 0;
}

/* cached PATH: the share of it in the page cache, in millionths. */
static double run_cached(const bench_args *args) {
    const int fd = open_or_die(args->text[1]);
    const double share = resident(fd, args->text[1]);
    close(fd);
    return share * 1e6;
}

static const bench_command machine_commands[] = {{"prewarm", run_prewarm, 1},
                                                 {"spawn", run_spawn, 2},
                                                 {"peak", run_peak, 0},
                                                 {"drop", run_drop, 1},
                                                 {"warm", run_warm, 1},
                                                 {"cached", run_cached, 1},
                                                 {NULL, NULL, 0}};

/* ---------------------------------------------------------------- loop */

static const bench_command *find(const char *name) {
    const bench_command *tables[] = {
        machine_commands,    bench_open_commands,   bench_read_commands,   bench_load_commands,
        bench_save_commands, bench_stream_commands, bench_matrix_commands, bench_copy_commands};
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
    char *words[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        bench_args args = {0, words};
        char *at = line;
        while (args.count < 255) { /* words are separated by tabs */
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
        answer(c->run(&args));
    }
    return 0;
}
