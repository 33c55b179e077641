/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/open.c - the one door: looks at an operand once (a path, a URL, bytes), and shows it to the
 * openers of the caller in turn. It is the first of them for safetensors, and knows no other. One file is
 * handled here, with as few system calls as can be: open, fstat, one read of the beginning, one of the rest
 * of a header that is longer. Directories and index files are in directory.c. Read first: sft/open.h.
 */
#include "base/checked.h"
#include "base/limits.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "catalog/catalog.h"
#include <sft/open.h>

enum {
    FILE_FIRST = 4096,        /* read at once from a file: holds most small headers */
    REMOTE_FIRST = 64 * 1024, /* where every read is a round trip: holds nearly all */
    INDEX_LOOKS = 64 * 1024   /* how far into a file an index is looked for */
};

sft_status sft__catalog_open_read(sft__catalog_options *out, const sft_open_options *options,
                                  sft_error *err) {
    memset(out, 0, sizeof *out);
    SFT_TRY(sft__base_options_read(&out->open, sizeof out->open, options,
                                   SFT__UP_TO(sft_open_options, allocator), "open options", err));
    SFT_TRY(sft__base_limits_read(&out->limits, out->open.limits, err));
    if ((out->open.flags & ~(SFT_OPEN_INCOMPLETE | SFT_OPEN_STRICT)) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "unknown flags in open options");
    }
    if (out->open.access != SFT_ACCESS_AUTO && out->open.access != SFT_ACCESS_READ &&
        out->open.access != SFT_ACCESS_MAP) {
        return sft__base_fail(err, SFT_E_ARG, "unknown access in open options");
    }
    out->limits.header_bytes = out->limits.header_bytes == 0           ? 100000000
                               : out->limits.header_bytes > UINT32_MAX ? UINT32_MAX
                                                                       : out->limits.header_bytes;
    out->limits.tensors = out->limits.tensors == 0 || out->limits.tensors > UINT32_MAX
                              ? UINT32_MAX
                              : out->limits.tensors;
    out->limits.rank = out->limits.rank == 0 ? 1024 : out->limits.rank;
    out->limits.shards = out->limits.shards == 0 ? 65536 : out->limits.shards;
    out->asked = out->open.limits;
    out->open.limits = &out->limits;
    return SFT_OK;
}

sft_status sft__catalog_new(sft_catalog **out, const sft__catalog_options *options,
                            sft_error *err) {
    sft_catalog *catalog = sft__base_alloc_zero(options->open.allocator, sizeof *catalog);
    SFT_NEED(catalog != NULL, sizeof *catalog, err);
    catalog->allocator = sft__base_allocator(options->open.allocator);
    sft__base_arena_init(&catalog->arena, catalog->allocator, options->limits.memory_bytes);
    catalog->names = &catalog->merged_names;
    *out = catalog;
    return SFT_OK;
}

sft_status sft__catalog_arena_failed(const sft__base_arena *arena, uint64_t size, sft_error *err) {
    if (arena->over_budget) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "the catalog needs more memory than limits.memory_bytes");
    }
    return sft__base_fail_nomem(err, size <= SIZE_MAX ? (size_t)size : SIZE_MAX);
}

uint64_t sft__catalog_header_memory(const sft__format_header *header) {
    return header->arena.total + header->text_size; /* the index of names lies in the arena */
}

typedef struct header_text {
    char *text; /* with SFT__HEADER_SLACK bytes behind it */
    uint64_t bytes;
} header_text;

