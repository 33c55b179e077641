/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/hash.c - hash: digests of files, data sections, tensors and contents. Read hash.h first.
 */
#include "cli/look/hash.h"
#include "cli/sys.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

enum { HEX = 65, STREAM_BLOCK = 1 << 18 };

static uint32_t wanted_by(const cli *c) {
    static const struct {
        const char *name;
        uint32_t bits;
    } flags[] = {{"whole", CLI_HASH_WHOLE},     {"data", CLI_HASH_DATA},
                 {"auto", CLI_HASH_AUTO},       {"content", CLI_HASH_CONTENT},
                 {"tensors", CLI_HASH_TENSORS}, {"all", 31u}};
    uint32_t bits = 0;

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bits |= cli_flag(c, flags[i].name) ? flags[i].bits : 0;
    }
    return bits != 0 ? bits : CLI_HASH_WHOLE | CLI_HASH_DATA | CLI_HASH_AUTO | CLI_HASH_CONTENT;
}

/* ---------------------------------------------------------------- lines as of sha256sum */

/* "HEX  NAME" as GNU writes and reads it: a name with a backslash or a line break makes the line begin with a
 * backslash, and has \\, \n and \r for them; all other bytes stay as they are, for programs. On a terminal
 * what could deceive is escaped. */
static void put_line(cli_out *o, const uint8_t digest[32], const char *name, size_t len) {
    char hex[HEX];
    bool special = false;

    for (size_t i = 0; i < len; i++) {
        special = special || name[i] == '\\' || name[i] == '\n' || name[i] == '\r';
    }
    cli_puts(o, special ? "\\" : "");
    cli_puts(o, cli_hex(hex, digest, 32));
    cli_puts(o, "  ");
    if (cli_sys_is_terminal(o->fd)) {
        cli_put_escaped(o, name, len);
        len = 0;
    }
    for (size_t i = 0; i < len; i++) {
        const char *text = name[i] == '\\'   ? "\\\\"
                           : name[i] == '\n' ? "\\n"
                           : name[i] == '\r' ? "\\r"
                                             : NULL;
        cli_put(o, text != NULL ? text : name + i, text != NULL ? 2 : 1);
    }
    cli_put(o, "\n", 1);
}

static void put_tensors(cli *c, const sft_catalog *catalog, const cli_hashes *h,
                        const char *indent) {
    char hex[HEX];

    for (size_t i = 0; i < sft_catalog_count(catalog) && !cli_stopped(c); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        cli_printf(&c->out, "%s%s  ", indent, cli_hex(hex, h->tensors[i], 32));
        cli_put_escaped(&c->out, t->name, t->name_len);
        cli_put(&c->out, "\n", 1);
    }
}

/* ---------------------------------------------------------------- blocks */

static void put_digest(cli_out *o, const char *label, const uint8_t *digest, size_t size) {
    char hex[HEX];
    cli_printf(o, "  %-8s  %s\n", label, cli_hex(hex, digest, size));
}

static void put_file(cli_out *o, const cli_file_hash *f, uint32_t wanted) {
    if ((wanted & CLI_HASH_WHOLE) != 0) {
        put_digest(o, "sha256", f->whole, 32);
    }
    if ((wanted & CLI_HASH_DATA) != 0) {
        put_digest(o, "data", f->data, 32);
    }
    if ((wanted & CLI_HASH_AUTO) != 0) {
        put_digest(o, "AutoV1", f->window, 4);
        put_digest(o, "AutoV2", f->whole, 5);
        put_digest(o, "AutoV3", f->data, 6);
    }
}

static void put_name(cli_out *o, const char *name) {
    cli_put_escaped(o, name, strlen(name));
    cli_put(o, "\n", 1);
}

static void print_blocks(cli *c, const char *operand, const sft_catalog *catalog, uint32_t wanted,
                         const cli_hashes *h) {
    const size_t files = sft_catalog_file_count(catalog);
    const bool per_file = (wanted & (CLI_HASH_WHOLE | CLI_HASH_DATA | CLI_HASH_AUTO)) != 0;
    cli_out *o = &c->out;

    for (size_t i = 0; files != 1 && per_file && i < files; i++) {
        put_name(o, sft_catalog_file_at(catalog, i)->path);
        put_file(o, &h->files[i], wanted);
    }
    put_name(o, operand);
    if (files == 1 && per_file) {
        put_file(o, &h->files[0], wanted);
    }
    if ((wanted & CLI_HASH_CONTENT) != 0) {
        put_digest(o, "content", h->content, 32);
    }
    if ((wanted & CLI_HASH_TENSORS) != 0) {
        cli_puts(o, "  tensors\n");
        put_tensors(c, catalog, h, "    ");
    }
}

