/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/cp.c - cp: copies tensors into a new file, streamed through the library's writer in
 * blocks, so that memory does not depend on sizes. Read cp.h first.
 */
#include "cli/copy/cp.h"
#include "cli/copy/cast_lost.h"
#include "cli/look/verify.h"
#include "cli/operands/siblings.h"
#include "cli/outputs/lost.h"
#include "cli/outputs/older.h"
#include "cli/sys.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_ELEMENTS = 1 << 19, /* written at once: threads wait for each other at the file */
    STEP_ELEMENTS = 1 << 16,  /* read and cast in a core's cache */
    POOL_BYTES = 4 << 20      /* worth more than one thread */
};

/* ---------------------------------------------------------------- copying */

typedef struct copying {
    cli_copy *copy;
    sft_writer *writer;
    cli_cut cut;   /* elements of the items, BLOCK_ELEMENTS at a time */
    bool in_order; /* puts are made one after the other */
    cli_cast_lost *lost;
    uint32_t without; /* features of the processor */
} copying;

/* A slot has room for the bytes of a step, and behind them for the results of a block. */
enum {
    STEP_ROOM = STEP_ELEMENTS * sizeof(double),
    ROOM = STEP_ROOM + BLOCK_ELEMENTS * sizeof(double)
};

typedef struct block {
    size_t item;
    uint64_t first;
    size_t elements;
    uint64_t at_out;
    size_t size_out;
} block;

static block find_block(const copying *k, uint64_t unit) {
    block b;
    cli_cut_find(&k->cut, unit, &b.item, &b.first, &b.elements);
    const cli_item *item = &k->copy->items[b.item];
    b.at_out = cli_bytes_of(item->dtype, b.first);
    b.size_out = (size_t)cli_bytes_of(item->dtype, b.elements);
    return b;
}

static sft_status name_item(const cli_item *item, sft_status status, sft_error *err) {
    if (status != SFT_OK && err->tensor[0] == '\0') {
        const sft_error cause = *err;
        (void)sft_error_at(err, status, cause.offset, item->tensor->name, item->tensor->name_len,
                           "%s", cause.message);
        err->sys = cause.sys;
    }
    return status;
}

/* Elements [at, at + n) of a block: read, cast, looked at. */
static sft_status cast_step(copying *k, const block *b, size_t at, size_t n, cli_slot *slot) {
    const cli_item *item = &k->copy->items[b->item];
    const sft_tensor *t = item->tensor;
    const bool cast = item->dtype->id != t->dtype->id;
    char *out = (char *)slot->room + STEP_ROOM + cli_bytes_of(item->dtype, at);
    char *in = cast ? slot->room : out;
    sft_status status =
        sft_tensor_read_bytes(k->copy->catalog, t, cli_bytes_of(t->dtype, b->first + at), in,
                              (size_t)cli_bytes_of(t->dtype, n), &slot->err);

    if (status == SFT_OK && cast) {
        status = name_item(
            item,
            sft_convert(out, in, n,
                        &(sft_cast){item->dtype, t->dtype, SFT_CONVERT_WITHOUT(k->without)},
                        &slot->err),
            &slot->err);
    }
    if (status == SFT_OK && cast) {
        cli_cast_saw(k->lost, t, item->dtype, in, out, n);
    }
    return status;
}

static sft_status put(const copying *k, const block *b, const cli_slot *slot, sft_error *err) {
    return sft_writer_put(k->writer, (uint32_t)b->item, b->at_out,
                          (const char *)slot->room + STEP_ROOM, b->size_out, err);
}

static sft_status copy_block(void *ctx, uint64_t unit, cli_slot *slot) {
    copying *k = ctx;
    const block b = find_block(k, unit);
    sft_status status = SFT_OK;

    for (size_t at = 0; at < b.elements && status == SFT_OK; at += STEP_ELEMENTS) {
        const size_t left = b.elements - at;
        status = cast_step(k, &b, at, left < STEP_ELEMENTS ? left : STEP_ELEMENTS, slot);
    }
    return status != SFT_OK || k->in_order ? status : put(k, &b, slot, &slot->err);
}

/* Of a copy in order. */
static sft_status merge_block(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    const copying *k = ctx;
    const block b = find_block(k, unit);

    *bytes = b.size_out;
    return put(k, &b, slot, &slot->err);
}

/* What the library copies: tensors that stay as they are. Into a stream all bytes go in order, and
 * casts are made here, so it copies all or nothing there. */
static bool is_copied(const cli_copy *copy, const cli_item *item, bool stream) {
    return stream ? copy->cast == 0 : item->dtype->id == item->tensor->dtype->id;
}

