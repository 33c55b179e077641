/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/odd.c - see odd.h. Only headers are looked at.
 */
#include "cli/look/odd.h"
#include "cli/ui/text.h"
#include <stdio.h>
#include <string.h>

enum { HUB_HEADER_BYTES = 25000000 }; /* above it, the Hugging Face Hub shows no tensors */

typedef struct search {
    cli *c;
    const char *operand;
    const sft_catalog *catalog;
    cli_oddities *odd;
    sft_status status;
    sft_error *err;
} search;

cli_oddity *cli_odd_add(cli_oddities *odd, const char *kind) {
    cli_oddity *f = &odd->items[odd->count < CLI_ODDITIES - 1 ? odd->count : CLI_ODDITIES - 1];

    odd->count += odd->count < CLI_ODDITIES;
    f->kind = kind;
    f->message[0] = '\0';
    f->tensor = NULL;
    f->offset = SFT_NO_OFFSET;
    return f;
}

typedef bool (*tensor_test)(const sft_tensor *t);

static bool is_unsafe_name(const sft_tensor *t) {
    for (size_t i = 0; i < t->name_len;) {
        char text[16];
        size_t used;
        if ((unsigned char)(t->name[i] - 0x20) < 0x5f) {
            i++; /* of ASCII only controls are not shown as they are */
            continue;
        }
        (void)cli_decode(t->name + i, t->name_len - i, &used);
        const size_t n = sft_escape(text, sizeof text, t->name + i, used);
        if (text[0] == '\\' && n > 2) { /* \x.., \u..; a backslash alone gives two characters */
            return true;
        }
        if (t->name[i] == '\n' || t->name[i] == '\t' || t->name[i] == '\r') {
            return true;
        }
        i += used;
    }
    return false;
}

/* Of other formats alone: safetensors does not have it. */
static bool is_reserved(const sft_tensor *t) {
    return cli_is_word(t->name, t->name_len, "__metadata__");
}

static bool is_nameless(const sft_tensor *t) {
    return t->name_len == 0;
}

static bool is_path_name(const sft_tensor *t) {
    const char *s = t->name;
    return (t->name_len > 0 && (s[0] == '/' || s[0] == '\\')) || strstr(s, "../") != NULL ||
           strstr(s, "..\\") != NULL;
}

static bool is_misaligned(const sft_tensor *t) {
    return t->nbytes > 0 && t->pieces[0].offset % t->dtype->alignment != 0;
}

static void test_tensors(search *v, tensor_test test, const char *kind, const char *one,
                         const char *many) {
    const size_t total = sft_catalog_count(v->catalog);
    const sft_tensor *first = NULL;
    uint64_t found = 0;
    char number[32];

    for (size_t i = 0; i < total; i++) {
        const sft_tensor *t = sft_catalog_at(v->catalog, i);
        if (test(t)) {
            first = first == NULL ? t : first;
            found++;
        }
    }
    if (found > 0) {
        cli_oddity *f = cli_odd_add(v->odd, kind);
        f->tensor = first;
        f->offset = first->piece_count > 0 ? first->pieces[0].offset : SFT_NO_OFFSET;
        (void)snprintf(f->message, sizeof f->message, "%s %s", cli_grouped(number, found),
                       found == 1 ? one : many);
    }
}

static void test_files(search *v) {
    for (size_t i = 0; i < sft_catalog_file_count(v->catalog); i++) {
        const sft_file *file = sft_catalog_file_at(v->catalog, i);
        if (file->header_bytes > HUB_HEADER_BYTES) {
            (void)snprintf(cli_odd_add(v->odd, "large_header")->message,
                           sizeof v->odd->items[0].message,
                           "the header is %llu bytes: the Hugging Face Hub reads at most %d",
                           (unsigned long long)file->header_bytes, (int)HUB_HEADER_BYTES);
        }
        if (file->data_offset % 8 != 0) {
            cli_oddity *f = cli_odd_add(v->odd, "data_alignment");
            f->offset = file->data_offset;
            (void)snprintf(f->message, sizeof f->message,
                           "the data section starts at byte %llu, which is no multiple of 8",
                           (unsigned long long)file->data_offset);
        }
    }
}

/* The library names only the first deviation; it may be one that was found here already. */
static bool is_known(const search *v, const sft_error *err) {
    char name[sizeof err->tensor];

    for (size_t i = 0; i < v->odd->count; i++) {
        const cli_oddity *f = &v->odd->items[i];
        name[0] = '\0';
        if (f->tensor != NULL) {
            (void)sft_escape(name, sizeof name, f->tensor->name, f->tensor->name_len);
        }
        if ((f->offset != SFT_NO_OFFSET && f->offset == err->offset) ||
            (err->tensor[0] != '\0' && strcmp(err->tensor, name) == 0)) {
            return true;
        }
    }
    return false;
}

static void test_deviation(search *v) {
    sft_catalog *again;
    sft_error err;

    const sft_status status = cli_open_quietly(v->c, v->operand, SFT_OPEN_STRICT, &again, &err);
    if (status != SFT_OK && (status < SFT_E_FORMAT || status >= SFT_E_NOT_FOUND)) {
        v->status = status; /* of the system or the network: no verdict on the file */
        *v->err = err;
    } else if (status != SFT_OK && !is_known(v, &err)) {
        cli_oddity *f = cli_odd_add(v->odd, "deviation");
        f->offset = err.offset;
        (void)snprintf(f->message, sizeof f->message, "%s%s%s%s",
                       err.tensor[0] != '\0' ? "tensor \"" : "", err.tensor,
                       err.tensor[0] != '\0' ? "\": " : "", err.message);
    }
    sft_catalog_close(again);
}

static void test_strictly(search *v) {
    test_files(v);
    test_tensors(v, is_unsafe_name, "unsafe_name", "name holds control or invisible characters",
                 "names hold control or invisible characters");
    test_tensors(v, is_nameless, "empty_name", "tensor has an empty name",
                 "tensors have an empty name");
    test_tensors(v, is_path_name, "path_name", "name looks like a path out of a directory",
                 "names look like paths out of a directory");
    test_tensors(v, is_misaligned, "misaligned",
                 "tensor does not start at a multiple of its element's size",
                 "tensors do not start at multiples of their elements' size");
    test_deviation(v);
}

sft_status cli_odd_find(cli *c, const char *operand, const sft_catalog *catalog, bool strict,
                        cli_oddities *odd, sft_error *err) {
    search v = {c, operand, catalog, odd, SFT_OK, err};

    test_tensors(&v, is_reserved, "reserved_name",
                 "tensor has the name of safetensors' metadata: convert must rename it",
                 "tensors have the name of safetensors' metadata: convert must rename them");
    if (strict) {
        test_strictly(&v);
    }
    return v.status;
}

const char *cli_odd_problem(uint32_t kind) {
    static const char *const names[] = {"problem",      "orphan_file",    "orphan_tensor",
                                        "missing_file", "missing_tensor", "other_shard",
                                        "total_size",   "alias"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : names[0];
}