static void print_text(cli *c, const char *operand, const sft_catalog *catalog, uint32_t wanted,
                       const cli_hashes *h) {
    const size_t files = sft_catalog_file_count(catalog);

    if (wanted == CLI_HASH_CONTENT) {
        put_line(&c->out, h->content, operand, strlen(operand));
    } else if (wanted == CLI_HASH_TENSORS && c->operand_count == 1) {
        put_tensors(c, catalog, h, "");
    } else if (wanted == CLI_HASH_WHOLE || wanted == CLI_HASH_DATA) {
        for (size_t i = 0; i < files; i++) {
            const char *path =
                strcmp(operand, "-") == 0 ? "-" : sft_catalog_file_at(catalog, i)->path;
            const cli_file_hash *f = &h->files[i];
            put_line(&c->out, wanted == CLI_HASH_WHOLE ? f->whole : f->data, path, strlen(path));
        }
    } else {
        print_blocks(c, operand, catalog, wanted, h);
    }
}

/* ---------------------------------------------------------------- JSON */

static void json_digest(cli_json *j, const char *key, const uint8_t *digest, size_t size) {
    char hex[HEX];
    cli_json_key(j, key);
    cli_json_string(j, cli_hex(hex, digest, size));
}

static void json_file(cli_json *j, const cli_file_hash *f, uint32_t wanted) {
    if ((wanted & CLI_HASH_WHOLE) != 0) {
        json_digest(j, "sha256", f->whole, 32);
    }
    if ((wanted & CLI_HASH_DATA) != 0) {
        json_digest(j, "data_sha256", f->data, 32);
    }
    if ((wanted & CLI_HASH_AUTO) != 0) {
        json_digest(j, "autov1", f->window, 4);
        json_digest(j, "autov2", f->whole, 5);
        json_digest(j, "autov3", f->data, 32);
        json_digest(j, "autov3_short", f->data, 6);
    }
}