static sft_status copy_plain(cli_copy *copy, sft_writer *writer, bool stream, sft_error *err) {
    const sft_tensor **tensors = cli_alloc(copy->count, sizeof *tensors);

    for (size_t i = 0; i < copy->count; i++) {
        const cli_item *item = &copy->items[i];
        tensors[i] = is_copied(copy, item, stream) ? item->tensor : NULL;
    }
    const sft_status status = sft_writer_copy(writer, copy->catalog, tensors, err);
    free(tensors);
    return status;
}

static void prepare(copying *k, bool stream, uint64_t *bytes) {
    const cli_copy *copy = k->copy;

    cli_cut_init(&k->cut, BLOCK_ELEMENTS);
    for (size_t i = 0; i < copy->count; i++) {
        const cli_item *item = &copy->items[i];
        const bool copied = is_copied(copy, item, stream);
        cli_cut_add(&k->cut, copied ? 0 : cli_elements(item->tensor));
        *bytes += copied ? 0 : item->nbytes;
    }
}

/* Tensors without bytes have no blocks; the writer asks for none. */
static sft_status cast_all(cli_copy *copy, sft_writer *writer, bool stream, bool in_order,
                           sft_error *err) {
    copying *k = cli_alloc(1, sizeof *k);
    uint64_t bytes = 0;

    k->copy = copy;
    k->writer = writer;
    k->in_order = in_order;
    k->lost = cli_cast_watch();
    k->without = cli_without(copy->c);
    prepare(k, stream, &bytes);
    const cli_job job = {.label = "casting",
                         .count = cli_cut_units(&k->cut),
                         .total_bytes = bytes,
                         .room_bytes = ROOM,
                         .work = copy_block,
                         .merge = merge_block,
                         .ctx = k};
    copy->casting = in_order;
    const sft_status status =
        in_order ? cli_run_job(copy->c, &job, err) : cli_run_free(copy->c, &job, err);
    cli_control_end(copy->c);
    if (status == SFT_OK) {
        cli_cast_tell(k->lost, copy->c, copy->target);
    }
    cli_cast_end(k->lost);
    cli_cut_reset(&k->cut);
    free(k);
    return status;
}

static sft_status copy_all(cli_copy *copy, sft_writer *writer, bool stream, bool in_order,
                           sft_error *err) {
    const sft_status status = copy_plain(copy, writer, stream, err);

    if (status == SFT_OK && copy->cast > 0) {
        return cast_all(copy, writer, stream, in_order, err);
    }
    cli_control_end(copy->c);
    return status;
}

/* ---------------------------------------------------------------- writing */

/* The writer counts everything; while a job in order draws, it is only asked to stop. */
typedef struct watching {
    const sft_control *control; /* that draws */
    cli_copy *copy;
} watching;

static int poll_writer(void *ctx, const sft_progress *progress) {
    const watching *w = ctx;
    return w->copy->casting ? cli_stopped(w->copy->c) : w->control->poll(w->control->ctx, progress);
}

static void set_options(const cli_copy *copy, const sft_control *writer, sft_write_options *o) {
    cli *c = copy->c;

    SFT_INIT(o);
    o->order = SFT_ORDER_DECLARED; /* items are in order already */
    o->durability = cli_flag(c, "no-sync") ? SFT_DURABLE_NONE : SFT_DURABLE_FULL;
    o->data_alignment = cli_number(c, "align", 0);
    o->reserve_bytes = cli_number(c, "reserve", 0);
    o->digests = copy->digests;
    o->flags = c->force ? 0 : SFT_WRITE_NEW_ONLY;
    o->control = writer;
    o->pool = copy->data_bytes > POOL_BYTES ? cli_pool(c) : NULL;
}

static bool has_digests_given(const cli_copy *copy) {
    for (size_t i = 0; i < copy->pair_count; i++) {
        if (sft_digest_is_key(copy->pairs[i].key, copy->pairs[i].key_len)) {
            return true;
        }
    }
    return false;
}

/* Digests that the source records go with their bytes. */
static sft_status carry_digests(const cli_copy *copy, sft_writer *writer, sft_error *err) {
    uint32_t lost;

    if (!copy->carry || has_digests_given(copy)) {
        return SFT_OK;
    }
    sft_writer_origin *origins = cli_alloc(copy->count, sizeof *origins);
    for (size_t i = 0; i < copy->count; i++) {
        origins[i] = (sft_writer_origin){copy->catalog, copy->items[i].tensor};
    }
    const sft_status status = sft_writer_carry_digests(writer, origins, &lost, err);
    free(origins);
    if (status == SFT_OK && lost != 0) {
        cli_lost_digests(copy->c, copy->source, lost, "the copy", "--digests");
    }
    return status;
}