/* Reads the header's length and text. `first` is room for what is read at once. */
static sft_status text_read(header_text *out, const sft_source *source, uint8_t *first,
                            size_t first_room, const sft__catalog_options *options,
                            sft_error *err) {
    const uint64_t size = sft_source_size(source);
    const size_t first_len = size < first_room ? (size_t)size : first_room;
    size_t text_size;
    size_t have;

    SFT_TRY(sft_source_read(source, 0, first, first_len, err));
    SFT_TRY(sft__format_header_length(first, first_len < 8 ? first_len : 8, size, &options->limits,
                                      &out->bytes, err));
    /* cannot overflow: header_bytes <= limits.header_bytes < 2^32 */
    if (options->limits.memory_bytes != 0 &&
        out->bytes + SFT__HEADER_SLACK > options->limits.memory_bytes) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "the header needs %llu bytes of memory, the limit is %llu",
                              (unsigned long long)(out->bytes + SFT__HEADER_SLACK),
                              (unsigned long long)options->limits.memory_bytes);
    }
    SFT_NEED(sft__base_size_from_u64(out->bytes + SFT__HEADER_SLACK, &text_size) &&
                 (out->text = sft__base_alloc(options->open.allocator, text_size)) != NULL,
             (size_t)out->bytes, err);
    have = text_size - SFT__HEADER_SLACK; /* header_length saw 8 bytes, so first_len >= 8 */
    have = have < first_len - 8 ? have : first_len - 8;
    memcpy(out->text, first + 8, have);
    const sft_status status = sft_source_read(source, 8 + (uint64_t)have, out->text + have,
                                              text_size - SFT__HEADER_SLACK - have, err);
    if (status != SFT_OK) {
        sft__base_free(options->open.allocator, out->text, text_size);
        out->text = NULL;
    }
    return status;
}

sft_status sft__catalog_header_read(sft__format_header *out, const sft_source *source,
                                    const sft__catalog_options *options, sft_error *err) {
    uint8_t first[FILE_FIRST];
    header_text t = {NULL, 0};

    if ((sft_source_flags(source) & SFT_SOURCE_REMOTE) != 0 && !options->exact) {
        uint8_t *far_first = sft__base_alloc(options->open.allocator, REMOTE_FIRST);
        SFT_NEED(far_first != NULL, REMOTE_FIRST, err);
        const sft_status status = text_read(&t, source, far_first, REMOTE_FIRST, options, err);
        sft__base_free(options->open.allocator, far_first, REMOTE_FIRST);
        SFT_TRY(status);
    } else {
        const size_t room = options->exact ? 8 : sizeof first;
        SFT_TRY(text_read(&t, source, first, room, options, err));
    }
    return sft__format_header_parse(out, t.text, t.bytes, sft_source_size(source), &options->open,
                                    err);
}

void sft__catalog_file_describe(sft__catalog_file *out, const sft__format_header *header,
                                const sft_source *source, uint32_t source_index) {
    memset(out, 0, sizeof *out);
    out->info.path = sft_source_name(source);
    out->info.size = header->file_size;
    out->info.header_bytes = header->header_bytes;
    out->info.data_offset = 8 + header->header_bytes;
    out->info.data_bytes = header->file_size - out->info.data_offset;
    out->info.tensor_count = header->tensor_count;
    out->info.source = source_index;
    out->info.has_metadata = header->has_metadata ? 1 : 0;
    out->metadata = header->metadata;
    out->metadata_count = header->metadata_count;
}

/* Hands the catalog over several files out if all went well, else ends it. */
static sft_status finish(sft_catalog **out, sft_catalog *catalog, sft_status status,
                         sft_error *err) {
    status = status == SFT_OK ? sft__catalog_aliases(catalog, err) : status;
    if (status == SFT_OK) {
        *out = catalog;
    } else {
        sft_catalog_close(catalog);
    }
    return status;
}

/* A catalog over one file; the source becomes part of it if this succeeds. The object is allocated
 * behind the header's large blocks: being small it stays in the C library's cache when it is freed,
 * so that what lies below it is not given back to the system and faulted in again by the next
 * opening. */
