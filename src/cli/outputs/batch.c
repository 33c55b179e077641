/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/batch.c - see batch.h.
 */
#include "cli/outputs/batch.h"
#include "cli/group.h"
#include "cli/look/verify.h"
#include "cli/operands/names.h"
#include "cli/operands/ranks.h"
#include "cli/operands/siblings.h"
#include "cli/operands/url.h"
#include "cli/outputs/lost.h"
#include "cli/outputs/older.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include "cli/ui/text.h"
#include "cli/work.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the list */

bool cli_batch_init(cli_batch *b, cli *c, const char *source) {
    memset(b, 0, sizeof *b);
    b->c = c;
    b->source = source;
    b->target = cli_text(c, "output");
    if (b->target == NULL) {
        cli_usage(c, "-o OUT says where to");
        return false;
    }
    if (strcmp(b->target, "-") == 0) {
        cli_usage(c,
                  "-o -: files are written in any order, and renamed, which no pipe can; "
                  "safetensors cp %s - writes one to standard output",
                  source);
        return false;
    }
    if (b->target[0] == '\0') {
        cli_usage(c, "-o: an empty name");
        return false;
    }
    return cli_config_begin(c);
}

void cli_batch_reset(cli_batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        free((void *)(uintptr_t)b->files[i].name);
        free((void *)(uintptr_t)b->files[i].tensors);
    }
    for (size_t i = 0; i < b->text_count; i++) {
        free((void *)(uintptr_t)b->texts[i].name);
        free((void *)(uintptr_t)b->texts[i].data);
    }
    for (size_t i = 0; b->carried != NULL && i < CLI_BATCH_CARRIED * b->count; i++) {
        free((void *)(uintptr_t)b->carried[i].value);
    }
    free(b->carried);
    for (size_t i = 0; b->aliases != NULL && i < b->count; i++) {
        free(b->aliases[i]);
        free(b->records[i]);
    }
    free(b->aliases);
    free(b->records);
    free(b->together[0]);
    free(b->together[1]);
    free(b->files);
    free(b->texts);
    free(b->owned_directory);
    free(b->owned_target);
    cli_chosen_end(b->chosen);
}

bool cli_batch_to_directory(cli_batch *b) {
    b->directory = b->target;
    return true;
}

/* The file that a link leads to is the one that is replaced. */
static bool follow(cli_batch *b) {
    b->owned_target = cli_sys_is_link(b->target) ? cli_sys_real(b->target) : NULL;
    if (b->owned_target != NULL) {
        b->target = b->owned_target;
    } else if (cli_sys_is_link(b->target)) {
        CLI_FAIL(b->c, b->target, SFT_E_PATH, "is a link that leads nowhere");
        return false;
    }
    return true;
}

const char *cli_batch_to_file(cli_batch *b) {
    const char *base = cli_base_name(b->target);

    if (*base == '\0' || *base == '.' || cli_sys_kind(b->target) == CLI_KIND_DIRECTORY) {
        cli_usage(b->c, "-o \"%s\": the name of a file is needed, not a hidden one", b->target);
        return NULL;
    }
    if (cli_lost_ending(b->c, b->target, false) || !follow(b)) {
        return NULL;
    }
    base = cli_base_name(b->target);
    const size_t len = (size_t)(base - b->target);
    b->owned_directory = len == 0 ? cli_copy_of(".") : cli_copy_bytes(b->target, len);
    b->directory = b->owned_directory;
    return base;
}

sft_job_file *cli_batch_file(cli_batch *b, const char *name, const sft_catalog *catalog,
                             uint32_t *tensors, size_t count) {
    b->files = cli_resize(b->files, b->count + 1, sizeof *b->files);
    sft_job_file *f = &b->files[b->count++];
    memset(f, 0, sizeof *f);
    f->name = cli_copy_of(name);
    f->catalog = catalog;
    f->tensors = tensors;
    f->tensor_count = count;
    f->flags = SFT_JOB_FILE_METADATA;
    return f;
}

void cli_batch_text(cli_batch *b, const char *name, char *data, size_t size) {
    b->texts = cli_resize(b->texts, b->text_count + 1, sizeof *b->texts);
    b->texts[b->text_count++] = (sft_job_text){cli_copy_of(name), data, size};
}

/* ---------------------------------------------------------------- the source */