static sft_status declare_all(const cli_copy *copy, sft_writer *writer, sft_error *err) {
    sft_status status = SFT_OK;

    if (copy->has_metadata && copy->pair_count == 0) {
        status = sft_writer_metadata(writer, NULL, 0, NULL, 0, err);
    }
    for (size_t i = 0; status == SFT_OK && i < copy->pair_count; i++) {
        const sft_metadata_entry *p = &copy->pairs[i];
        status = sft_writer_metadata(writer, p->key, p->key_len, p->value, p->value_len, err);
    }
    if (status == SFT_OK) {
        status = cli_copy_write_names(copy, writer, err);
    }
    for (size_t i = 0; status == SFT_OK && i < copy->count; i++) {
        const cli_item *item = &copy->items[i];
        status = sft_writer_declare(writer, item->name, item->name_len, item->dtype,
                                    item->tensor->shape, item->tensor->rank, NULL, err);
    }
    if (status == SFT_OK) {
        status = carry_digests(copy, writer, err);
    }
    return status == SFT_OK ? sft_writer_start(writer, err) : status;
}

static sft_status write_copy(cli_copy *copy, uint64_t *file_bytes, sft_error *err) {
    const bool stream = strcmp(copy->target, "-") == 0;
    sft_write_options options;
    sft_writer *writer;
    sft_status status;

    watching watched = {cli_control(copy->c, "copying"), copy};
    const sft_control control = {sizeof control, poll_writer, &watched};
    set_options(copy, &control, &options);
    status = stream ? sft_writer_create_stream(&writer, 1, &options, err)
                    : sft_writer_create(&writer, copy->target, &options, err);
    if (status != SFT_OK) {
        return status;
    }
    status = declare_all(copy, writer, err);
    if (status == SFT_OK) {
        *file_bytes = sft_writer_file_bytes(writer);
        /* SHA-256 of a tensor is computed on the way only if its bytes come in order */
        const bool in_order = stream || (copy->digests & SFT_DIGEST_SHA256) != 0;
        status = copy_all(copy, writer, stream, in_order, err);
    }
    if (status == SFT_OK) {
        status = sft_catalog_unchanged(copy->catalog, err);
    }
    if (status == SFT_OK) {
        status = sft_writer_commit(writer, err);
    }
    sft_writer_free(writer);
    return status;
}

/* ---------------------------------------------------------------- telling */

static void print_plan(const cli_copy *copy) {
    static const char *const titles[] = {"OFFSET", "NAME", "DTYPE", "SHAPE", "SIZE", "FROM"};
    cli *c = copy->c;
    cli_table table;
    char text[CLI_SHAPE_ROOM];
    char size[32];
    uint64_t offset = 0;

    cli_table_init(&table, 6, titles, 1u << 0 | 1u << 4);
    for (size_t i = 0; i < copy->count; i++) {
        const cli_item *item = &copy->items[i];
        const sft_tensor *t = item->tensor;
        cli_table_cell(&table, "%llu", (unsigned long long)offset);
        cli_table_text(&table, item->name, item->name_len);
        cli_table_cell(&table, "%s", item->dtype->name);
        cli_table_cell(&table, "%s", cli_shape(text, t->shape, t->rank));
        cli_table_cell(&table, "%s", cli_size(size, item->nbytes, c->units));
        if (item->dtype->id != t->dtype->id) {
            char from[600];
            const size_t n = sft_escape(from, 512, item->from, item->from_len);
            memcpy(from + n, " as ", 5);
            cli_table_cell(&table, "%s%s", from, t->dtype->name);
        } else {
            cli_table_text(&table, item->from, item->from_len);
        }
        offset += item->nbytes;
    }
    cli_table_print(&table, &c->out, c->color);
    cli_printf(&c->out, "%llu tensors, %s of data; %llu renamed, %llu cast, %llu left out; ",
               (unsigned long long)copy->count, cli_size(size, copy->data_bytes, c->units),
               (unsigned long long)copy->renamed, (unsigned long long)copy->cast,
               (unsigned long long)copy->dropped);
    cli_printf(&c->out, "%llu metadata %s\n", (unsigned long long)copy->pair_count,
               copy->pair_count == 1 ? "entry" : "entries");
}

