/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/record.c - see verify.h. Bytes go through one job: CRC32C of blocks in the workers, joined in
 * order; SHA-256, which cannot be joined, while joining.
 */
#include "cli/look/verify.h"
#include "cli/operands/other_format.h"
#include "cli/outputs/kept.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

enum { CRC_DIGITS = 8, SHA_DIGITS = 64 };

typedef struct record {
    cli *c;
    const char *path;
    const sft_catalog *catalog;
    uint32_t digests;
    cli_cut cut;
    uint32_t *crc;      /* per tensor */
    uint8_t (*sha)[32]; /* per tensor */
    size_t *sorted;     /* tensors in byte order of names */
    sft_sha256 one;     /* of the tensor being joined */
    size_t joined;      /* it */
    uint64_t joined_bytes;
} record;

typedef struct part {
    uint32_t crc;
    size_t size;
    unsigned char data[CLI_BLOCK_BYTES];
} part;

/* ---------------------------------------------------------------- computing */

static sft_status read_part(void *ctx, uint64_t unit, cli_slot *slot) {
    const record *r = ctx;
    part *p = slot->room;
    size_t item;
    uint64_t offset;
    sft_status status;

    cli_cut_find(&r->cut, unit, &item, &offset, &p->size);
    status = sft_tensor_read_bytes(r->catalog, sft_catalog_at(r->catalog, item), offset, p->data,
                                   p->size, &slot->err);
    p->crc = status == SFT_OK ? sft_crc32c(0, p->data, p->size) : 0;
    return status;
}

/* Ends the digests of tensors up to `item`; those without bytes are ended at once. */
static void join_until(record *r, size_t item) {
    while (r->joined < item) {
        sft_sha256_final(&r->one, r->sha[r->joined]);
        sft_sha256_init(&r->one);
        r->joined++;
    }
}

static sft_status join_part(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    record *r = ctx;
    const part *p = slot->room;
    size_t item;
    uint64_t offset;
    size_t size;

    cli_cut_find(&r->cut, unit, &item, &offset, &size);
    join_until(r, item);
    r->crc[item] = sft_crc32c_combine(r->crc[item], p->crc, size);
    if ((r->digests & SFT_DIGEST_SHA256) != 0) {
        sft_sha256_update(&r->one, p->data, size);
    }
    *bytes = size;
    return SFT_OK;
}

static sft_status compute(record *r, sft_error *err) {
    const size_t count = sft_catalog_count(r->catalog);

    r->crc = cli_alloc(count, sizeof *r->crc);
    r->sha = cli_alloc(count, sizeof *r->sha);
    cli_cut_init(&r->cut, CLI_BLOCK_BYTES);
    for (size_t i = 0; i < count; i++) {
        cli_cut_add(&r->cut, sft_catalog_at(r->catalog, i)->nbytes);
    }
    sft_sha256_init(&r->one);
    const cli_job job = {.label = "recording",
                         .count = cli_cut_units(&r->cut),
                         .total_bytes = r->cut.total_bytes,
                         .room_bytes = sizeof(part),
                         .work = read_part,
                         .merge = join_part,
                         .ctx = r};
    const sft_status status = cli_run_job(r->c, &job, err);
    join_until(r, count);
    return status;
}

/* ---------------------------------------------------------------- in metadata */

typedef struct named {
    const sft_tensor *tensor;
    size_t index;
} named;

static int by_name(const void *a, const void *b) {
    const sft_tensor *x = ((const named *)a)->tensor;
    const sft_tensor *y = ((const named *)b)->tensor;
    return cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

static void sort_tensors(record *r) {
    const size_t count = sft_catalog_count(r->catalog);
    named *order = cli_alloc(count, sizeof *order);

    r->sorted = cli_alloc(count, sizeof *r->sorted);
    for (size_t i = 0; i < count; i++) {
        order[i] = (named){sft_catalog_at(r->catalog, i), i};
    }
    qsort(order, count, sizeof *order, by_name);
    for (size_t i = 0; i < count; i++) {
        r->sorted[i] = order[i].index;
    }
    free(order);
}

/* CRC32C of what the tensors are, whose bytes the digests are of. */
static uint32_t describe(const record *r) {
    uint32_t crc = 0;

    for (size_t i = 0; i < sft_catalog_count(r->catalog); i++) {
        crc = sft_digest_describe(crc, sft_catalog_at(r->catalog, r->sorted[i]));
    }
    return crc;
}

static const char *hex32(char text[CRC_DIGITS + 1], uint32_t v) {
    const uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                              (uint8_t)v};
    return cli_hex(text, bytes, 4);
}

/* The value of "sft.crc32c" or "sft.sha256". */
static char *value_of(const record *r, uint32_t kind, size_t *len) {
    const size_t count = sft_catalog_count(r->catalog);
    const size_t digits = kind == SFT_DIGEST_CRC32C ? CRC_DIGITS : SHA_DIGITS;
    char *value = cli_alloc(count + 1, digits + 1);

    hex32(value, describe(r));
    *len = CRC_DIGITS;
    for (size_t i = 0; i < count; i++) {
        if (kind == SFT_DIGEST_CRC32C) {
            hex32(value + *len, r->crc[r->sorted[i]]);
        } else {
            cli_hex(value + *len, r->sha[r->sorted[i]], 32);
        }
        *len += digits;
    }
    return value;
}