void cli_batch_number_add(cli_batch *b, const char *key, uint64_t value) {
    b->more[b->more_count++] = (cli_batch_number){key, value};
}

void cli_batch_lacks(cli_batch *b, const sft_catalog *catalog) {
    static const char key[] = "tensors_left_out";
    uint64_t missing = 0;
    size_t at = 0;

    for (size_t i = 0; i < sft_catalog_problem_count(catalog); i++) {
        missing += sft_catalog_problem_at(catalog, i)->kind == SFT_PROBLEM_MISSING_TENSOR;
    }
    cli_warn_problems(b->c, catalog, b->source);
    b->left_out += missing + cli_lost_problems(b->c, catalog);
    if (cli_flag(b->c, "partial")) {
        while (at < b->more_count && strcmp(b->more[at].key, key) != 0) {
            at++;
        }
        if (at == b->more_count) {
            cli_batch_number_add(b, key, 0);
        }
        b->more[at].value += missing;
    }
}

bool cli_batch_took(cli_batch *b, sft_catalog **catalog) {
    cli_batch_lacks(b, *catalog);
    return cli_chosen_use(b->c, b->source, catalog, &b->chosen) &&
           cli_names_use(b->c, b->source, catalog);
}

bool cli_batch_open(cli_batch *b, sft_catalog **out) {
    cli *c = b->c;
    const char *layout = cli_text(c, "source-layout");
    sft_error err;

    if (layout == NULL) {
        return cli_open(c, b->source, 0, out) && cli_batch_took(b, out);
    }
    if (cli_open_sharded(c, b->source, layout, cli_number(c, "source-ranks", 0), out, &err) !=
        SFT_OK) {
        cli_fail_plainly(c, b->source, &err);
        return false;
    }
    return cli_batch_took(b, out);
}

bool cli_batch_fits(cli_batch *b, const char *option, sft_layout_set *set,
                    const sft_catalog *global) {
    cli *c = b->c;
    sft_layout_fit fit;
    char text[256];
    sft_error err;

    if (!cli_names_bind(c, b->source, set, global)) {
        return false;
    }
    SFT_INIT(&fit);
    if (sft_layout_set_fit(set, global, &fit, &err) != SFT_OK && !cli_flag(c, "allow-replicated")) {
        cli_fail(c, cli_text(c, option), &err);
        return false;
    }
    if (cli_ranks_unmatched(text, sizeof text, c, &fit)) {
        cli_warn(c, cli_text(c, option), "%s", text);
    }
    cli_batch_number_add(b, "entries_unmatched", fit.entries_unmatched);
    cli_batch_number_add(b, "tensors_unmatched", fit.tensors_unmatched);
    cli_batch_number_add(b, "bytes_unmatched", fit.bytes_unmatched);
    return true;
}

/* ---------------------------------------------------------------- telling */

static void json_cost(cli_json *j, const sft_job_cost *cost) {
    cli_json_field_u64(j, "bytes", cost->bytes);
    cli_json_field_u64(j, "header_bytes", cost->header_bytes);
    cli_json_field_u64(j, "tensors", cost->tensors);
    cli_json_field_u64(j, "runs", cost->runs);
    cli_json_field_u64(j, "sources", cost->sources);
    cli_json_field_u64(j, "bytes_read", cost->bytes_read);
    cli_json_field_u64(j, "cost", cost->cost);
}

static sft_status plan_line(void *ctx, const sft_job_cost *cost, sft_error *err) {
    cli *c = ctx;
    cli_json j;

    (void)err;
    cli_json_init(&j, &c->out);
    cli_json_open(&j, '{');
    cli_json_field_string(&j, "file", cost->name);
    json_cost(&j, cost);
    cli_json_end(&j);
    return SFT_OK;
}

/* Tensors that --names, --select or --drop leaves out. */
static uint64_t dropped(const cli_batch *b) {
    const sft_catalog *opened = cli_as_opened(b->c, b->named);
    const size_t before =
        opened != NULL ? sft_catalog_count(opened) : 0; /* NULL: of each file alone */
    const size_t now = b->named != NULL ? sft_catalog_count(b->named) : 0;

    return before > now ? before - now : 0;
}

