/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/scan_dir.c - see scan_dir.h. Directories that are still to be listed are a list, not calls. A
 * blob of Hugging Face's cache that a link beneath the directory leads to is read under the link's
 * name, once. Read first: sys.h.
 */
#include "cli/operands/scan_dir.h"
#include "cli/sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct listing {
    cli *c;
    cli_scan_list *list;
    const char *at; /* the directory being listed */
    char **todo;
    size_t todo_count;
    size_t todo_room;
    char **blobs; /* real paths that links lead to */
    size_t blob_count;
    size_t blob_room;
    char *real;  /* of the directory */
    char *cache; /* where its links may lead: "blobs" of Hugging Face's cache; NULL: nowhere */
} listing;

static char *joined(const char *a, const char *b) {
    const size_t n = strlen(a);
    const size_t m = strlen(b);
    const bool slash = n > 0 && (a[n - 1] == '/' || a[n - 1] == '\\');
    char *path = cli_alloc(n + m + 2, 1);

    memcpy(path, a, n);
    path[n] = '/';
    memcpy(path + n + (slash ? 0 : 1), b, m + 1);
    return path;
}

static void push(char ***at, size_t *count, size_t *room, char *text) {
    if (*count == *room) {
        *room = *room != 0 ? *room * 2 : 64;
        *at = cli_resize(*at, *room, sizeof **at);
    }
    (*at)[(*count)++] = text;
}

static void add_file(listing *l, char *path, const char *rule, const char *why) {
    cli_scan_list *list = l->list;

    if (list->count == list->room) {
        list->room = list->room != 0 ? list->room * 2 : 64;
        list->files = cli_resize(list->files, list->room, sizeof *list->files);
    }
    const cli_scan_file f = {path, why, rule, false};
    list->files[list->count++] = f;
}

/* The directory itself is, too. */
static bool is_below(const char *path, const char *directory) {
    const size_t n = strlen(directory);
    return strncmp(path, directory, n) == 0 &&
           (path[n] == '\0' || path[n] == '/' || path[n] == '\\' ||
            (n > 0 && directory[n - 1] == '/'));
}

static void add_link(listing *l, char *path) {
    const cli_kind kind = cli_sys_kind(path);
    char *real = cli_sys_real(path);

    if (kind == CLI_KIND_NONE || real == NULL) {
        add_file(l, path, "link-broken", "a link to nothing");
    } else if (!is_below(real, l->real) && (l->cache == NULL || !is_below(real, l->cache))) {
        add_file(l, path, "link-outside", "a link that leads out of the directory: not followed");
    } else if (kind == CLI_KIND_DIRECTORY) {
        add_file(l, path, "link-directory", "a link to a directory, which is read where it lies");
        l->list->files[l->list->count - 1].harmless = is_below(real, l->real);
    } else if (kind == CLI_KIND_OTHER) {
        add_file(l, path, "not-regular", "neither a file nor a directory: not opened");
    } else {
        add_file(l, path, NULL, NULL);
        push(&l->blobs, &l->blob_count, &l->blob_room, real);
        real = NULL;
    }
    free(real);
}

static void entry(void *ctx, const char *name, bool is_directory) {
    listing *l = ctx;
    char *path = joined(l->at, name);

    if (is_directory) {
        push(&l->todo, &l->todo_count, &l->todo_room, path);
    } else if (cli_sys_is_link(path)) {
        add_link(l, path);
    } else if (cli_sys_kind(path) != CLI_KIND_FILE) {
        add_file(l, path, "not-regular", "neither a file nor a directory: not opened");
    } else {
        add_file(l, path, NULL, NULL);
    }
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const cli_scan_file *)a)->path, ((const cli_scan_file *)b)->path);
}

