/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/verify.c - verify: are the bytes of the tensors those whose digests were recorded? With
 * --record: records them. Read verify.h first.
 */
#include "cli/look/verify.h"
#include "cli/group.h"
#include "cli/operands/other_format.h"
#include "cli/ui/explain.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

typedef cli_check check;

/* ---------------------------------------------------------------- results */

void cli_verify_tensor(void *ctx, const sft_tensor *tensor, sft_status status,
                       const char *message) {
    check *k = ctx;
    cli_out *o = &k->c->out;

    if (status == SFT_OK) {
        k->bytes += tensor->nbytes;
        return;
    }
    k->list = cli_resize(k->list, k->count + 1, sizeof *k->list);
    k->list[k->count++] = (cli_damage){tensor, cli_copy_of(message)};
    if (!k->c->json) {
        cli_put_escaped(o, k->operand, strlen(k->operand));
        cli_printf(o, ": %sdamaged%s: tensor \"", k->c->color ? CLI_RED : "",
                   k->c->color ? CLI_NORMAL : "");
        cli_put_escaped(o, tensor->name, tensor->name_len);
        cli_puts(o, "\": ");
        cli_put_escaped(o, message, strlen(message));
        cli_put(o, "\n", 1);
    }
}

static void print_text(check *k, sft_status status, const sft_verify_result *result) {
    cli_out *o = &k->c->out;
    char text[32];
    char size[32];

    cli_put_escaped(o, k->operand, strlen(k->operand));
    if (status == SFT_OK) {
        cli_printf(o, ": %sok%s: %s tensors, %s", k->c->color ? CLI_GREEN : "",
                   k->c->color ? CLI_NORMAL : "", cli_grouped(text, result->checked),
                   cli_size(size, k->bytes, k->c->units));
    } else {
        cli_printf(o, ": %llu of %s tensors damaged", (unsigned long long)result->damaged,
                   cli_grouped(text, result->checked));
    }
    if (result->unlisted > 0) {
        cli_printf(o, "; %s have no digests", cli_grouped(text, result->unlisted));
    }
    cli_put(o, "\n", 1);
}

static void json_error(cli_json *j, const sft_error *err) {
    cli_json_key(j, "error");
    if (err == NULL) {
        cli_json_null(j);
        return;
    }
    cli_json_open(j, '{');
    cli_json_fields_of_error(j, err);
    cli_json_close(j, '}');
}