static sft_status open_single(sft_catalog **out, sft_source *source,
                              const sft__catalog_options *options, sft_error *err) {
    sft__format_header header;
    sft_catalog *catalog;

    SFT_TRY(sft__catalog_header_read(&header, source, options, err));
    const sft_status status = sft__catalog_new(&catalog, options, err);
    if (status != SFT_OK) {
        sft__format_header_reset(&header);
        return status;
    }
    catalog->one_source = source;
    catalog->sources = &catalog->one_source;
    catalog->source_count = 1;
    catalog->one_header = header; /* nothing in it points into itself */
    catalog->headers = &catalog->one_header;
    catalog->header_count = 1;
    catalog->tensors = header.tensors;
    catalog->tensor_count = header.tensor_count;
    catalog->names = &catalog->one_header.names;
    sft__catalog_file_describe(&catalog->one_file, &header, source, 0);
    sft__catalog_file_index(catalog, &catalog->one_file);
    catalog->files = &catalog->one_file;
    catalog->file_count = 1;
    const sft_status named = sft__catalog_aliases(catalog, err);
    if (named != SFT_OK) {
        catalog->source_count = 0; /* the caller's again */
        sft_catalog_close(catalog);
        return named;
    }
    *out = catalog;
    return SFT_OK;
}

static sft_status open_index(sft_catalog **out, const sft_source *source, const char *path,
                             const sft__catalog_options *options, sft_error *err) {
    sft_catalog *catalog;
    SFT_TRY(sft__catalog_new(&catalog, options, err));
    return finish(out, catalog, sft__catalog_open_index(catalog, source, path, options, err), err);
}