static void json_more(cli_json *j, const cli_batch *b) {
    for (size_t i = 0; i < b->more_count; i++) {
        cli_json_field_u64(j, b->more[i].key, b->more[i].value);
    }
    if (b->named != NULL || b->carries) {
        cli_lost_json(b->c, j, b->alias_count, b->left_out + cli_lost_count_all(b->c) + dropped(b));
    }
}

/* Weights beside those of the model. */
static void tell_siblings(const cli_batch *b) {
    if (b->named != NULL) {
        cli_siblings_tell(b->c, b->source, b->target, b->named);
    }
}

static void print_plan(cli_batch *b, const sft_job *job) {
    sft_job_cost total;
    uint8_t key[32];
    char hex[65];
    cli_json j;

    tell_siblings(b);
    (void)sft_job_plan(job, plan_line, b->c, NULL); /* its visitor never fails */
    sft_job_total(job, &total);
    sft_job_key(job, key);
    cli_json_init(&j, &b->c->out);
    cli_json_open(&j, '{');
    cli_json_field_u64(&j, "files", b->count + b->text_count);
    json_cost(&j, &total);
    json_more(&j, b);
    cli_json_field_string(&j, "key", cli_hex(hex, key, sizeof key));
    cli_json_end(&j);
}

static void print_json(cli_batch *b, const sft_job *job, const sft_job_result *r) {
    sft_job_cost total;
    cli_json j;

    sft_job_total(job, &total);
    cli_json_begin(&j, &b->c->out);
    cli_json_field_string(&j, "source", b->source);
    cli_json_field_string(&j, "target", b->target);
    cli_json_field_u64(&j, "files", b->count + b->text_count);
    cli_json_field_u64(&j, "tensors", total.tensors);
    cli_json_field_u64(&j, "bytes", total.bytes);
    cli_json_field_u64(&j, "bytes_written", r->bytes_written);
    cli_json_field_u64(&j, "bytes_read", r->bytes_read);
    cli_json_field_u64(&j, "bytes_kept", r->bytes_kept);
    json_more(&j, b);
    cli_json_field_bool(&j, "published", r->published != 0);
    cli_json_end(&j);
}

static void print_text(cli_batch *b, const sft_job *job, const sft_job_result *r) {
    cli *c = b->c;
    sft_job_cost total;
    char size[32];
    char kept[32];

    if (c->quiet) {
        return;
    }
    sft_job_total(job, &total);
    cli_printf(&c->out, "%llu %s, %s, in %llu %s", (unsigned long long)total.tensors,
               total.tensors == 1 ? "tensor" : "tensors", cli_size(size, total.bytes, c->units),
               (unsigned long long)b->count, b->count == 1 ? "file" : "files");
    if (r->bytes_kept > 0) {
        cli_printf(&c->out, "; %s kept of an earlier run", cli_size(kept, r->bytes_kept, c->units));
    }
    cli_puts(&c->out, r->published != 0 ? "\n" : "; other tasks are not done yet\n");
}

/* ---------------------------------------------------------------- the run */

static bool parse_task(cli *c, sft_job_run_options *o) {
    const char *text = cli_text(c, "task");
    uint64_t numbers[2] = {0, 0};

    if (text == NULL) {
        return true;
    }
    if (strcmp(text, "finish") == 0) {
        o->flags |= SFT_JOB_FINISH;
        return true;
    }
    const char *slash = strchr(text, '/');
    if (slash != NULL && slash - text < 10) {
        char first[16];
        memcpy(first, text, (size_t)(slash - text));
        first[slash - text] = '\0';
        if (cli_parse_bytes(first, false, &numbers[0]) &&
            cli_parse_bytes(slash + 1, false, &numbers[1]) && numbers[0] >= 1 &&
            numbers[0] <= numbers[1] && numbers[1] < UINT32_MAX) {
            o->task = (uint32_t)numbers[0];
            o->tasks = (uint32_t)numbers[1];
            return true;
        }
    }
    cli_usage(c, "--task: \"%s\" is neither K/N, with K from 1 to N, nor finish", text);
    return false;
}

/* Several files into the directory that is read, or whose index is: a run that is killed between two
 * renames would leave a directory which opens no more as what the plan was made of. */
