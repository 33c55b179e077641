/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/tensor.c - small facts about tensors and catalogs that several commands print. Read cmd.h
 * first.
 */
#include "cli/cmd.h"
#include "cli/operands/url.h"
#include <stdio.h>
#include <string.h>

enum { SHOWN_DIMENSIONS = 16 }; /* 16 * 22 + 32 bytes fit in CLI_SHAPE_ROOM */

const char *cli_shape(char text[CLI_SHAPE_ROOM], const uint64_t *shape, uint32_t rank) {
    size_t at = 0;

    text[at++] = '[';
    for (uint32_t d = 0; d < rank && d < SHOWN_DIMENSIONS; d++) {
        at += (size_t)snprintf(text + at, 32, "%s%llu", d > 0 ? ", " : "",
                               (unsigned long long)shape[d]);
    }
    if (rank > SHOWN_DIMENSIONS) {
        at += (size_t)snprintf(text + at, 40, ", ... %lu more",
                               (unsigned long)(rank - SHOWN_DIMENSIONS));
    }
    text[at++] = ']';
    text[at] = '\0';
    return text;
}

uint64_t cli_elements(const sft_tensor *tensor) {
    uint64_t n = 1;

    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] == 0) {
            return 0; /* other dimensions may be anything then */
        }
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        n *= tensor->shape[d]; /* the catalog checked that the bytes of it fit in 64 bits */
    }
    return n;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool cli_is_single(const sft_catalog *catalog, const char *operand) {
    if (strcmp(operand, "-") == 0) {
        return true;
    }
    if (sft_catalog_file_count(catalog) != 1) {
        return false;
    }
    const char *path = sft_catalog_file_at(catalog, 0)->path;
    /* hf:// and s3:// become other URLs, which end in the same name */
    return strcmp(cli_is_url(operand) ? last_part(path) : path,
                  cli_is_url(operand) ? last_part(operand) : operand) == 0;
}

static bool is_slash(char ch) {
#ifdef _WIN32
    return ch == '/' || ch == '\\';
#else
    return ch == '/';
#endif
}

const char *cli_relative(const sft_file *file, const char *operand) {
    const char *path = file->path;
    size_t len = strlen(operand);

    if (strncmp(path, operand, len) != 0 ||
        (len > 0 && !is_slash(operand[len - 1]) && !is_slash(path[len]))) {
        while (len > 0 && !is_slash(operand[len - 1])) { /* an index: its directory */
            len--;
        }
    }
    if (len == 0 || strncmp(path, operand, len) != 0) {
        return cli_is_url(operand) ? last_part(path) : path;
    }
    path += len;
    while (is_slash(*path)) {
        path++;
    }
    return *path != '\0' ? path : file->path;
}

void cli_warn_problems(cli *c, const sft_catalog *catalog, const char *operand) {
    const size_t count = sft_catalog_problem_count(catalog);
    const size_t shown = c->verbose || count <= 10 ? count : 10;

    for (size_t i = 0; i < count; i++) {
        cli_answer(c, sft_catalog_problem_at(catalog, i)->fatal != 0 ? CLI_NO : CLI_OK);
    }
    for (size_t i = 0; i < shown; i++) {
        cli_warn(c, operand, "%s", sft_catalog_problem_at(catalog, i)->message);
    }
    if (shown < count) {
        cli_warn(c, operand, "%llu more; -v shows all", (unsigned long long)(count - shown));
    }
}
