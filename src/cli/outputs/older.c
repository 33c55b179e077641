/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/older.c - see older.h. An index is believed about names of files beside it alone: no
 * directories, no hidden names, no links, nothing but weights; never about a file that is being
 * read. What a map of MindSpore's complete form tells (tensor to part file) is an index, too.
 */
#include "cli/look/meta_json.h"
#include "cli/outputs/kept.h"
#include "cli/outputs/older_parts.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include "cli/ui/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_MAX = 100 << 20 };

bool cli_older_ends(const char *name, const char *end) {
    return cli_ends_with(name, end) && strlen(name) > strlen(end);
}

bool cli_older_is_index(const char *name) {
    return cli_older_ends(name, INDEX) || strcmp(name, MAP) == 0;
}

static bool is_planned(const cli_older *o, const char *name) {
    return cli_is_among(o->planned, o->planned_count, name);
}

static bool plans_index(const cli_older *o) {
    for (size_t i = 0; i < o->planned_count; i++) {
        if (cli_older_is_index(o->planned[i])) {
            return true;
        }
    }
    return false;
}

static void add(cli_older *o, const char *name) {
    if (!cli_strings_have(&o->files, name)) {
        char *path = cli_path_in(o->directory, name);
        o->stamps = cli_resize(o->stamps, o->files.count + 1, sizeof *o->stamps);
        o->stamps[o->files.count] = cli_sys_stamp(path);
        cli_strings_take(&o->files, cli_copy_of(name));
        free(path);
    }
}

/* ---------------------------------------------------------------- what an index names */

bool cli_older_read(const char *path, char **text, size_t *size) {
    return cli_read_text(path, INDEX_MAX, text, size, NULL) == SFT_OK && *size > 0;
}

/* The object that is "weight_map" in the outermost one; its length, 0: there is none. */
static size_t find_map(const char *text, size_t size, const char **map) {
    static const char key[] = "\"weight_map\"";
    const char *begin = NULL;
    size_t depth = 0;
    bool is_next = false;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') {
            is_next =
                depth == 1 && size - i > sizeof key && memcmp(text + i, key, sizeof key - 1) == 0;
            for (i++; i < size && text[i] != '"'; i++) {
                i += text[i] == '\\' ? 1 : 0;
            }
        } else if (text[i] == '{' || text[i] == '[') {
            begin = is_next && text[i] == '{' ? text + i : begin;
            is_next = false;
            depth++;
        } else if (text[i] == '}' || text[i] == ']') {
            if (depth == 0) {
                return 0;
            }
            if (--depth == 1 && begin != NULL) {
                *map = begin;
                return (size_t)(text + i + 1 - begin);
            }
        }
    }
    return 0;
}

static bool is_plain(const char *name, size_t len) {
    return len > sizeof WEIGHTS && len < 256 && name[0] != '.' && memchr(name, '/', len) == NULL &&
           memchr(name, '\\', len) == NULL && memchr(name, '\0', len) == NULL &&
           memcmp(name + len - (sizeof WEIGHTS - 1), WEIGHTS, sizeof WEIGHTS - 1) == 0;
}

/* A file there that is nobody's but the older model's: no link, and not what is read. */
static bool is_own(const cli_older *o, const char *name) {
    char *path = cli_path_in(o->directory, name);
    bool own = cli_sys_kind(path) == CLI_KIND_FILE && !cli_sys_is_link(path);

    for (size_t i = 0; own && i < o->c->operand_count; i++) {
        own = !cli_sys_same_file(path, o->c->operands[i]) || is_planned(o, name);
    }
    free(path);
    return own;
}

/* What to do with a file that an index names. */
typedef void (*on_file)(cli_older *o, const char *name);

static void take_file(cli_older *o, const char *name) {
    if (is_own(o, name)) {
        o->collides = o->collides || is_planned(o, name);
        if (!is_planned(o, name)) {
            add(o, name);
        }
    }
}