static void json_damage(const check *k, cli_json *j) {
    cli_json_field_open(j, "damaged", '[');
    for (size_t i = 0; i < k->count; i++) {
        const sft_tensor *t = k->list[i].tensor;
        const uint64_t begin = t->piece_count == 1 ? t->pieces[0].offset : 0;
        cli_json_open(j, '{');
        cli_json_field_text(j, "name", t->name, t->name_len);
        cli_json_field_string(j, "file", sft_catalog_file_at(k->catalog, t->file)->path);
        cli_json_field_range(j, "file_offsets", begin, begin + t->nbytes);
        cli_json_field_string(j, "message", k->list[i].message);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json(const check *k, bool verified, const sft_verify_result *result,
                       const sft_error *err) {
    cli_json j;

    cli_json_begin(&j, &k->c->out);
    cli_json_field_string(&j, "file", k->operand);
    cli_json_field_bool(&j, "verified", verified);
    cli_json_field_u64(&j, "checked", result->checked);
    cli_json_field_u64(&j, "unlisted", result->unlisted);
    json_damage(k, &j);
    json_error(&j, err);
    cli_json_end(&j);
}

/* ---------------------------------------------------------------- verify */

static void conclude(check *k, sft_status status, const sft_verify_result *result,
                     const sft_error *err) {
    const bool verified = status == SFT_OK && result->unlisted == 0;
    sft_error more;

    if (!verified) {
        cli_answer(k->c, CLI_NO);
    }
    if (k->c->json) {
        print_json(k, verified, result, status == SFT_OK ? NULL : err);
        cli_answer(k->c, cli_status_of(status));
    } else if (status == SFT_OK || (status == SFT_E_MISMATCH && !k->by_crc)) {
        print_text(k, status, result);
    } else if (status == SFT_E_NOT_FOUND) {
        (void)CLI_ERROR(&more, status, "%s; safetensors verify --record crc32c%s", err->message,
                        cli_is_other_format(k->catalog)
                            ? " --manifest records them beside it, and safetensors scan "
                              "--checksums compares those of its own format"
                            : " records them");
        cli_fail(k->c, k->operand, &more);
    } else {
        cli_fail(k->c, k->operand, err);
    }
}

/* MindSpore's checksum beside our digests, or instead of them. */
static sft_status with_crc(check *k, sft_status status, sft_verify_result *result, sft_error *err) {
    uint64_t tensors = 0;
    sft_error why;

    if (status != SFT_OK && status != SFT_E_NOT_FOUND) {
        return status;
    }
    const sft_status crc = cli_verify_crc(k->c, k->catalog, &tensors, &why);
    if (crc != SFT_OK) {
        *err = why;
        k->by_crc = true;
        return crc;
    }
    if (status == SFT_E_NOT_FOUND && tensors > 0) {
        result->checked = tensors;
        result->unlisted = sft_catalog_count(k->catalog) - tensors;
        for (size_t i = 0; i < sft_catalog_file_count(k->catalog); i++) {
            k->bytes += sft_catalog_file_at(k->catalog, i)->data_bytes;
        }
        return SFT_OK;
    }
    return status;
}

static void verify(cli *c, const char *operand) {
    check k = {.c = c, .operand = operand};
    sft_catalog *catalog;
    sft_verify_options options;
    sft_verify_result result = {0, 0, 0};
    sft_error err;

    sft_status status = cli_open_quietly(c, operand, 0, &catalog, &err);
    if (cli_group_agree(c, status, &err) != SFT_OK) {
        if (status == SFT_OK) { /* of another process it is not */
            cli_close(c, catalog);
        }
        cli_fail(c, operand, &err);
        if (c->json) {
            print_json(&k, false, &result, &err);
        }
        return;
    }
    cli_warn_problems(c, catalog, operand);
    if (cli_flag(c, "explain")) {
        cli_explain(catalog);
    }
    k.catalog = catalog;
    SFT_INIT(&options);
    options.pool = cli_pool(c);
    options.control = cli_control(c, "verifying");
    options.report = cli_verify_tensor;
    options.report_ctx = &k;
    status = c->processes != NULL ? cli_verify_together(&k, &options, &result, &err)
                                  : sft_catalog_verify(catalog, &options, &result, &err);
    cli_control_end(c);
    status = with_crc(&k, status, &result, &err);
    conclude(&k, status, &result, &err);
    for (size_t i = 0; i < k.count; i++) {
        free(k.list[i].message);
    }
    free(k.list);
    cli_close(c, catalog);
}

/* Ranks' files one by one, if the whole can be put together. */
static void verify_operand(cli *c, const char *operand) {
    sft_catalog *global = NULL;
    sft_error err;
    cli_strings paths = cli_verify_files(c, operand);

    if (paths.count > 0 && cli_open_quietly(c, operand, 0, &global, &err) != SFT_OK) {
        cli_fail(c, operand, &err);
    } else if (paths.count > 0) {
        cli_warn_problems(c, global, operand);
        cli_close(c, global);
        for (size_t i = 0; i < paths.count && !cli_stopped(c); i++) {
            verify(c, paths.items[i]);
        }
    } else {
        verify(c, operand);
    }
    cli_strings_reset(&paths);
}

/* ---------------------------------------------------------------- record */

static void tell_recorded(cli *c, const char *path, uint32_t kinds, size_t tensors, bool beside,
                          sft_edit_way way) {
    const bool crc = (kinds & SFT_DIGEST_CRC32C) != 0;
    const bool sha = (kinds & SFT_DIGEST_SHA256) != 0;
    const char *where = beside                       ? "beside the file"
                        : way == SFT_EDITED_IN_PLACE ? "in place"
                        : way == SFT_EDITED_NEW_FILE ? "by a new file"
                                                     : "as they were";
    cli_json j;

    if (!c->json) {
        cli_put_escaped(&c->out, path, strlen(path));
        cli_printf(&c->out, ": recorded %s%s%s of %llu tensors %s\n", crc ? "crc32c" : "",
                   crc && sha ? " and " : "", sha ? "sha256" : "", (unsigned long long)tensors,
                   where);
        return;
    }
    cli_json_begin(&j, &c->out);
    cli_json_field_string(&j, "file", path);
    cli_json_field_open(&j, "recorded", '[');
    if (crc) {
        cli_json_string(&j, "crc32c");
    }
    if (sha) {
        cli_json_string(&j, "sha256");
    }
    cli_json_close(&j, ']');
    cli_json_field_u64(&j, "tensors", tensors);
    cli_json_field_string(&j, "where", where);
    cli_json_end(&j);
}

/* Digests belong to files: those of a directory or index are done one by one. */
static void record_operand(cli *c, const char *operand, uint32_t kinds) {
    const bool beside = cli_flag(c, "manifest");
    sft_catalog *catalog;

    if (strcmp(operand, "-") == 0) {
        cli_usage(c, "digests cannot be recorded in standard input");
        return;
    }
    if (!cli_open(c, operand, 0, &catalog)) {
        return;
    }
    for (size_t i = 0; i < sft_catalog_file_count(catalog) && !cli_stopped(c); i++) {
        const char *path = sft_catalog_file_at(catalog, i)->path;
        size_t tensors;
        sft_edit_way way;
        if (cli_record_digests(c, path, kinds, beside, &tensors, &way)) {
            tell_recorded(c, path, kinds, tensors, beside, way);
        }
    }
    sft_catalog_close(catalog); /* the edit itself looks for other writers */
}

static void run(cli *c) {
    const char *record = cli_text(c, "record");
    uint32_t kinds = 0;

    if (record != NULL && !cli_record_kinds(c, record, &kinds)) {
        return;
    }
    if (c->processes != NULL && (record != NULL || cli_flag(c, "replicas"))) {
        cli_usage(c, "--record and --replicas are done by one process: safetensors verify");
        return;
    }
    if (record != NULL && (cli_flag(c, "same") || cli_flag(c, "replicas"))) {
        cli_usage(c, "--record does not go with --same or --replicas");
        return;
    }
    if (record == NULL && (cli_flag(c, "manifest") || c->force)) {
        cli_usage(c, "--%s goes with --record", c->force ? "force" : "manifest");
        return;
    }
    if (cli_flag(c, "same")) {
        cli_verify_same(c);
        return;
    }
    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        if (cli_flag(c, "replicas")) {
            cli_verify_replicas(c, c->operands[i]);
        } else if (record != NULL) {
            record_operand(c, c->operands[i], kinds);
        } else {
            verify_operand(c, c->operands[i]);
        }
    }
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_TEXT, "record", 0, "LIST",
                "compute and record crc32c, sha256 or crc32c,sha256 of each tensor"),
    CLI_OPT_FLAG("same", 0,
                 "compare the operands with each other: the same weights in other files, or cut "
                 "otherwise among ranks?"),
    CLI_OPT_FLAG("replicas", 0,
                 "of a checkpoint of many ranks: compare all copies of each part, byte by byte"),
    CLI_OPT_FLAG("manifest", 0,
                 "record beside the file, in PATH.digests.json, and leave the file alone"),
    CLI_OPT_END,
};

