/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/sys.h - what the tool needs of the operating system: sys_posix.c and sys_win.c; of files:
 * files.c. Paths are UTF-8 everywhere. Functions that can fail return 0 or an error number (errno;
 * GetLastError on Windows).
 */
#ifndef SFT_CLI_SYS_H
#define SFT_CLI_SYS_H

#include <sft/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Puts UTF-8 arguments in place of the C library's, makes the three streams binary, and so on. */
void cli_sys_start(int *argc, char ***argv);

bool cli_sys_is_terminal(int fd);
size_t cli_sys_columns(int fd); /* 80 if not known */
double cli_sys_now(void);       /* seconds of a steady clock */

/* on: interrupts set a flag once (the second one kills); off: they kill. */
void cli_sys_catch(bool on);
bool cli_sys_interrupted(void);

/* From now on a page of a mapped file that is no longer there (the file was cut short, its disk fails)
 * reads as zeros and sets a flag, instead of killing the process. false: this system has no such way.
 * The flag must be looked at before anything that was read is published; cli_control's poll does. */
bool cli_sys_catch_lost_pages(void);
bool cli_sys_lost_pages(void);

int cli_sys_write(int fd, const void *data, size_t size); /* all of it */
/* What has to be read to its end, because no size tells where that is: a pipe, standard input ("-"), a file
 * of /proc or /sys, and any small file. false: another kind, or not to be opened. */
bool cli_sys_open_stream(const char *path, int *fd);
int cli_sys_read(int fd, void *data, size_t size, size_t *got); /* got 0: the end */
/* Another number when the file behind it was written to; the same for what is no file. */
uint64_t cli_sys_stream_stamp(int fd);
void cli_sys_close_stream(int fd);
bool cli_sys_regular_fd(int fd); /* a regular file, whose position can be ignored when it is 0 */
bool cli_sys_closed_pipe(int error); /* of a write whose reader has gone */
const char *cli_sys_text(int error, char *text, size_t cap);

typedef enum cli_kind { CLI_KIND_NONE, CLI_KIND_FILE, CLI_KIND_DIRECTORY, CLI_KIND_OTHER } cli_kind;
cli_kind cli_sys_kind(const char *path);         /* follows links */
int cli_sys_make_directory(const char *path);    /* one level */
void cli_sys_remove_directory(const char *path); /* if it is empty */
bool cli_sys_same_file(const char *a, const char *b);
/* Another number when `path` leads to another file, or the file was written to; 0: nothing is there. */
uint64_t cli_sys_stamp(const char *path);
uint64_t *cli_sys_stamps(char *const *paths, size_t count); /* free() it */
/* The first of them whose stamp is not what it was; NULL: there is none. */
const char *cli_sys_changed(char *const *paths, size_t count, const uint64_t *before);
bool cli_sys_is_link(const char *path); /* itself, whatever it leads to */
char *cli_sys_self(void);               /* the path of this program; free() it; NULL: not known */
char *cli_sys_called(void);             /* the one by which it was started, a link, too; likewise */
char *cli_sys_real(const char *path); /* absolute, without links; free() it; NULL: nothing there */

/* Names of the extended attributes (an access control list is one), each with its NUL, one more NUL behind
 * the last; free() it. NULL: none, or none here. */
char *cli_sys_attributes(const char *path);

/* Names in a directory, "." and ".." left out, in no order. is_directory: not through a link. Returns an
 * error number. */
typedef void (*cli_sys_entry)(void *ctx, const char *name, bool is_directory);
int cli_sys_list(const char *directory, cli_sys_entry entry, void *ctx);

/* A lock on a directory, which ends with the process at the latest: one of many (shared), or the only one.
 * -1: somebody else has one (*busy), or there are no such locks here. */
int cli_sys_lock_directory(const char *directory, bool shared, bool *busy);
void cli_sys_unlock(int lock);
void cli_sys_pause(void); /* a twentieth of a second */

/* A file that appears when it is committed, all at once, or not at all. replace: one that is there
 * is replaced (a link is followed); else it is an error, now or at the commit, that
 * cli_sys_exists_error knows. */
typedef struct cli_sys_file {
    struct sft__fs_publish *publish;
    uint64_t at; /* bytes written */
} cli_sys_file;
int cli_sys_create(cli_sys_file *f, const char *path, bool replace);
int cli_sys_put(cli_sys_file *f, const void *data, size_t size); /* behind what was written */
int cli_sys_commit(cli_sys_file *f);
void cli_sys_discard(cli_sys_file *f);
bool cli_sys_exists_error(int error);

#endif