static void json_tensors(const cli_copy *copy, cli_json *j) {
    uint64_t offset = 0;

    cli_json_field_open(j, "plan", '[');
    for (size_t i = 0; i < copy->count; i++) {
        const cli_item *item = &copy->items[i];
        cli_json_open(j, '{');
        cli_json_field_text(j, "name", item->name, item->name_len);
        cli_json_field_string(j, "dtype", item->dtype->name);
        cli_json_field_shape(j, "shape", item->tensor->shape, item->tensor->rank);
        cli_json_field_range(j, "data_offsets", offset, offset + item->nbytes);
        cli_json_field_text(j, "from_name", item->from, item->from_len);
        cli_json_field_string(j, "from_dtype", item->tensor->dtype->name);
        cli_json_close(j, '}');
        offset += item->nbytes;
    }
    cli_json_close(j, ']');
}

static void print_json(const cli_copy *copy, bool planned, uint64_t file_bytes) {
    cli_json j;

    cli_json_begin(&j, &copy->c->out);
    cli_json_field_string(&j, "source", copy->source);
    cli_json_field_string(&j, "target", copy->target);
    cli_json_field_u64(&j, "tensors", copy->count);
    cli_json_field_u64(&j, "data_bytes", copy->data_bytes);
    cli_json_field_u64(&j, "renamed", copy->renamed);
    cli_json_field_u64(&j, "cast", copy->cast);
    cli_lost_json(copy->c, &j, copy->carry ? copy->other_count : 0,
                  copy->dropped + copy->orphans + cli_lost_count_all(copy->c));
    cli_json_field_u64(&j, "metadata_entries", copy->pair_count);
    if (planned) {
        json_tensors(copy, &j);
    } else {
        cli_json_field_u64(&j, "file_bytes", file_bytes);
    }
    cli_json_end(&j);
}

/* ---------------------------------------------------------------- command */

static bool is_plan(const cli *c) {
    return cli_flag(c, "plan") || cli_flag(c, "dry-run");
}

static bool parse_digests(cli_copy *copy) {
    const char *text = cli_text(copy->c, "digests");

    if (text != NULL && *(text = cli_digest_kinds(text, &copy->digests)) != '\0') {
        cli_usage(copy->c, "--digests: \"%s\" is not crc32c, sha256 or crc32c,sha256", text);
        return false;
    }
    return true;
}

static bool check_options(cli_copy *copy) {
    cli *c = copy->c;
    const bool stream = strcmp(copy->target, "-") == 0;

    if (!parse_digests(copy) || cli_lost_ending(c, copy->target, false) ||
        (!stream && cli_over_read(c, copy->target))) {
        return false;
    }
    if (stream && copy->digests != 0) {
        cli_usage(c, "digests are known only after the data: they cannot go into a stream");
    } else if (stream && c->json && !is_plan(c)) {
        cli_usage(c, "--json and a copy to standard output exclude each other");
    } else if (stream && cli_sys_is_terminal(1) && !c->force && !is_plan(c)) {
        cli_usage(c, "standard output is a terminal: give a file, or -f if you mean it");
    } else if (!stream && strcmp(copy->source, "-") != 0 && !c->force && !is_plan(c) &&
               cli_sys_same_file(copy->source, copy->target)) {
        cli_usage(c, "\"%s\" and \"%s\" are the same file; -f replaces it", copy->source,
                  copy->target);
    } else {
        return true;
    }
    return false;
}

/* What SRC records of the tensors that go on is true of them, or nothing new is recorded. */
static bool source_holds(const cli_copy *copy) {
    uint8_t *chosen = cli_alloc(sft_catalog_count(copy->catalog) + 1, 1);
    const cli_share share = {chosen, 0, 1};
    sft_error err;

    for (size_t i = 0; i < copy->count; i++) {
        chosen[sft_catalog_index_of(copy->catalog, copy->items[i].tensor)] = 1;
    }
    const sft_status status = cli_source_holds(copy->c, copy->source, copy->catalog, &share, &err);
    free(chosen);
    if (status != SFT_OK) {
        cli_fail(copy->c, copy->source, &err);
    }
    return status == SFT_OK;
}

static void run_copy(cli_copy *copy) {
    cli *c = copy->c;
    uint64_t file_bytes = 0;
    char text[32];
    sft_error err;

    if (!cli_copy_choose(copy) || !cli_copy_order(copy) || !cli_copy_metadata(copy)) {
        return;
    }
    const bool stream = strcmp(copy->target, "-") == 0;
    if (is_plan(c)) {
        cli_siblings_tell(c, copy->source, copy->target, copy->catalog);
        if (c->json) {
            print_json(copy, true, 0);
        } else {
            print_plan(copy);
        }
        return;
    }
    if (copy->digests != 0 && !source_holds(copy)) {
        return;
    }
    cli_older older = {.c = c};
    bool good = stream ||
                cli_sys_kind(copy->target) == CLI_KIND_DIRECTORY || /* which the writer refuses */
                (cli_older_find_set(&older, c, copy->target, 1) && cli_older_begin(&older));
    if (good && write_copy(copy, &file_bytes, &err) != SFT_OK) {
        cli_fail(c, stream ? "standard output" : copy->target, &err);
        good = false;
    }
    cli_older_end(&older, good);
    c->proved = good;
    if (!good) {
        return;
    }
    cli_siblings_tell(c, copy->source, copy->target, copy->catalog);
    if (c->json) {
        print_json(copy, false, file_bytes);
    }
    cli_note(c, copy->target, "%llu tensors, %s", (unsigned long long)copy->count,
             cli_size(text, file_bytes, c->units));
}