/* False: it is no index. */
static bool each_named(cli_older *o, const char *index, on_file visit) {
    char *path = cli_path_in(o->directory, index);
    meta_pairs pairs = {NULL, 0, 0, NULL};
    const char *fault;
    const char *map = NULL;
    char *text;
    size_t size = 0;
    size_t at;

    size_t len = cli_older_read(path, &text, &size) ? find_map(text, size, &map) : 0;
    if (len == 0 && text != NULL && strstr(index, MAP) != NULL) { /* may be the map itself */
        map = text;
        len = size;
    }
    const bool good = len > 0 && cli_meta_parse(&pairs, map, len, &fault, &at);
    char last[256] = "";
    for (size_t i = 0; good && i < pairs.count; i++) {
        const sft_metadata_entry *e = &pairs.entries[i];
        char name[256];
        if (!is_plain(e->value, e->value_len)) {
            continue;
        }
        memcpy(name, e->value, e->value_len);
        name[e->value_len] = '\0';
        if (strcmp(name, last) != 0) {
            visit(o, name);
        }
        memcpy(last, name, e->value_len + 1);
    }
    cli_meta_reset(&pairs);
    free(text);
    free(path);
    return good;
}

/* ---------------------------------------------------------------- what lies there */

static void on_entry(void *ctx, const char *name, bool is_directory) {
    const bool journal = name[0] == '.' && (cli_older_ends(name, INDEX JOURNAL) ||
                                            strcmp(name, "." MAP JOURNAL) == 0);

    if (!is_directory && (journal || (name[0] != '.' && (cli_older_ends(name, WEIGHTS) ||
                                                         cli_older_is_index(name))))) {
        cli_strings_take(ctx, cli_copy_of(name));
    }
}

/* Who opens the directory sees files of ranks, and a map, first. One file of it is its business
 * only under the name that readers of directories look for, and not if it is made of these ranks.
 */
static bool reads_ranks(const cli_older *o) {
    bool source = false;

    for (size_t i = 0; i < o->c->operand_count; i++) {
        source = source || cli_sys_same_file(o->directory, o->c->operands[i]);
    }
    return o->whole ||
           (!source && (is_planned(o, "model" WEIGHTS) || is_planned(o, "model" INDEX)));
}

/* Is `name` what the planned files are called, with the other ending? Or a map, which readers of
 * the directory see first? */
static bool is_ours(const cli_older *o, const char *name) {
    const bool index = cli_older_ends(name, INDEX);

    if (strcmp(name, MAP) == 0) {
        return reads_ranks(o);
    }
    const size_t stem = strlen(name) - (index ? sizeof INDEX : sizeof WEIGHTS) + 1;
    for (size_t i = 0; i < o->planned_count; i++) {
        const char *other = o->planned[i];
        if (strlen(other) > stem && memcmp(other, name, stem) == 0 &&
            strcmp(other + stem, index ? WEIGHTS : INDEX) == 0) {
            return true;
        }
    }
    return false;
}

/* Is it the journal of an index that the output would meet? */
static bool is_journal(const cli_older *o, const char *name) {
    bool found = false;

    if (name[0] == '.') {
        char *index = cli_copy_of(name + 1);
        index[strlen(index) - (sizeof JOURNAL - 1)] = '\0';
        found = o->whole || is_ours(o, index) || is_planned(o, index);
        free(index);
    }
    return found;
}

/* Is it the index of another model, which lies beside the one that is replaced? Of several, readers
 * of the directory take the one that is called model. */
static bool is_another(const cli_older *o, const cli_strings *l, const char *name) {
    size_t indexes = 0;

    for (size_t i = 0; i < l->count; i++) {
        indexes += l->items[i][0] != '.' && cli_older_ends(l->items[i], INDEX);
    }
    return indexes > 1 && name[0] != '.' && cli_older_ends(name, INDEX) && !is_planned(o, name) &&
           strcmp(name, "model" INDEX) != 0 && !is_ours(o, name);
}

/* A file that the index of another model names. */
static void keep_file(cli_older *o, const char *name) {
    o->shared = o->shared || is_planned(o, name);
    for (size_t i = 0; i < o->files.count; i++) {
        char **at = &o->files.items[i];
        if (strcmp(*at, name) == 0) {
            free(*at);
            memmove(at, at + 1, (--o->files.count - i) * sizeof *at);
            memmove(&o->stamps[i], &o->stamps[i + 1], (o->files.count - i) * sizeof *o->stamps);
        }
    }
}

