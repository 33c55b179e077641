/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/sys_posix.c - sys.h for POSIX systems. Read sys.h first.
 */
#ifndef _WIN32

#include "cli/sys.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sft/extend.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/xattr.h>
#endif

static volatile sig_atomic_t interrupted;
static cli_sys_file *pending; /* the file that is not yet published */

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

static void remove_pending(void) {
    if (pending != NULL) {
        cli_sys_discard(pending);
    }
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

uint64_t cli_sys_stamp(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? stamp_of(&st) ^ (uint64_t)st.st_ino << 32 : 0;
}

void cli_sys_close_stream(int fd) {
    if (fd > 2) {
        (void)close(fd);
    }
}

bool cli_sys_not_found(int error) {
    return error == ENOENT || error == ENOTDIR;
}

bool cli_sys_exists_error(int error) {
    return error == EEXIST;
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

cli_kind cli_sys_kind(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) {
        return CLI_KIND_NONE;
    }
    return S_ISREG(st.st_mode)   ? CLI_KIND_FILE
           : S_ISDIR(st.st_mode) ? CLI_KIND_FOLDER
                                 : CLI_KIND_OTHER;
}

int cli_sys_make_folder(const char *path) {
    return mkdir(path, 0777) == 0 ? 0 : errno;
}

void cli_sys_remove_folder(const char *path) {
    (void)rmdir(path);
}

bool cli_sys_same_file(const char *a, const char *b) {
    struct stat sa;
    struct stat sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

bool cli_sys_is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

char *cli_sys_real(const char *path) {
    return realpath(path, NULL);
}

char *cli_sys_attributes(const char *path) {
#if defined(__linux__)
    enum { ROOM = 64 << 10 }; /* what Linux allows */
    char *names = malloc(ROOM + 1);
    const ssize_t size = names != NULL ? listxattr(path, names, ROOM) : -1;

    if (size <= 0) {
        free(names);
        return NULL;
    }
    names[size] = '\0';
    return names;
#else
    (void)path;
    return NULL;
#endif
}

int cli_sys_list(const char *folder, cli_sys_entry entry, void *ctx) {
    DIR *dir = opendir(folder);
    int error = 0;

    if (dir == NULL) {
        return errno;
    }
    for (;;) {
        struct stat st;
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (e == NULL) {
            error = errno;
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        bool is_folder = e->d_type == DT_DIR;
        if (e->d_type == DT_UNKNOWN) {
            is_folder = fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISDIR(st.st_mode);
        }
        entry(ctx, e->d_name, is_folder);
    }
    (void)closedir(dir);
    return error;
}

int cli_sys_lock_folder(const char *folder, bool shared, bool *busy) {
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *busy = false;
    if (fd >= 0 && flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        *busy = errno == EWOULDBLOCK || errno == EINTR;
        (void)close(fd);
        return -1;
    }
    return fd;
}

void cli_sys_unlock(int lock) {
    (void)close(lock);
}

void cli_sys_pause(void) {
    (void)poll(NULL, 0, 50);
}

/* ---------------------------------------------------------------- files that appear whole */

static int make_temp(cli_sys_file *f) {
    f->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return f->fd >= 0 ? 0 : errno;
}

/* Tries names beside the target until `make` does not say EEXIST. */
static int with_temp(cli_sys_file *f, int (*make)(cli_sys_file *f)) {
    const size_t size = strlen(f->path) + 40;
    const char *slash = strrchr(f->path, '/');
    const int before = slash != NULL ? (int)(slash - f->path) + 1 : 0;
    int error = EEXIST;

    f->temp = malloc(size);
    if (f->temp == NULL) {
        return ENOMEM;
    }
    for (unsigned tries = 0; tries < 100 && error == EEXIST; tries++) {
        (void)snprintf(f->temp, size, "%.*s.%.200s.tmp%lx-%u", before, f->path, f->path + before,
                       (unsigned long)getpid(), tries);
        error = make(f);
    }
    if (error != 0) {
        free(f->temp);
        f->temp = NULL;
    }
    return error;
}

#ifdef O_TMPFILE
static int link_to(const cli_sys_file *f, const char *path) {
    char proc[40];

    (void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", f->fd);
    return linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

static int link_temp(cli_sys_file *f) {
    return link_to(f, f->temp);
}

/* Without a name, if the file system has such files and can name them later: whoever is killed
 * leaves nothing. */
static bool open_unnamed(cli_sys_file *f) {
    const char *slash = strrchr(f->path, '/');
    char *folder = strdup(slash != NULL ? f->path : ".");
    char proc[40];
    struct stat st;

    if (folder == NULL) {
        return false;
    }
    if (slash != NULL) {
        folder[slash == f->path ? 1 : slash - f->path] = '\0';
    }
    f->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    (void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", f->fd);
    if (f->fd >= 0 && lstat(proc, &st) != 0) { /* no /proc: it would never get a name */
        (void)close(f->fd);
        f->fd = -1;
    }
    return f->fd >= 0;
}

/* A name for what had none: its own if nothing has it, else one from which it is renamed. */
static int give_name(cli_sys_file *f, bool replace) {
    const int error = link_to(f, f->path);
    return error == EEXIST && replace ? with_temp(f, link_temp) : error;
}
#else
static bool open_unnamed(cli_sys_file *f) {
    (void)f;
    return false;
}

static int give_name(cli_sys_file *f, bool replace) {
    (void)f;
    (void)replace;
    return ENOSYS;
}
#endif

static int open_temp(cli_sys_file *f) {
    return open_unnamed(f) ? 0 : with_temp(f, make_temp);
}

int cli_sys_create(cli_sys_file *f, const char *path) {
    static bool registered;
    struct stat st;
    const bool exists = stat(path, &st) == 0;

    f->fd = -1;
    f->temp = NULL;
    f->path = NULL;
    if (exists && !S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? EISDIR : EINVAL; /* never rename over a device */
    }
    char *target = exists ? realpath(path, NULL) : NULL; /* a link stays, its file is replaced */
    f->path = target != NULL ? target : strdup(path);
    const int error = f->path != NULL ? open_temp(f) : ENOMEM;
    if (error != 0) {
        free(f->path);
        f->path = NULL;
        return error;
    }
    sft_error err;
    if (exists && sft_file_keep(f->fd, f->path, &err) != SFT_OK) {
        cli_sys_discard(f);
        return err.sys;
    }
    if (!registered) {
        registered = atexit(remove_pending) == 0;
    }
    pending = f;
    return 0;
}

int cli_sys_commit(cli_sys_file *f, bool replace) {
    const bool unnamed = f->temp == NULL;
    int error = unnamed ? give_name(f, replace) : 0;

    error = close(f->fd) != 0 && error == 0 ? errno : error;
    f->fd = -1;
    if (error == 0 && unnamed && f->temp == NULL) {
        cli_sys_discard(f); /* it has its name */
        return 0;
    }
    if (error == 0 && replace) {
        error = rename(f->temp, f->path) == 0 ? 0 : errno;
    } else if (error == 0) {
        error = link(f->temp, f->path) == 0 ? 0 : errno;
        if (error == EPERM || error == ENOTSUP || error == EOPNOTSUPP) { /* no hard links here */
            struct stat st;
            error = lstat(f->path, &st) == 0 ? EEXIST : rename(f->temp, f->path) == 0 ? 0 : errno;
        }
    }
    cli_sys_discard(f); /* the second name, or what failed */
    return error;
}

void cli_sys_discard(cli_sys_file *f) {
    if (f->fd >= 0) {
        (void)close(f->fd);
    }
    if (f->temp != NULL) {
        (void)unlink(f->temp);
        free(f->temp);
    }
    free(f->path);
    f->fd = -1;
    f->temp = NULL;
    f->path = NULL;
    pending = NULL;
}

#endif
