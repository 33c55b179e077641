/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Loads the tensors that a pattern fits, cast to F32, and says what was learned of them on the way; then once
 * more into the same memory, as a server does that changes its model.
 *     load_many MODEL [PATTERN]
 */
#include <inttypes.h>
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(const sft_loaded *loaded, const sft_catalog *model, const size_t *at,
                 size_t count) {
    const char *why = NULL;

    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(model, at[i]);
        sft_loaded_facts facts;
        size_t size = 0;
        const void *data = sft_loaded_data(loaded, t, &size);
        sft_loaded_facts_get(loaded, t, &facts);
        printf("%08" PRIx32 "  %s, %zu bytes of %s%s: %" PRIu64 " NaN\n", facts.crc32c, t->name,
               size, sft_loaded_dtype(loaded, t)->name, data == NULL ? " missing" : "", facts.nans);
    }
    (void)sft_loaded_strategy(loaded, 0, &why);
    printf("%zu tensors, %" PRIu64 " bytes, %zu verified (%s)\n", sft_loaded_count(loaded),
           sft_loaded_bytes(loaded), sft_loaded_verified(loaded), why);
}

static sft_status load(sft_arena *arena, const sft_catalog *model, const sft_name *pattern,
                       sft_error *err) {
    size_t *at = malloc((sft_catalog_count(model) + 1) * sizeof *at);
    size_t count = 0;
    sft_load_options options;
    sft_loaded *loaded = NULL;
    sft_status status = SFT_E_NOMEM;

    SFT_INIT(&options);
    if (at != NULL) {
        status = sft_catalog_select(model, &(sft_selection){pattern, 1, SFT_MATCH_GLOB}, at, &count,
                                    err);
    }
    options.arena = arena;
    options.select = at;
    options.select_count = count;
    options.float_dtype = sft_dtype_get(SFT_F32);
    options.digests = SFT_DIGEST_CRC32C;
    options.flags = SFT_LOAD_SCAN;
    if (!status && !(status = sft_load(&loaded, model, &options, err))) {
        show(loaded, model, at, count);
    }
    sft_loaded_free(loaded);
    free(at);
    return status;
}

int main(int argc, char **argv) {
    sft_error err = {0};
    sft_catalog *model = NULL;
    sft_arena *arena = NULL;
    sft_name pattern = {"*", 1};
    sft_status status;

    if (argc < 2) {
        fprintf(stderr, "usage: load_many MODEL [PATTERN]\n");
        return 2;
    }
    if (argc > 2) {
        pattern.text = argv[2];
        pattern.len = strlen(argv[2]);
    }
    status = sft_catalog_open(&model, argv[1], NULL, &err);
    if (!status && !(status = sft_arena_create(&arena, 0, 0, NULL, &err)) &&
        !(status = load(arena, model, &pattern, &err))) {
        const size_t before = sft_arena_size(arena);
        sft_arena_reset(arena); /* keeps its pages: this load is spared what fresh ones cost */
        status = load(arena, model, &pattern, &err);
        printf("%s memory\n", sft_arena_size(arena) == before ? "the same" : "more");
    }
    if (status) {
        fprintf(stderr, "%s: %s\n", sft_status_text((int32_t)status), err.message);
    }
    sft_arena_free(arena);
    sft_catalog_close(model);
    return status != SFT_OK;
}