const cli_command cli_cmd_verify = {
    .name = "verify",
    .operands = "FILE...",
    .summary = "check data against recorded digests, or record them",
    .description =
        "Compares every tensor with the digests that were recorded in the file's metadata (by cp "
        "--digests, verify --record, or a program that saves with digests) or beside it in "
        "FILE.digests.json, and the whole file with MindSpore's crc_num, where its metadata have "
        "one. Names each damaged tensor and its bytes. Whether the file is well-formed at all is "
        "what check says.\n\n"
        "--record puts digests into a file that has none (-f: replaces them); the data section "
        "stays as it is. A directory or index means each of its files.\n\n"
        "--same looks at no digests: it computes the content hash of each operand (as hash "
        "--content) and says whether it is that of the first. --replicas compares what ranks hold "
        "twice.\n\n"
        "The exit status is 0 only if every tensor was compared and is the same; 1 if one is "
        "damaged, or if there is nothing to compare with.\n\n"
        "--json writes one object per operand: schema, file, verified, checked, unlisted (tensors "
        "in files without digests), damaged (name, file, file_offsets, message), error; with "
        "--record: schema, file, recorded, tensors, where.",
    .examples = "safetensors verify --record crc32c model.safetensors # once\n"
                "safetensors verify model.safetensors # later, as often as you like\n"
                "safetensors verify --same model/ output/checkpoint --layout strategy/\n"
                "safetensors verify --record sha256 --manifest model/ # leaves the files alone",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS |
              CLI_WITH_EXPLAIN | CLI_WITH_SIZES | CLI_WITH_RANKS | CLI_WITH_GROUP,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