/* First the indexes: *first is what readers would see instead of the new model. */
static void take_indexes(cli_older *o, const cli_strings *l, const char **first,
                         const char **unproven) {
    for (size_t i = 0; i < l->count; i++) {
        const char *name = l->items[i];
        const bool other = is_another(o, l, name);
        if (name[0] != '.' && cli_older_is_index(name) && !is_planned(o, name) &&
            (other ? o->whole && !is_planned(o, "model" INDEX) : o->whole || is_ours(o, name))) {
            *first = *first == NULL ? name : *first;
            *unproven = is_own(o, name) && !other ? *unproven : name;
            add(o, name);
        }
    }
    for (size_t i = 0; i < l->count; i++) {
        const char *name = l->items[i];
        if (is_journal(o, name)) {
            (void)each_named(o, name, take_file);
            o->journal = o->journal == NULL && o->c->force ? cli_copy_of(name) : o->journal;
        } else if (cli_older_is_index(name) &&
                   (cli_strings_have(&o->files, name) || is_planned(o, name))) {
            *unproven = each_named(o, name, take_file) || is_planned(o, name) ? *unproven : name;
        }
    }
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->items[i], MAP) == 0 &&
            (cli_strings_have(&o->files, MAP) || is_planned(o, MAP))) {
            take_file(o, HYPER);
        }
    }
}

/* Then those of other models, which keep their files. */
static void leave_others(cli_older *o, const cli_strings *l, const char **unproven) {
    for (size_t i = 0; i < l->count; i++) {
        if (is_another(o, l, l->items[i]) && !cli_strings_have(&o->files, l->items[i])) {
            o->shared = false;
            (void)each_named(o, l->items[i], keep_file);
            *unproven = o->shared ? l->items[i] : *unproven;
        }
    }
}

static void take_weights(cli_older *o, const cli_strings *l, const char **first,
                         const char **unproven) {
    for (size_t i = 0; i < l->count; i++) {
        const char *name = l->items[i];
        if (!cli_older_ends(name, WEIGHTS) || name[0] == '.' || is_planned(o, name) ||
            cli_strings_have(&o->files, name)) {
            continue;
        }
        /* the single file, and something else is written */
        if (is_ours(o, name) || (o->whole && strcmp(name, "model" WEIGHTS) == 0)) {
            *first = *first == NULL ? name : *first;
            *unproven = is_own(o, name) ? *unproven : name;
            add(o, name);
        } else if (o->whole &&
                   (!plans_index(o) || (is_planned(o, MAP) && strcmp(name, HYPER) == 0))) {
            /* readers take all files that lie there */
            *first = *first == NULL ? name : *first;
            *unproven = name;
        }
    }
}

static bool refuse(const cli_older *o, const char *first, const char *unproven) {
    const char *name = o->c->force ? unproven : first;
    const int before = o->c->status;
    char text[512];

    (void)sft_escape(text, sizeof text, name, strlen(name));
    CLI_FAIL(o->c, o->directory, SFT_E_EXISTS,
             "%.200s of another model lies there, and readers would take it for this one's: %s",
             text,
             o->c->force ? "nothing proves that it may be removed"
                         : "--force replaces an older model that its index proves");
    o->c->status = before > CLI_NO ? before : CLI_NO;
    return false;
}

static void watch_planned(const cli_older *o) {
    for (size_t i = 0; o->c->force && !o->c->out.mute && i < o->planned_count; i++) {
        char *path = cli_path_in(o->directory, o->planned[i]);
        cli_kept_watch(o->c, path);
        free(path);
    }
}

/* Who writes several files is alone in the directory: nothing else keeps two of them from replacing
 * or removing each other's files. Writers of one file share it, and so do the tasks of one job and
 * the processes of one group, which have locks of their own. */
static bool take_turn(cli_older *o) {
    const bool alone =
        o->planned_count > 1 && o->c->processes == NULL && cli_text(o->c, "task") == NULL;
    bool told = false;
    bool busy = true;

    while (!o->c->out.mute && busy && o->turn == 0) {
        o->turn = cli_sys_lock_directory(o->directory, !alone, &busy) + 1;
        if (busy && !told) {
            cli_warn(o->c, o->directory,
                     "another process writes a model there: waiting for its end");
            told = true;
        }
        if (busy && cli_stopped(o->c)) {
            cli_answer(o->c, CLI_STOPPED);
            return false;
        }
        if (busy) {
            cli_sys_pause();
        }
    }
    return true;
}

