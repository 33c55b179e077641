/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/door.c - the one door: looks at an operand once, shows it to the openers of the caller in turn, and
 * is the first of them for what is safetensors. It knows no other format and no other library. Read first:
 * sft/open.h.
 */
#include "base/options.h"
#include "catalog/catalog.h"
#include <sft/open.h>

/* An operand with what only the core's opener needs to know of it. */
typedef struct looked_at {
    sft_operand operand; /* first: openers have a pointer to it */
    sft__fs_handle directory;
    sft_error nothing;      /* why nothing can be opened at the path */
    sft_open_options given; /* the caller's, whose limits every opener completes by itself */
    sft__catalog_options options;
} looked_at;

/* ---------------------------------------------------------------- what the operand is */

int sft_operand_is_other(const sft_operand *operand) {
    return operand->refused.status >= SFT_E_FORMAT && operand->refused.status < SFT_E_NOT_FOUND;
}

static sft_status look_at_path(looked_at *l, sft_error *err) {
    sft_operand *o = &l->operand;
    const sft_open_options *open = &l->options.open;
    sft__fs_handle file;
    sft__fs_stat st;

    if (sft_operand_is_url(o->path)) {
        o->kind = SFT_OPERAND_URL;
    } else if (sft__fs_open_any(o->path, &file, &st, &l->nothing) != SFT_OK) {
        o->kind = SFT_OPERAND_NOTHING;
    } else if (st.folder) {
        o->kind = SFT_OPERAND_DIRECTORY;
        l->directory = file;
    } else {
        o->kind = SFT_OPERAND_FILE;
        return sft__io_source_from_handle(&o->source, file, &st, o->path, open->access,
                                          open->allocator, err);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the core's opener */

static sft_status open_own(sft_operand *operand, const void *options, sft_catalog **out,
                           sft_error *err) {
    looked_at *l = (looked_at *)operand;
    sft_status status;

    (void)options;
    switch (operand->kind) {
    case SFT_OPERAND_BYTES: /* without a path */
    case SFT_OPERAND_FILE:
        status = sft__catalog_open_file(out, &operand->source, operand->path, &l->options, err);
        break;
    case SFT_OPERAND_DIRECTORY:
        status = sft__catalog_open_handle(out, l->directory, operand->path, &l->options, err);
        break;
    case SFT_OPERAND_NOTHING:
        *err = l->nothing;
        status = (sft_status)err->status;
        break;
    default:
        return SFT_OK; /* a URL */
    }
    if (status != SFT_OK) {
        operand->refused = *err;
    }
    return SFT_OK;
}

const sft_opener *sft_catalog_opener(void) {
    static const sft_opener opener = {sizeof opener, open_own};
    return &opener;
}

/* ---------------------------------------------------------------- the door */

static sft_status ask(looked_at *l, const sft_door_options *door, sft_catalog **out,
                      const sft_opener **taken_by, sft_error *err) {
    sft_operand *o = &l->operand;
    sft_error why;

    for (size_t i = 0; i < door->row_count; i++) {
        const sft_opener *opener = door->rows[i].opener;
        if (opener == NULL || opener->struct_size < SFT__UP_TO(sft_opener, open)) {
            return sft__base_fail(err, SFT_E_ARG, "row %zu has no opener", i);
        }
        const sft_status status = opener->open(o, door->rows[i].options, out, &why);
        if (status != SFT_OK || *out != NULL) {
            *taken_by = opener;
            if (status != SFT_OK && err != NULL) {
                *err = why;
            }
            return status;
        }
    }
    const sft_error *answer = o->refused.status != SFT_OK ? &o->refused : &l->nothing;
    if (answer->status == SFT_OK) {
        return o->kind == SFT_OPERAND_URL
                   ? sft__base_fail(err, SFT_E_UNSUPPORTED,
                                    "a URL, and no opener for URLs is given")
                   : sft__base_fail(err, SFT_E_FORMAT,
                                    "none of the openers given knows what it is");
    }
    if (err != NULL) {
        *err = *answer;
    }
    return (sft_status)answer->status;
}

static sft_status enter(sft_catalog **out, looked_at *l, const sft_door_options *door,
                        const sft_opener **taken_by, sft_error *err) {
    sft_operand *o = &l->operand;

    if ((o->path != NULL) == (o->source != NULL)) {
        return sft__base_fail(err, SFT_E_ARG, "a path or a source is needed, one of them");
    }
    SFT_TRY(sft__catalog_open_read(&l->options, door->open, err));
    l->given = l->options.open;
    l->given.limits = door->open != NULL ? door->open->limits : NULL;
    o->open = &l->given;
    o->kind = SFT_OPERAND_BYTES;
    if (o->path != NULL) {
        SFT_TRY(look_at_path(l, err));
    }
    return ask(l, door, out, taken_by, err);
}

sft_status sft_open(sft_catalog **out, const char *path, sft_source *source,
                    const sft_door_options *options, sft_error *err) {
    const sft_opener_row core = {sft_catalog_opener(), NULL};
    looked_at l = {.operand = {.path = path, .source = source}, .directory = SFT__FS_NO_HANDLE};
    const sft_opener *ignored;
    sft_door_options door;
    sft_status status;

    if (out != NULL) {
        *out = NULL;
    }
    status = out == NULL
                 ? sft__base_fail(err, SFT_E_ARG, "out is NULL")
                 : sft__base_options_read(&door, sizeof door, options,
                                          SFT__UP_TO(sft_door_options, row_count), "options", err);
    if (status == SFT_OK) {
        if (door.rows == NULL) {
            door.rows = &core;
            door.row_count = 1;
        }
        const sft_opener **taken_by = door.taken_by != NULL ? door.taken_by : &ignored;
        *taken_by = NULL;
        status = enter(out, &l, &door, taken_by, err);
    }
    sft_source_close(l.operand.source);
    if (l.directory != SFT__FS_NO_HANDLE) {
        sft__fs_close(l.directory);
    }
    return status;
}

/* ---------------------------------------------------------------- what came with a catalog */

typedef struct sft__catalog_attachment {
    struct sft__catalog_attachment *next;
    const char *key;
    void *object; /* NULL: given away */
    void (*drop)(void *object);
} sft__catalog_attachment;

sft_status sft_catalog_attach(sft_catalog *catalog, const char *key, void *object,
                              void (*drop)(void *object), sft_error *err) {
    sft__catalog_attachment *a =
        sft__base_arena_alloc(&catalog->arena, sizeof *a, _Alignof(sft__catalog_attachment));

    if (a == NULL) {
        return sft__catalog_arena_failed(&catalog->arena, sizeof *a, err);
    }
    *a = (sft__catalog_attachment){catalog->attached, key, object, drop};
    catalog->attached = a;
    return SFT_OK;
}

static sft__catalog_attachment *find(const sft_catalog *catalog, const char *key) {
    sft__catalog_attachment *a = catalog->attached;

    while (a != NULL && (a->object == NULL || strcmp(a->key, key) != 0)) {
        a = a->next;
    }
    return a;
}

void *sft_catalog_attached(const sft_catalog *catalog, const char *key) {
    const sft__catalog_attachment *a = find(catalog, key);
    return a != NULL ? a->object : NULL;
}

void *sft_catalog_detach(sft_catalog *catalog, const char *key) {
    sft__catalog_attachment *a = find(catalog, key);
    void *object = a != NULL ? a->object : NULL;

    if (a != NULL) {
        a->object = NULL;
    }
    return object;
}

void sft__catalog_drop_attached(sft_catalog *catalog) {
    for (sft__catalog_attachment *a = catalog->attached; a != NULL; a = a->next) {
        if (a->object != NULL) {
            a->drop(a->object);
        }
    }
}