static int by_text(const void *a, const void *b) {
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

/* The last part of a path, and where it begins; "" at the root. */
static size_t parent(const char *path, size_t len) {
    while (len > 0 && path[len - 1] != '/' && path[len - 1] != '\\') {
        len--;
    }
    return len > 0 ? len - 1 : 0;
}

/* DIR is .../models--x--y/snapshots/COMMIT: its files are links into .../models--x--y/blobs. */
static char *cache_of(const char *real) {
    static const char name[] = "snapshots";
    const size_t snapshots = parent(real, strlen(real));
    const size_t repository = parent(real, snapshots);
    char *root;
    char *blobs;

    if (snapshots < sizeof name || snapshots - repository != sizeof name ||
        memcmp(real + repository + 1, name, sizeof name - 1) != 0) {
        return NULL;
    }
    root = cli_alloc(repository + 1, 1);
    memcpy(root, real, repository);
    root[repository] = '\0';
    blobs = joined(root, "blobs");
    free(root);
    return blobs;
}

bool cli_link_leads_out(const char *directory, const char *path) {
    char *root = cli_sys_real(directory);
    char *real = cli_sys_real(path);
    char *cache = root != NULL ? cache_of(root) : NULL;
    const bool out = root == NULL || real == NULL ||
                     (!is_below(real, root) && (cache == NULL || !is_below(real, cache)));

    free(cache);
    free(real);
    free(root);
    return out;
}

/* Blobs that a link leads to were listed under the link's name. */
static void drop_blobs(listing *l) {
    cli_scan_list *list = l->list;
    size_t kept = 0;

    if (l->blob_count > 1) { /* an empty list is NULL, which qsort must not get */
        qsort(l->blobs, l->blob_count, sizeof *l->blobs, by_text);
    }
    for (size_t i = 0; i < list->count; i++) {
        cli_scan_file *f = &list->files[i];
        char *real = NULL;
        if (f->why == NULL && l->blob_count != 0 && strstr(f->path, "/blobs/") != NULL &&
            !cli_sys_is_link(f->path)) {
            real = cli_sys_real(f->path);
        }
        const char *key = real;
        if (real != NULL &&
            bsearch(&key, l->blobs, l->blob_count, sizeof *l->blobs, by_text) != NULL) {
            free(f->path);
        } else {
            list->files[kept++] = *f;
        }
        free(real);
    }
    list->count = kept;
}

static bool list_one(listing *l, char *directory, bool first) {
    l->at = directory;
    const int error = cli_sys_list(directory, entry, l);

    if (error != 0 && first) {
        char text[128];
        sft_error err;
        (void)sft_error_set(&err, SFT_E_IO, error, "cannot be listed: %s",
                            cli_sys_text(error, text, sizeof text));
        cli_fail_plainly(l->c, directory, &err);
        return false;
    }
    if (error != 0) {
        add_file(l, joined(directory, ""), "not-listed", "a directory that cannot be listed");
    }
    return true;
}

bool cli_scan_list_read(cli *c, const char *directory, cli_scan_list *list) {
    listing l = {.c = c, .list = list};
    char *first = joined(directory, "");
    bool good;

    memset(list, 0, sizeof *list);
    for (size_t n = strlen(first); n > 1 && (first[n - 1] == '/' || first[n - 1] == '\\'); n--) {
        first[n - 1] = '\0';
    }
    l.real = cli_sys_real(directory);
    l.cache = l.real != NULL ? cache_of(l.real) : NULL;
    good = l.real != NULL && list_one(&l, first, true);
    if (l.real == NULL) {
        good = list_one(&l, first, true); /* says why */
    }
    while (l.todo_count > 0 && !cli_stopped(c)) {
        char *next = l.todo[--l.todo_count];
        (void)list_one(&l, next, false);
        free(next);
    }
    drop_blobs(&l);
    if (list->count > 1) {
        qsort(list->files, list->count, sizeof *list->files, by_path);
    }
    for (size_t i = 0; i < l.todo_count; i++) {
        free(l.todo[i]);
    }
    for (size_t i = 0; i < l.blob_count; i++) {
        free(l.blobs[i]);
    }
    free(l.todo);
    free(l.blobs);
    free(l.real);
    free(l.cache);
    free(first);
    return good;
}

void cli_scan_list_free(cli_scan_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->files[i].path);
    }
    free(list->files);
    memset(list, 0, sizeof *list);
}