static sft_status record_inside(record *r, sft_edit_way *way, sft_error *err) {
    sft_metadata_entry entries[2] = {{"sft.crc32c", 10, NULL, 0}, {"sft.sha256", 10, NULL, 0}};
    char *values[2] = {NULL, NULL};
    sft_edit_options options;

    SFT_INIT(&options);
    options.control = cli_control(r->c, "writing");
    options.made_of = r->catalog;
    sort_tensors(r);
    for (unsigned k = 0; k < 2; k++) { /* kinds that were not asked for are removed */
        const uint32_t kind = k == 0 ? SFT_DIGEST_CRC32C : SFT_DIGEST_SHA256;
        if ((r->digests & kind) != 0) {
            values[k] = value_of(r, kind, &entries[k].value_len);
            entries[k].value = values[k];
        }
    }
    const sft_status status = sft_edit_metadata(r->path, entries, 2, &options, way, err);
    cli_control_end(r->c);
    free(values[0]);
    free(values[1]);
    return status;
}

/* ---------------------------------------------------------------- beside the file */

static void write_manifest(const record *r, cli_out *out) {
    char text[SHA_DIGITS + 1];
    cli_json j;

    cli_json_begin(&j, out);
    cli_json_field_string(&j, "file", cli_base_name(r->path));
    cli_json_field_u64(&j, "size", sft_catalog_file_at(r->catalog, 0)->size);
    cli_json_field_open(&j, "tensors", '{');
    for (size_t i = 0; i < sft_catalog_count(r->catalog); i++) {
        const sft_tensor *t = sft_catalog_at(r->catalog, i);
        cli_json_key_text(&j, t->name, t->name_len);
        cli_json_open(&j, '{');
        if ((r->digests & SFT_DIGEST_CRC32C) != 0) {
            cli_json_field_string(&j, "crc32c", hex32(text, r->crc[i]));
        }
        if ((r->digests & SFT_DIGEST_SHA256) != 0) {
            cli_json_field_string(&j, "sha256", cli_hex(text, r->sha[i], 32));
        }
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, '}');
    cli_json_end(&j);
    cli_flush(out);
}

static sft_status fail_file(sft_error *err, const char *path, int error) {
    char cause[160];
    const bool exists = cli_sys_exists_error(error);
    return sft_error_set(err, exists ? SFT_E_EXISTS : SFT_E_IO, error, "cannot write %s: %s", path,
                         cli_sys_text(error, cause, sizeof cause));
}

static sft_status record_beside(record *r, sft_error *err) {
    char *path = cli_joined(r->path, ".digests.json", "");
    cli_out *out = cli_alloc(1, sizeof *out);
    cli_sys_file file;
    cli_kept_watch(r->c, path);
    int error = cli_sys_create(&file, path, r->c->force);

    if (error == 0) {
        out->file = &file;
        write_manifest(r, out);
        error = out->failed;
        if (error == 0) {
            error = cli_sys_commit(&file);
        } else {
            cli_sys_discard(&file);
        }
    }
    const sft_status status = error == 0 ? SFT_OK : fail_file(err, path, error);
    free(out);
    free(path);
    return status;
}

/* ---------------------------------------------------------------- both */

static bool has_digests(const sft_catalog *catalog) {
    return sft_catalog_metadata_find(catalog, 0, "sft.crc32c", 10, NULL) != NULL ||
           sft_catalog_metadata_find(catalog, 0, "sft.sha256", 10, NULL) != NULL;
}

static sft_status record_file(record *r, bool beside, sft_edit_way *way, sft_error *err) {
    if (!beside && cli_is_other_format(r->catalog)) {
        return CLI_ERROR(err, SFT_E_UNSUPPORTED,
                         "it is no safetensors file: --manifest records digests beside it");
    }
    if (!beside && !r->c->force && has_digests(r->catalog)) {
        return CLI_ERROR(err, SFT_E_EXISTS, "digests are recorded already");
    }
    const sft_status status = compute(r, err);
    if (status != SFT_OK) {
        return status;
    }
    return beside ? record_beside(r, err) : record_inside(r, way, err);
}

const char *cli_digest_kinds(const char *text, uint32_t *kinds) {
    *kinds = 0;
    while (*text != '\0') {
        const size_t len = strcspn(text, ",");
        const bool crc = cli_is_word(text, len, "crc32c");
        if (!crc && !cli_is_word(text, len, "sha256")) {
            break;
        }
        *kinds |= crc ? SFT_DIGEST_CRC32C : SFT_DIGEST_SHA256;
        text += len + (text[len] == ',');
    }
    return text;
}

bool cli_record_kinds(cli *c, const char *text, uint32_t *kinds) {
    if (*cli_digest_kinds(text, kinds) != '\0' || *kinds == 0) {
        cli_usage(c, "--record: crc32c, sha256 or crc32c,sha256 is wanted");
        return false;
    }
    return true;
}

bool cli_record_digests(cli *c, const char *path, uint32_t digests, bool beside, size_t *tensors,
                        sft_edit_way *way) {
    record r = {.c = c, .path = path, .digests = digests};
    sft_catalog *catalog;
    sft_error err;

    if (!cli_open(c, path, 0, &catalog)) {
        return false;
    }
    cli_kept_watch(c, path);
    r.catalog = catalog;
    *tensors = sft_catalog_count(catalog);
    *way = SFT_EDITED_NOTHING;
    const sft_status status = record_file(&r, beside, way, &err);
    if (status != SFT_OK) {
        cli_fail(c, path, &err);
    }
    cli_cut_reset(&r.cut);
    free(r.crc);
    free(r.sha);
    free(r.sorted);
    if (beside) {
        cli_close(c, catalog);
    } else {
        sft_catalog_close(catalog); /* the edit wrote to it, and looks for other writers itself */
    }
    return status == SFT_OK;
}