static void run(cli *c) {
    cli_copy copy = {.c = c, .source = c->operands[0], .target = c->operands[1]};
    sft_catalog *catalog;

    if (!check_options(&copy) || !cli_open(c, copy.source, 0, &catalog)) {
        return;
    }
    cli_warn_problems(c, catalog, copy.source);
    copy.orphans = cli_lost_problems(c, catalog);
    copy.catalog = catalog;
    run_copy(&copy);
    cli_copy_reset(&copy);
    cli_close(c, catalog);
}

static const cli_opt options[] = {
    CLI_CHOOSE_OPTIONS,
    CLI_OPT_ARG(CLI_LIST, "rename", 'r', "OLD=NEW",
                "rename; * or {} in OLD catches text that * or {} in NEW puts back, {2} the second "
                "piece; the first rule that fits a name counts"),
    CLI_OPT_ARG(CLI_LIST, "cast", 'c', "[PATTERN=]DTYPE",
                "change the element type of tensors that match; without a pattern, of all "
                "floating-point tensors; later ones count"),
    CLI_OPT_ARG(
        CLI_TEXT, "order", 0, "ORDER",
        "reference (by type, then name), declared (as in SRC), or a file with a name per line"),
    CLI_OPT_ARG(CLI_LIST, "metadata", 'm', "WHAT", "keep (default), drop, or KEY=VALUE to set"),
    CLI_OPT_ARG(CLI_BYTES, "align", 0, "N", "begin the data section at a multiple of N"),
    CLI_OPT_ARG(CLI_BYTES, "reserve", 0, "N", "leave N bytes for later metadata edits in place"),
    CLI_OPT_ARG(CLI_TEXT, "digests", 0, "LIST",
                "record crc32c, sha256 or crc32c,sha256 of each tensor, for verify"),
    CLI_OPT_FLAG("durable", 0, "wait until the copy is on the disk (default)"),
    CLI_OPT_FLAG("no-sync", 0, "do not wait for the disk"),
    CLI_PLAN_OPTIONS,
    CLI_OPT_END,
};

const cli_command cli_cmd_cp = {
    .name = "cp",
    .operands = "SRC DST",
    .summary = "copy tensors into a new file: select, drop, rename, cast, reorder",
    .description =
        "SRC is a file, directory, index or -; a model of several files becomes one file. DST is a "
        "file, or - for standard output. DST appears complete or not at all, also when the copy is "
        "interrupted; one that exists is replaced only with -f, even if it is SRC.\n\n"
        "Without options the copy has the same tensors, order and metadata. When types are cast or "
        "SRC has several files, the order is the reference's (by type, then name), which keeps "
        "tensors aligned; --order decides otherwise. Metadata keys are written sorted. Two tensors "
        "that would get the same name are an error.\n\n"
        "Casts are those of torch's Tensor.to(). Finite values that a narrower type cannot hold "
        "are counted in a warning.\n\n"
        "Other names of tensors, which SRC records or shares storage by, go on with their tensors; "
        "--select, --drop and --rename see every name, and of a tensor whose own name is left out "
        "the next becomes its name.\n\n"
        "--json writes schema, source, target, tensors, data_bytes, file_bytes, renamed, cast, "
        "aliases, left_out, left_out_parts, metadata_entries; with --plan instead of file_bytes "
        "plan: an array of name, dtype, shape, data_offsets, from_name, from_dtype.",
    .examples =
        "safetensors cp model/ model.safetensors # shards into one file\n"
        "safetensors cp in.safetensors out.safetensors --cast bf16 --cast '*norm*=F32'\n"
        "safetensors cp in.safetensors out.safetensors --select 'model.*' --rename 'model.*=*'\n"
        "safetensors cp in.safetensors out.safetensors -r 'h.{}.{}=layers.{}.{}' --plan",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS |
              CLI_WITH_EXPLAIN | CLI_WITH_SIZES | CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
