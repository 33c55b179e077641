/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/ls_json.c - the listing as JSON, schema 1. Members may be added to it, never taken away.
 * Read ls.h first.
 */
#include "cli/look/ls.h"
#include <stdlib.h>
#include <string.h>

/* A metadata entry of one of the files. */
typedef struct member {
    sft_metadata_entry entry;
    size_t order;
    bool dropped;
} member;

static int by_key(const void *left, const void *right) {
    const member *a = left;
    const member *b = right;
    const size_t la = a->entry.key_len;
    const size_t lb = b->entry.key_len;
    const int order = la != lb ? (la < lb ? -1 : 1) : memcmp(a->entry.key, b->entry.key, la);

    return order != 0 ? order : a->order < b->order ? -1 : a->order > b->order;
}

static int by_order(const void *left, const void *right) {
    const member *a = left;
    const member *b = right;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool same_key(const member *a, const member *b) {
    return a->entry.key_len == b->entry.key_len &&
           memcmp(a->entry.key, b->entry.key, a->entry.key_len) == 0;
}

/* Of several files, the first one that has a key counts. */
static void drop_repeated(member *members, size_t count) {
    qsort(members, count, sizeof *members, by_key);
    for (size_t i = 1; i < count; i++) {
        members[i].dropped = same_key(&members[i - 1], &members[i]);
    }
    qsort(members, count, sizeof *members, by_order);
}

static void json_metadata(const ls_listing *l, cli_json *j) {
    const size_t files = sft_catalog_file_count(l->catalog);
    size_t count = 0;
    size_t at = 0;

    for (size_t f = 0; f < files; f++) {
        count += sft_catalog_metadata_count(l->catalog, f);
    }
    member *members = cli_alloc(count, sizeof *members);
    for (size_t f = 0; f < files; f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(l->catalog, f); i++, at++) {
            sft_metadata_entry *e = &members[at].entry;
            (void)sft_catalog_metadata_at(l->catalog, f, i, &e->key, &e->key_len, &e->value,
                                          &e->value_len);
            members[at].order = at;
        }
    }
    if (files > 1) {
        drop_repeated(members, count);
    }
    cli_json_key(j, "metadata");
    cli_json_open(j, '{');
    for (size_t i = 0; i < count; i++) {
        if (!members[i].dropped) {
            cli_json_key_text(j, members[i].entry.key, members[i].entry.key_len);
            cli_json_text(j, members[i].entry.value, members[i].entry.value_len);
        }
    }
    cli_json_close(j, '}');
    free(members);
}

static void json_tensor(const ls_listing *l, cli_json *j, const sft_tensor *t) {
    const sft_file *file = sft_catalog_file_at(l->catalog, t->file);
    const uint64_t begin = t->pieces[0].offset - file->data_offset;

    cli_json_open(j, '{');
    cli_json_key(j, "name");
    cli_json_text(j, t->name, t->name_len);
    cli_json_key(j, "dtype");
    cli_json_string(j, t->dtype->name);
    cli_json_key(j, "shape");
    cli_json_open(j, '[');
    for (uint32_t d = 0; d < t->rank; d++) {
        cli_json_u64(j, t->shape[d]);
    }
    cli_json_close(j, ']');
    cli_json_key(j, "data_offsets");
    cli_json_open(j, '[');
    cli_json_u64(j, begin);
    cli_json_u64(j, begin + t->nbytes);
    cli_json_close(j, ']');
    cli_json_key(j, "nbytes");
    cli_json_u64(j, t->nbytes);
    if (!l->single) {
        cli_json_key(j, "file");
        cli_json_string(j, cli_relative(file, l->operand));
    }
    cli_json_close(j, '}');
}

static void json_sizes(cli_json *j, uint64_t header_bytes, uint64_t data_bytes) {
    cli_json_key(j, "header_bytes");
    cli_json_u64(j, header_bytes);
    cli_json_key(j, "data_bytes");
    cli_json_u64(j, data_bytes);
}

static void json_files(const ls_listing *l, cli_json *j) {
    cli_json_key(j, "files");
    cli_json_open(j, '[');
    for (size_t i = 0; i < sft_catalog_file_count(l->catalog); i++) {
        const sft_file *file = sft_catalog_file_at(l->catalog, i);
        cli_json_open(j, '{');
        cli_json_key(j, "file");
        cli_json_string(j, cli_relative(file, l->operand));
        json_sizes(j, file->header_bytes, file->data_bytes);
        cli_json_key(j, "tensors");
        cli_json_u64(j, file->tensor_count);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void json_left_out(const ls_listing *l, cli_json *j) {
    cli_json_key(j, "left_out");
    cli_json_open(j, '[');
    for (size_t i = 0; i < sft_catalog_problem_count(l->catalog); i++) {
        const sft_problem *p = sft_catalog_problem_at(l->catalog, i);
        if (p->kind == SFT_PROBLEM_MISSING_TENSOR) {
            cli_json_open(j, '{');
            cli_json_key(j, "name");
            cli_json_text(j, p->subject, p->subject_len);
            cli_json_key(j, "message");
            cli_json_string(j, p->message);
            cli_json_close(j, '}');
        }
    }
    cli_json_close(j, ']');
}

void cli_ls_json(ls_listing *l) {
    const size_t files = sft_catalog_file_count(l->catalog);
    uint64_t header_bytes = 0;
    uint64_t data_bytes = 0;
    cli_json j;

    for (size_t i = 0; i < files; i++) {
        header_bytes += sft_catalog_file_at(l->catalog, i)->header_bytes;
        data_bytes += sft_catalog_file_at(l->catalog, i)->data_bytes;
    }
    cli_json_init(&j, &l->c->out);
    cli_json_open(&j, '{');
    cli_json_key(&j, "schema");
    cli_json_u64(&j, 1);
    cli_json_key(&j, "file");
    cli_json_string(&j, l->operand);
    json_sizes(&j, header_bytes, data_bytes);
    json_metadata(l, &j);
    if (!l->single) {
        json_files(l, &j);
    }
    cli_json_key(&j, "tensors");
    cli_json_open(&j, '[');
    for (size_t i = 0; i < l->count && !cli_stopped(l->c); i++) {
        json_tensor(l, &j, l->rows[i].tensor);
    }
    cli_json_close(&j, ']');
    cli_ls_alias_json(l, &j);
    if (cli_flag(l->c, "partial")) {
        json_left_out(l, &j);
    }
    cli_json_close(&j, '}');
    cli_json_newline(&j);
}