static bool fills_its_source(const cli_batch *b) {
    if (b->count + b->text_count < 2 || strcmp(b->source, "-") == 0 || cli_is_url(b->source)) {
        return false;
    }
    if (cli_sys_kind(b->source) == CLI_KIND_DIRECTORY) {
        return cli_sys_same_file(b->source, b->directory);
    }
    if (!cli_ends_with(b->source, ".json")) {
        return false;
    }
    const size_t base = (size_t)(cli_base_name(b->source) - b->source);
    char *directory = base > 0 ? cli_copy_bytes(b->source, base) : cli_copy_of(".");
    const bool same = cli_sys_same_file(directory, b->directory);
    free(directory);
    return same;
}

/* One file over one of several that are read: what is left of these would be a model no more. */
static bool is_over_part(const cli_batch *b) {
    const sft_catalog *source = b->named != NULL ? cli_as_opened(b->c, b->named) : NULL;
    const size_t count = source != NULL ? sft_catalog_file_count(source) : 0;

    if (b->owned_directory == NULL || count < 2 || cli_sys_kind(b->target) != CLI_KIND_FILE) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const char *path = sft_catalog_file_at(source, i)->path;
        if (!cli_is_url(path) && cli_sys_same_file(path, b->target)) {
            cli_usage(b->c, "-o \"%s\" is one of the files that are read: another one is needed",
                      b->target);
            return true;
        }
    }
    return false;
}

/* Whole tensors or parts of them: the open source whose bytes they are. */
static sft_status look_at_source(cli_batch *b, sft_error *err) {
    cli *c = b->c;
    const sft_catalog *source = cli_as_opened(c, b->named);
    cli_share share = {NULL, 0, 1};

    if (c->processes != NULL) {
        share = (cli_share){NULL, c->processes->group->rank, c->processes->group->size};
    }
    return cli_source_holds(c, b->source, source, &share, err);
}

/* The same for tasks: the one that publishes looks at all of it. */
static sft_status prove_source(void *ctx, sft_error *err) {
    cli_batch *b = ctx;
    const char *label = b->c->progress.label;
    const sft_status status = look_at_source(b, err);
    (void)cli_control(b->c, label);
    return status;
}

/* What the source records of its bytes is true of them, or nothing new is recorded. */
static bool source_holds(cli_batch *b) {
    sft_error err;
    const sft_status status = cli_group_agree(b->c, look_at_source(b, &err), &err);

    if (status != SFT_OK) {
        cli_fail(b->c, b->source, &err);
    }
    return status == SFT_OK;
}

static void carry_out(cli_batch *b, const sft_job *job, const char *label) {
    cli *c = b->c;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;

    SFT_INIT(&o);
    SFT_INIT(&result);
    if (!parse_task(c, &o)) {
        return;
    }
    o.pool = cli_pool(c);
    o.memory_bytes = cli_number(c, "memory", 0);
    o.durability = cli_flag(c, "no-sync") ? SFT_DURABLE_NONE : SFT_DURABLE_FULL;
    o.flags |= (c->force ? SFT_JOB_REPLACE : 0) | (cli_flag(c, "restart") ? SFT_JOB_RESTART : 0) |
               (cli_flag(c, "verify") ? SFT_JOB_VERIFY : 0);
    o.control = cli_control(c, label);
    if (b->records_new && (o.tasks > 0 || (o.flags & SFT_JOB_FINISH) != 0)) {
        o.proof = prove_source;
        o.proof_ctx = b;
    }
    const sft_status status = c->processes != NULL
                                  ? cli_group_run(c, job, b->directory, &o, &result, &err)
                                  : sft_job_run(job, b->directory, &o, &result, &err);
    cli_control_end(c);
    if (status == SFT_OK) {
        cli_chosen_tell(b->chosen, b->target);
        tell_siblings(b);
    }
    if (status != SFT_OK) {
        const int before = c->status;
        cli_fail_plainly(c, b->target, &err);
        if (status == SFT_E_STATE) { /* another process, or a task that is missing: no defect */
            c->status = before > CLI_SYSTEM ? before : CLI_SYSTEM;
        }
    } else if (c->json) {
        print_json(b, job, &result);
    } else {
        print_text(b, job, &result);
    }
    b->published = status == SFT_OK && result.published != 0;
    c->proved = status == SFT_OK;
}