static void json_files(cli_json *j, const sft_catalog *catalog, uint32_t wanted,
                       const cli_hashes *h) {
    const size_t files = sft_catalog_file_count(catalog);

    if (files == 1) {
        json_file(j, &h->files[0], wanted);
        return;
    }
    cli_json_key(j, "files");
    cli_json_open(j, '[');
    for (size_t i = 0; i < files; i++) {
        cli_json_open(j, '{');
        cli_json_key(j, "file");
        cli_json_string(j, sft_catalog_file_at(catalog, i)->path);
        json_file(j, &h->files[i], wanted);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json(cli *c, const char *operand, const sft_catalog *catalog, uint32_t wanted,
                       const cli_hashes *h) {
    cli_json j;

    cli_json_init(&j, &c->out);
    cli_json_open(&j, '{');
    cli_json_key(&j, "schema");
    cli_json_u64(&j, 1);
    cli_json_key(&j, "file");
    cli_json_string(&j, operand);
    if ((wanted & (CLI_HASH_WHOLE | CLI_HASH_DATA | CLI_HASH_AUTO)) != 0) {
        json_files(&j, catalog, wanted, h);
    }
    if ((wanted & CLI_HASH_CONTENT) != 0) {
        json_digest(&j, "content_sha256", h->content, 32);
    }
    if ((wanted & CLI_HASH_TENSORS) != 0) {
        cli_json_key(&j, "tensors");
        cli_json_open(&j, '[');
        for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
            const sft_tensor *t = sft_catalog_at(catalog, i);
            cli_json_open(&j, '{');
            cli_json_key(&j, "name");
            cli_json_text(&j, t->name, t->name_len);
            json_digest(&j, "sha256", h->tensors[i], 32);
            cli_json_close(&j, '}');
        }
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, '}');
    cli_json_newline(&j);
}

/* ---------------------------------------------------------------- command */

/* Reads to the end, wherever that is. */
static sft_status hash_stream(cli *c, int fd, uint8_t digest[32], sft_error *err) {
    char text[160];
    unsigned char *block = cli_alloc(STREAM_BLOCK, 1);
    size_t got = 1;
    int error = 0;
    sft_sha256 s;

    sft_sha256_init(&s);
    s.without = cli_without(c);
    while (error == 0 && got > 0 && !cli_stopped(c)) {
        error = cli_sys_read(fd, block, STREAM_BLOCK, &got);
        sft_sha256_update(&s, block, got);
    }
    sft_sha256_final(&s, digest);
    free(block);
    if (cli_stopped(c)) {
        return sft_error_set(err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "interrupted");
    }
    return error == 0 ? SFT_OK
                      : sft_error_set(err, SFT_E_IO, error, SFT_NO_OFFSET, NULL, 0,
                                      "cannot read: %s", cli_sys_text(error, text, sizeof text));
}

static sft_status hash_bytes(cli *c, const char *operand, uint8_t digest[32], sft_error *err) {
    sft_source *source;
    int fd;

    if (cli_sys_open_stream(operand, &fd)) {
        const uint64_t before = cli_sys_stream_stamp(fd);
        sft_status status = hash_stream(c, fd, digest, err);
        if (status == SFT_OK && cli_sys_stream_stamp(fd) != before) {
            status = sft_error_set(err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                                   "was written to while it was read");
        }
        cli_sys_close_stream(fd);
        return status;
    }
    sft_status status = sft_source_open(&source, operand, SFT_ACCESS_READ, NULL, err);
    if (status == SFT_OK) {
        status = cli_hash_source(c, source, digest, err);
        if (status == SFT_OK) {
            status = sft_source_unchanged(source, err);
        }
        sft_source_close(source);
    }
    return status;
}

/* Only the file's own bytes are asked for: then it may be any file. */
static void hash_any(cli *c, const char *operand) {
    uint8_t digest[32];
    sft_error err;

    if (hash_bytes(c, operand, digest, &err) != SFT_OK) {
        cli_fail(c, operand, &err);
    } else if (c->json) {
        cli_json j;
        cli_json_init(&j, &c->out);
        cli_json_open(&j, '{');
        cli_json_key(&j, "schema");
        cli_json_u64(&j, 1);
        cli_json_key(&j, "file");
        cli_json_string(&j, operand);
        json_digest(&j, "sha256", digest, 32);
        cli_json_close(&j, '}');
        cli_json_newline(&j);
    } else {
        put_line(&c->out, digest, operand, strlen(operand));
    }
}

static void hash_operand(cli *c, const char *operand, uint32_t wanted) {
    sft_catalog *catalog;
    cli_hashes h;
    sft_error err;

    const cli_kind kind = strcmp(operand, "-") == 0 ? CLI_KIND_FILE : cli_sys_kind(operand);
    if (wanted == CLI_HASH_WHOLE && (kind == CLI_KIND_FILE || kind == CLI_KIND_OTHER)) {
        hash_any(c, operand);
        return;
    }
    if (!cli_open(c, operand, 0, &catalog)) {
        return;
    }
    cli_warn_problems(c, catalog, operand);
    if (cli_hash_catalog(c, catalog, wanted, &h, &err) != SFT_OK) {
        cli_fail(c, operand, &err);
    } else if (c->json) {
        print_json(c, operand, catalog, wanted, &h);
    } else {
        print_text(c, operand, catalog, wanted, &h);
    }
    cli_hashes_reset(&h);
    cli_close(c, catalog);
}

static void run(cli *c) {
    const uint32_t wanted = wanted_by(c);
    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        hash_operand(c, c->operands[i], wanted);
    }
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("whole", 0,
                 "SHA-256 of the file; alone: lines as of sha256sum, and any file will do"),
    CLI_OPT_FLAG("data", 0, "SHA-256 of the data section: stays when only metadata is edited"),
    CLI_OPT_FLAG("auto", 0, "AutoV1, AutoV2 and AutoV3, as model sites use them"),
    CLI_OPT_FLAG("content", 0,
                 "hash of names, dtypes, shapes and values: stays when tensors are reordered, "
                 "split into other files, or metadata is edited"),
    CLI_OPT_FLAG("tensors", 0, "SHA-256 of each tensor's bytes"),
    CLI_OPT_FLAG("all", 0, "all of these"),
    CLI_OPT_END,
};

const cli_command cli_cmd_hash = {
    .name = "hash",
    .operands = "FILE...",
    .summary = "digests of files, data sections, tensors and contents",
    .description =
        "Without options: --whole, --data, --auto and --content, all from one pass over "
        "the file.\n\n"
        "AutoV1 is the first 8 digits of the SHA-256 of bytes 0x100000 to 0x110000 of "
        "the file (of no bytes, "
        "if it is shorter); AutoV2 the first 10 of that of the whole file; AutoV3 that "
        "of the data section, "
        "of which 12 digits are customary (--json gives all of them too).\n\n"
        "The content hash is the SHA-256 over, per tensor in byte order of names: "
        "length of the name (8 "
        "bytes, little-endian), name, dtype, a zero byte, number of dimensions and each "
        "of them (8 bytes "
        "each), SHA-256 of the tensor's bytes. Equal content hashes mean equal models, "
        "whatever the files.\n\n"
        "One of --whole, --data, --content or --tensors alone gives lines of digest, "
        "two blanks, name. A "
        "directory or index has one digest of each kind per file, and one content hash.\n\n"
        "--json writes one object per operand: schema, file, sha256, data_sha256, "
        "autov1, autov2, autov3, "
        "autov3_short (for several files inside the array files), content_sha256, "
        "tensors (name, sha256).",
    .examples = "safetensors hash model.safetensors # everything that identifies a model\n"
                "safetensors hash --whole *.safetensors > SHA256SUMS # for sha256sum -c\n"
                "safetensors hash --content model/ merged.safetensors # the same weights?",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS | CLI_WITH_EXPLAIN |
              CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
