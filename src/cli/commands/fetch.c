/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/fetch.c - downloads a model, or some of its tensors. The work is sft_remote_fetch's. Read
 * cmd.h and url.h first.
 */
#include "cli/operands/chosen.h"
#include "cli/operands/names.h"
#include "cli/operands/rank.h"
#include "cli/operands/url.h"
#include "cli/outputs/batch.h"
#include "cli/outputs/beside.h"
#include "cli/outputs/older.h"
#include "cli/ui/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wanted(void *ctx, const sft_tensor *t) {
    return !cli_leaves_out(ctx, t->name, t->name_len);
}

static void print_result(cli *c, const char *operand, const char *directory,
                         const sft_fetch_result *r) {
    char size[32];
    char resumed[32];
    cli_json j;

    if (c->json) {
        cli_json_begin(&j, &c->out);
        cli_json_field_string(&j, "url", operand);
        cli_json_field_string(&j, "folder", directory);
        cli_json_field_u64(&j, "files", r->files);
        cli_json_field_u64(&j, "bytes", r->bytes);
        cli_json_field_u64(&j, "resumed_bytes", r->resumed);
        cli_json_field_u64(&j, "kept_files", r->kept);
        cli_json_field_u64(&j, "verified_files", r->verified);
        cli_json_end(&j);
        return;
    }
    cli_put_escaped(&c->out, directory, strlen(directory));
    cli_printf(&c->out, ": %llu file%s, %s", (unsigned long long)r->files, r->files == 1 ? "" : "s",
               cli_size(size, r->bytes, c->units));
    if (r->resumed > 0) {
        cli_printf(&c->out, ", %s of it from before", cli_size(resumed, r->resumed, c->units));
    }
    if (r->verified > 0) {
        cli_printf(&c->out, ", %llu verified by SHA-256", (unsigned long long)r->verified);
    }
    if (r->kept > 0) {
        cli_printf(&c->out, ", %llu there already", (unsigned long long)r->kept);
    }
    cli_put(&c->out, "\n", 1);
}

/* One rank's slices: a new file of pieces, by the job that slice runs too, with its journal. */
static void fetch_rank(cli *c, const cli_rank *r) {
    sft_catalog *global;
    sft_catalog *part;
    cli_batch b;
    sft_error err;

    if (!cli_batch_init(&b, c, c->operands[0]) || !cli_batch_to_directory(&b)) {
        return;
    }
    if (cli_open(c, c->operands[0], 0, &global)) {
        if (!cli_batch_fits(&b, "layout", r->set, global)) {
            part = NULL;
        } else if (cli_rank_cut(r, global, r->rank, &part, &err) != SFT_OK) {
            cli_fail_plainly(c, c->operands[0], &err);
        } else {
            const size_t count = sft_catalog_count(part);
            uint32_t *tensors = cli_alloc(count + 1, sizeof *tensors);
            size_t n = 0;
            for (uint32_t i = 0; i < count; i++) {
                if (wanted(c, sft_catalog_at(part, i)) != 0) {
                    tensors[n++] = i;
                }
            }
            (void)cli_batch_file(&b, "model.safetensors", part, tensors, n);
            cli_batch_run(&b, "fetch");
            sft_catalog_close(part);
        }
        cli_close(c, global);
    }
    cli_batch_reset(&b);
}

/* The name at the end of a URL, without its query; with `end` in place of
 * -00001-of-00002.safetensors if given. */
static char *name_of(const char *url, const char *end) {
    const size_t len = strcspn(url, "?#");
    size_t base = len;

    while (base > 0 && url[base - 1] != '/') {
        base--;
    }
    size_t stem = len - base;
    if (end != NULL && stem > 27) { /* -00001-of-00002.safetensors */
        stem -= 27;
    }
    char *name = cli_copy_bytes(url + base, stem);
    char *all = cli_joined(name, end != NULL ? end : "", "");
    free(name);
    return all;
}

/* For an older model in the directory. What will be written is asked only where weights lie there:
 * by the header, which fetch reads too. False: reported. */
static bool make_way(cli *c, const char *operand, const char *directory, cli_older *older,
                     cli_strings *names) {
    sft_catalog *catalog;

    if (cli_older_none(directory)) {
        return true;
    }
    if (!cli_open(c, operand, 0, &catalog)) {
        return false;
    }
    const size_t files = sft_catalog_file_count(catalog);
    const bool chosen = cli_list(c, "select", 0) != NULL || cli_list(c, "drop", 0) != NULL;
    for (size_t i = 0; i < files && !chosen; i++) {
        cli_strings_take(names, name_of(sft_catalog_file_at(catalog, i)->path, NULL));
    }
    if (chosen) {
        cli_strings_take(names, cli_copy_of("model.safetensors"));
    } else if (files > 1) {
        cli_strings_take(names,
                         name_of(sft_catalog_file_at(catalog, 0)->path, ".safetensors.index.json"));
    }
    sft_catalog_close(catalog);
    return cli_older_find(older, c, directory, (const char *const *)names->items, names->count,
                          true) &&
           cli_older_begin(older);
}