/* Is one of the files to write one that an option names to be read? */
static bool is_over_read(const cli_batch *b, const char *const *names, size_t count) {
    bool over = false;

    for (size_t i = 0; i < count && !over; i++) {
        char *path = cli_joined(b->directory, "/", names[i]);
        over = cli_over_read(b->c, path);
        free(path);
    }
    return over;
}

/* What the job writes takes the place of an older model, or is refused. */
static void replace_older(cli_batch *b, const sft_job *job, const char *label) {
    const char **names = cli_alloc(b->count + b->text_count + 1, sizeof *names);
    const bool whole =
        b->owned_directory == NULL; /* the output is the directory, not a file in it */
    cli_older older;
    size_t n = 0;

    for (size_t i = 0; i < b->count; i++) {
        names[n++] = b->files[i].name;
    }
    for (size_t i = 0; i < b->text_count; i++) {
        names[n++] = b->texts[i].name;
    }
    if (is_over_read(b, names, n) || is_over_part(b)) {
        free(names);
        return;
    }
    if (fills_its_source(b)) {
        cli_usage(b->c, "-o \"%s\" is the folder that is read: another one is needed", b->target);
        free(names);
        return;
    }
    bool good = cli_older_find(&older, b->c, b->directory, names, n, whole);
    good = good && cli_older_begin(&older);
    if (good) {
        carry_out(b, job, label);
    }
    cli_older_end(&older, b->published);
    free(names);
}

/* --dry-run is of convert alone. */
static bool plans(const cli *c) {
    return cli_flag(c, "plan") || cli_flag(c, "dry-run");
}

void cli_batch_run(cli_batch *b, const char *label) {
    cli *c = b->c;
    sft_job_options o;
    const sft_limits limits = cli_limits(c);
    sft_job *job;
    sft_error err;

    SFT_INIT(&o);
    o.limits = &limits;
    o.order = b->order;
    if (cli_text(c, "record") != NULL && !cli_record_kinds(c, cli_text(c, "record"), &o.digests)) {
        return;
    }
    b->records_new = o.digests != 0;
    if (b->records_new && !plans(c) && cli_text(c, "task") == NULL && !source_holds(b)) {
        return;
    }
    if (b->carries && o.digests == 0 && !cli_batch_carry(b)) {
        return;
    }
    if (!cli_batch_aliases(b)) {
        return;
    }
    if (b->carries && b->named != NULL) {
        cli_batch_metadata(b);
    }
    if (sft_job_create(&job, b->files, b->count, b->texts, b->text_count, &o, &err) != SFT_OK) {
        cli_fail_plainly(c, b->source, &err);
        return;
    }
    if (plans(c)) {
        print_plan(b, job);
    } else {
        replace_older(b, job, label);
    }
    sft_job_free(job);
}

/* ---------------------------------------------------------------- an index */

void cli_shard_name(char *name, size_t room, uint64_t number, uint64_t of) {
    if (of == 1) {
        (void)snprintf(name, room, "model.safetensors");
    } else {
        (void)snprintf(name, room, "model-%05llu-of-%05llu.safetensors",
                       (unsigned long long)number + 1, (unsigned long long)of);
    }
}

static void line(cli_text_buffer *t, unsigned blanks) {
    static const char spaces[] = "            ";
    cli_text_put(t, "\n");
    cli_text_add(t, spaces, blanks);
}

void cli_text_index(cli_text_buffer *t, const cli_batch *b, size_t count, uint64_t total,
                    unsigned indent) {
    bool any = false;

    cli_text_put(t, "{");
    line(t, indent);
    cli_text_put(t, "\"metadata\": {");
    line(t, 2 * indent);
    cli_text_put(t, "\"total_size\": ");
    cli_text_number(t, total);
    line(t, indent);
    cli_text_put(t, "},");
    line(t, indent);
    cli_text_put(t, "\"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        const sft_job_file *f = &b->files[i];
        for (size_t k = 0; k < f->tensor_count; k++) {
            const sft_tensor *tensor = sft_catalog_at(f->catalog, f->tensors[k]);
            cli_text_put(t, any ? "," : "");
            line(t, 2 * indent);
            cli_text_json(t, tensor->name, tensor->name_len);
            cli_text_put(t, ": ");
            cli_text_json(t, f->name, strlen(f->name));
            any = true;
        }
    }
    if (any) {
        line(t, indent);
    }
    cli_text_put(t, "}");
    line(t, 0);
    cli_text_put(t, "}");
}