static bool find(cli_older *o) {
    cli_strings l = {NULL, 0};
    const char *first = NULL;
    const char *unproven = NULL;
    cli *c = o->c;
    bool good = true;

    if (cli_sys_kind(o->directory) != CLI_KIND_DIRECTORY) {
        return true;
    }
    if (!take_turn(o)) {
        return false;
    }
    watch_planned(o);
    const int before = c->status;
    if (reads_ranks(o) &&
        !cli_old_ranks_find(&o->ranks, c, o->directory, o->planned, o->planned_count)) {
        c->status = before > CLI_NO ? before : CLI_NO;
        return false;
    }
    if (cli_sys_list(o->directory, on_entry, &l) != 0) {
        return true;
    }
    take_indexes(o, &l, &first, &unproven);
    take_weights(o, &l, &first, &unproven);
    leave_others(o, &l, &unproven);
    if (first == NULL && o->c->force) {
        first = unproven;
    }
    if (first != NULL && (!c->force || unproven != NULL)) {
        good = refuse(o, first, unproven);
    }
    cli_strings_reset(&l);
    return good;
}

static void set_up(cli_older *o, cli *c, const char *directory, const char *const *planned,
                   size_t count) {
    memset(o, 0, sizeof *o);
    o->c = c;
    o->directory = directory;
    o->planned = planned;
    o->planned_count = count;
}

bool cli_older_find(cli_older *o, cli *c, const char *directory, const char *const *planned,
                    size_t count, bool whole) {
    set_up(o, c, directory, planned, count);
    o->whole = whole;
    return find(o);
}

static void on_any(void *ctx, const char *name, bool is_directory) {
    cli_strings l = {NULL, 0};

    on_entry(&l, name, is_directory);
    if (l.count > 0 || (is_directory && strncmp(name, "rank_", 5) == 0)) {
        *(bool *)ctx = false;
    }
    cli_strings_reset(&l);
}

bool cli_older_none(const char *directory) {
    bool none = true;

    if (cli_sys_kind(directory) == CLI_KIND_DIRECTORY) {
        (void)cli_sys_list(directory, on_any, &none);
    }
    return none;
}

bool cli_older_find_set(cli_older *o, cli *c, const char *path, uint64_t files) {
    const bool whole = cli_sys_kind(path) == CLI_KIND_DIRECTORY;
    const char *slash = strrchr(path, '/');
    const char *base = whole ? "model" WEIGHTS : slash != NULL ? slash + 1 : path;
    char *directory = cli_joined(whole           ? path
                                 : slash != NULL ? path
                                                 : ".",
                                 slash == path && !whole ? "/" : "", "");
    const size_t count = files > 1 ? (size_t)files + 1 : 1;
    cli_strings names = {NULL, 0};
    char *stem = cli_copy_of(base);

    if (!whole && slash != NULL) {
        directory[slash == path ? 1 : (size_t)(slash - path)] = '\0';
    }
    if (cli_older_ends(stem, WEIGHTS)) {
        stem[strlen(stem) - (sizeof WEIGHTS - 1)] = '\0';
    }
    for (size_t i = 0; i + 1 < count; i++) {
        char number[64];
        (void)snprintf(number, sizeof number, "-%05llu-of-%05llu" WEIGHTS,
                       (unsigned long long)i + 1, (unsigned long long)files);
        cli_strings_take(&names, cli_joined(stem, number, ""));
    }
    cli_strings_take(&names, files > 1 ? cli_joined(stem, INDEX, "") : cli_copy_of(base));
    free(stem);
    set_up(o, c, directory, (const char *const *)names.items, count);
    o->whole = whole;
    const bool good = find(o);
    o->owned_directory = directory;
    o->owned_names = names;
    return good;
}

char *cli_older_another(const cli_older *o) {
    cli_older now = {.c = o->c,
                     .directory = o->directory,
                     .planned = o->planned,
                     .planned_count = o->planned_count,
                     .whole = o->whole};
    cli_strings l = {NULL, 0};
    const char *first = NULL;
    const char *unproven = NULL;

    if (cli_sys_list(o->directory, on_entry, &l) == 0) {
        take_indexes(&now, &l, &first, &unproven);
        take_weights(&now, &l, &first, &unproven);
    }
    char *another = first != NULL ? cli_copy_of(first) : NULL;
    if (another == NULL && reads_ranks(o)) {
        another = cli_old_ranks_first(o->directory, o->planned, o->planned_count);
    }
    cli_strings_reset(&l);
    free(now.journal);
    cli_strings_reset(&now.files);
    free(now.stamps);
    return another;
}