static void fetch(cli *c) {
    const char *directory = cli_text(c, "output");
    const char *operand = c->operands[0];
    sft_fetch_options o;
    sft_fetch_result r;
    sft_error err;

    if (cli_url_begin(c, &err) != SFT_OK) {
        cli_fail(c, operand, &err);
        return;
    }
    SFT_INIT(&o);
    if (cli_list(c, "select", 0) != NULL || cli_list(c, "drop", 0) != NULL) {
        o.wanted = wanted;
        o.wanted_ctx = c;
    }
    cli_older older = {.c = c};
    cli_strings names = {NULL, 0};
    if (!make_way(c, operand, directory != NULL ? directory : ".", &older, &names)) {
        cli_older_end(&older, false);
        cli_strings_reset(&names);
        return;
    }
    cli_beside beside;
    cli_beside_begin(&beside, c, operand, directory != NULL ? directory : ".");
    o.ready = cli_beside_put;
    o.ready_ctx = &beside;
    o.control = cli_control(c, "fetch");
    o.flags = c->force ? SFT_FETCH_REPLACE : 0;
    const sft_status status =
        cli_url_fetch(c, operand, directory != NULL ? directory : ".", &o, &r, &err);
    cli_control_end(c);
    cli_older_end(&older, status == SFT_OK);
    cli_strings_reset(&names);
    if (status != SFT_OK) {
        cli_fail(c, operand, &err);
    } else {
        print_result(c, operand, directory != NULL ? directory : ".", &r);
        cli_beside_tell(&beside);
    }
    cli_beside_end(&beside, status == SFT_OK || status == SFT_E_DURABILITY);
}

static void run(cli *c) {
    cli_rank r;

    if (!cli_is_url(c->operands[0])) {
        cli_usage(c, "\"%s\" is no URL: https://, hf:// or s3:// are fetched", c->operands[0]);
    } else if (cli_rank_init(&r, c)) {
        if (r.rank != UINT64_MAX) {
            fetch_rank(c, &r);
        } else if (r.set != NULL) {
            cli_usage(c, "--rank K says whose part");
        } else {
            fetch(c);
        }
        cli_rank_reset(&r);
    }
}

static const cli_opt options[] = {
    CLI_OPT_ARG(CLI_FILE, "output", 'o', "DIR",
                "into this directory, made if missing (default: .)"),
    CLI_CHOOSE_OPTIONS,
    CLI_BESIDE_OPTION,
    CLI_RANK_OPTIONS,
    CLI_CONFIG_OPTION,
    CLI_OPT_FLAG("allow-replicated", 0,
                 "go on with a layout that fits no tensor: the rank gets the whole model"),
    CLI_OPT_END,
};

const cli_command cli_cmd_fetch = {
    .name = "fetch",
    .operands = "URL",
    .summary = "download a model, or some of its tensors",
    .description =
        "Downloads a .safetensors file, or an index with the files that it names, over several "
        "connections. Tensors that --select and --drop choose become one new file, "
        "model.safetensors; nothing else is downloaded. --rank and --layout fetch what one rank "
        "gets of each tensor, into the file model.safetensors of a new directory.\n\n"
        "What is under way lies beside its place as .NAME.part with a journal. After an "
        "interruption the same command goes on from there, if the server still has the same "
        "version; every block is checked before it is believed. Files appear when all are whole, "
        "equal to the SHA-256 that the server tells (Hugging Face does), and on disk; the index is "
        "the last.\n\n"
        "URLs: https://HOST/PATH, hf://ORG/REPO[@REVISION][/FILE], s3://BUCKET/KEY. Of the "
        "environment HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE, AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the usual proxy variables are "
        "obeyed.",
    .examples = "safetensors fetch hf://org/model -o model/\n"
                "safetensors fetch https://host/model.safetensors.index.json -o model/\n"
                "safetensors fetch -s '*norm*' -o norms/ s3://bucket/model.safetensors\n"
                "safetensors fetch -k 3/8 --layout plan.json -o rank3/ hf://org/model",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_FORCE | CLI_WITH_SIZES | CLI_WITH_REMOTE,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
