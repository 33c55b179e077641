/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/sys_posix.c - sys.h for POSIX systems. Read sys.h first.
 */
#ifndef _WIN32

#include "cli/sys.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/auxv.h>

char *cli_sys_called(void) {
    const unsigned long at = getauxval(AT_EXECFN);
    const char *path = (const char *)at; /* of the system, for the program's life */
    return at != 0 && strchr(path, '/') != NULL ? strdup(path) : NULL;
}
#else
char *cli_sys_called(void) {
    return NULL;
}
#endif

#ifdef __APPLE__
#include <mach-o/dyld.h>

char *cli_sys_self(void) {
    char text[4096];
    uint32_t size = sizeof text;
    return _NSGetExecutablePath(text, &size) == 0 ? cli_sys_real(text) : NULL;
}
#else
char *cli_sys_self(void) {
    return cli_sys_real("/proc/self/exe"); /* other systems: not known */
}
#endif

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

void cli_sys_catch(bool on) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction now;
        struct sigaction action;
        if (sigaction(signals[i], NULL, &now) != 0 || now.sa_handler == SIG_IGN) {
            continue; /* ignored by who started us (nohup): leave it so */
        }
        memset(&action, 0, sizeof action);
        (void)sigemptyset(&action.sa_mask);
        action.sa_handler = on ? on_signal : SIG_DFL;
        action.sa_flags = (int)SA_RESETHAND; /* the second one kills */
        (void)sigaction(signals[i], &action, NULL);
    }
}

bool cli_sys_interrupted(void) {
    return interrupted != 0;
}

/* Every file of a model stays open, and a checkpoint has one for each rank: as many as we may have.
 */
static void allow_many_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static volatile sig_atomic_t lost;
static size_t page_bytes;

/* Puts a page of zeros where the access failed, which is then repeated. mmap is a bare system call
 * here, though POSIX does not list it for handlers. What is no page that a file lacks (sent by
 * somebody, an odd address, memory that failed) kills as ever: it has no address, or zeros there
 * would help nothing. */
static void on_lost_page(int number, siginfo_t *info, void *context) {
    const int before = errno;
    uint8_t *at = info->si_addr;

    (void)context;
    if (info->si_code != BUS_ADRERR && info->si_code != BUS_OBJERR) {
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* when this returns */
        return;
    }
    lost = 1;
    at -= (uintptr_t)at % page_bytes;
    if (mmap(at, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
        (void)signal(number, SIG_DFL); /* it kills when repeated */
    }
    errno = before;
}

bool cli_sys_catch_lost_pages(void) {
    struct sigaction action;
    const long page = sysconf(_SC_PAGESIZE);

    if (page <= 0) {
        return false;
    }
    page_bytes = (size_t)page;
    memset(&action, 0, sizeof action);
    (void)sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_lost_page;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, NULL) == 0;
}

bool cli_sys_lost_pages(void) {
    return lost != 0;
}

void cli_sys_start(int *argc, char ***argv) {
    allow_many_files();
    (void)argc;
    (void)argv;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit is a failure to report, not to die of */
    /* A stream that is closed must not be given to a file that we open. A write to a closed standard
     * output goes on failing: that place takes none. */
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            (void)open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
        }
    }
}

bool cli_sys_is_terminal(int fd) {
    return isatty(fd) == 1;
}

size_t cli_sys_columns(int fd) {
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double cli_sys_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int cli_sys_write(int fd, const void *data, size_t size) {
    const char *at = data;

    while (size > 0) {
        const ssize_t n = write(fd, at, size < (1u << 30) ? size : (1u << 30));
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        if (n < 0 && interrupted != 0) {
            return EPIPE; /* whoever interrupted us does not want the rest */
        }
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

enum { SMALL_FILE = 1 << 20 }; /* files of /sys say a page, whatever they hold */

bool cli_sys_open_stream(const char *path, int *fd) {
    struct stat st;

    *fd = 0;
    if (strcmp(path, "-") == 0) {
        return true;
    }
    if (stat(path, &st) != 0 ||
        !(S_ISFIFO(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size <= SMALL_FILE))) {
        return false;
    }
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return *fd >= 0;
}

int cli_sys_read(int fd, void *data, size_t size, size_t *got) {
    ssize_t n;

    do {
        n = read(fd, data, size);
    } while (n < 0 && errno == EINTR && interrupted == 0);
    *got = n > 0 ? (size_t)n : 0;
    return n < 0 ? errno : 0;
}

static uint64_t stamp_of(const struct stat *st) {
#ifdef __APPLE__
    const struct timespec *t = &st->st_mtimespec;
#else
    const struct timespec *t = &st->st_mtim;
#endif
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec + ((uint64_t)st->st_size << 40);
}

uint64_t cli_sys_stream_stamp(int fd) {
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        return 0; /* files of /proc have no size, and other times each time */
    }
    return stamp_of(&st);
}

void cli_sys_close_stream(int fd) {
    if (fd > 2) {
        (void)close(fd);
    }
}

bool cli_sys_closed_pipe(int error) {
    return error == EPIPE;
}

bool cli_sys_regular_fd(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
}

const char *cli_sys_text(int error, char *text, size_t cap) {
    char room[128] = "";
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *cause = strerror_r(error, room, sizeof room);
#else
    const char *cause = strerror_r(error, room, sizeof room) == 0 ? room : "unknown error";
#endif
    const size_t len = strlen(cause) < cap ? strlen(cause) : cap - 1;

    memcpy(text, cause, len);
    text[len] = '\0';
    if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a') {
        text[0] = (char)(text[0] | 0x20);
    }
    return text;
}

void cli_sys_pause(void) {
    (void)poll(NULL, 0, 50);
}

#endif