static sft_status open_directory(sft_catalog **out, sft__fs_handle directory, const char *path,
                                 const sft__catalog_options *options, sft_error *err) {
    sft_catalog *catalog;
    SFT_TRY(sft__catalog_new(&catalog, options, err));
    return finish(out, catalog, sft__catalog_open_directory(catalog, directory, path, options, err),
                  err);
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

static size_t skip_blanks(const char *text, size_t len) {
    size_t i = 0;
    while (i < len && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t')) {
        i++;
    }
    return i;
}

/* *found: the file begins as a JSON object that has a "weight_map": an index under some other name.
 */
static sft_status look_for_index(const sft_source *source, const sft_allocator *allocator,
                                 bool *found, sft_error *err) {
    static const char key[] = "\"weight_map\"";
    const uint64_t size = sft_source_size(source);
    const size_t len = size < INDEX_LOOKS ? (size_t)size : INDEX_LOOKS;
    char *text = sft__base_alloc(allocator, INDEX_LOOKS);

    *found = false;
    SFT_NEED(text != NULL, INDEX_LOOKS, err);
    const sft_status status = sft_source_read(source, 0, text, len, err);
    const size_t begin = status == SFT_OK ? skip_blanks(text, len) : len;
    if (begin < len && text[begin] == '{') {
        for (size_t i = begin; !*found && len - i >= sizeof key - 1; i++) {
            *found = memcmp(text + i, key, sizeof key - 1) == 0;
        }
    }
    sft__base_free(allocator, text, INDEX_LOOKS);
    return status;
}

/* One file with tensors: *source becomes the catalog's, and NULL, if this succeeds. Or an index, which
 * needs its path (else NULL). */
static sft_status open_file(sft_catalog **out, sft_source **source, const char *path,
                            const sft__catalog_options *options, sft_error *err) {
    bool is_index = path != NULL && ends_with(path, ".index.json");
    sft_status status = SFT_OK;

    if (!is_index) {
        status = open_single(out, *source, options, err);
        *source = status == SFT_OK ? NULL : *source;
    }
    if ((status == SFT_E_HEADER_TOO_LARGE || status == SFT_E_HEADER_PAST_END) && path != NULL &&
        !ends_with(path, ".safetensors")) {
        sft_error look; /* the header's fault stays in err if this is no index */
        const sft_status looked =
            look_for_index(*source, options->open.allocator, &is_index, &look);
        if (looked != SFT_OK) {
            status = looked;
            *err = look;
        }
    }
    /* an index is not one of the model's files */
    return is_index ? open_index(out, *source, path, options, err) : status;
}

/* ---------------------------------------------------------------- the operand */

/* An operand with what only the core's opener needs to know of it. */
typedef struct looked_at {
    sft_operand operand; /* first: openers have a pointer to it */
    sft__fs_handle directory;
    int32_t nothing; /* why nothing can be opened at the path; the rest is in operand.refused */
    sft_open_options given; /* the caller's, whose limits every opener completes by itself */
    sft__catalog_options options;
} looked_at;

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
    } else if ((l->nothing = (int32_t)sft__fs_open_any(o->path, &file, &st, &o->refused)) !=
               SFT_OK) {
        o->kind = SFT_OPERAND_NOTHING;
        o->refused.status = SFT_OK; /* no opener has looked */
    } else if (st.directory) {
        o->kind = SFT_OPERAND_DIRECTORY;
        l->directory = file;
    } else {
        o->kind = SFT_OPERAND_FILE;
        return sft__io_source_from_handle(&o->source, &(sft__io_file){file, &st, o->path},
                                          open->access, open->allocator, err);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the core's opener */

static sft_status open_own(sft_operand *operand, const void *options, sft_catalog **out,
                           sft_error *err) {
    looked_at *l = (looked_at *)operand;

    (void)options;
    (void)err; /* what cannot be opened is for others, with the reason */
    if (operand->kind == SFT_OPERAND_DIRECTORY) {
        (void)!open_directory(out, l->directory, operand->path, &l->options, &operand->refused);
    } else if (operand->source != NULL && operand->kind != SFT_OPERAND_URL) {
        (void)!open_file(out, &operand->source, operand->path, &l->options, &operand->refused);
    } else if (operand->refused.status == SFT_OK) {
        operand->refused.status = l->nothing;
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
        const sft_opener_row *row = &door->rows[i];
        const sft_status status = row->opener->open(o, row->options, out, &why);
        if (status != SFT_OK) {
            o->refused = why;
        }
        if (status != SFT_OK || *out != NULL) {
            *taken_by = row->opener;
            break;
        }
    }
    if (*out != NULL) {
        return SFT_OK;
    }
    if (o->refused.status == SFT_OK) {
        o->refused.status = l->nothing;
    }
    if (o->refused.status == SFT_OK) {
        return sft__base_fail(err, o->kind == SFT_OPERAND_URL ? SFT_E_UNSUPPORTED : SFT_E_FORMAT,
                              "none of the openers given knows what it is");
    }
    if (err != NULL) {
        *err = o->refused;
    }
    return (sft_status)o->refused.status;
}

static sft_status enter(sft_catalog **out, looked_at *l, const sft_door_options *door,
                        const sft_opener **taken_by, sft_error *err) {
    sft_operand *o = &l->operand;

    if ((o->path != NULL) == (o->source != NULL)) {
        return sft__base_fail(err, SFT_E_ARG, "a path or a source is needed, one of them");
    }
    SFT_TRY(sft__catalog_open_read(&l->options, door->open, err));
    l->given = l->options.open;
    l->given.limits = l->options.asked;
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
    sft__fs_close(l.directory);
    return status;
}

/* ---------------------------------------------------------------- safetensors alone */

static sft_status open_own_alone(sft_catalog **out, const char *path, sft_source *source,
                                 const sft_open_options *options, sft_error *err) {
    const sft_door_options door = {.struct_size = sizeof door, .open = options};
    return sft_open(out, path, source, &door, err);
}

sft_status sft_catalog_open(sft_catalog **out, const char *path, const sft_open_options *options,
                            sft_error *err) {
    return open_own_alone(out, path, NULL, options, err);
}

sft_status sft_catalog_open_source(sft_catalog **out, sft_source *source,
                                   const sft_open_options *options, sft_error *err) {
    return open_own_alone(out, NULL, source, options, err);
}

sft_status sft_catalog_open_memory(sft_catalog **out, const void *data, size_t size,
                                   const sft_open_options *options, sft_error *err) {
    const sft_allocator *allocator = NULL;
    sft_source *source;

    if (out != NULL) {
        *out = NULL;
    }
    if (options != NULL && options->struct_size >= SFT__UP_TO(sft_open_options, allocator)) {
        allocator = options->allocator;
    }
    SFT_TRY(sft_source_open_memory(&source, data, size, allocator, err));
    return sft_catalog_open_source(out, source, options, err);
}
