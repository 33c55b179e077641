/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/states.c - two steps of runs beside tensors: which entries of state.json differ. Read states.h
 * first.
 */
#include "cli/operands/states.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

/* N of "step-N". */
static bool number_of(const char *name, uint64_t *step) {
    const bool is_step = strncmp(name, "step-", 5) == 0;
    size_t n = 0;
    *step = 0;
    for (name += is_step ? 5 : 0; n < 18 && name[n] >= '0' && name[n] <= '9'; n++) {
        *step = *step * 10 + (uint64_t)(name[n] - '0');
    }
    return is_step && n != 0 && name[n] == '\0';
}

static sft_status open_point(const char *path, uint64_t step, cli_states *out, sft_error *err) {
    sft_run_options options;
    sft_run_resume_options which;
    SFT_INIT(&options);
    options.flags = SFT_RUN_READ_ONLY;
    SFT_INIT(&which);
    which.step = step;
    which.exact = 1;
    which.check = SFT_RUN_CHECK_SIZES; /* the tensors are read elsewhere */
    const sft_status status = sft_run_open(&out->run, path, &options, err);
    return status == SFT_OK ? sft_run_resume(&out->point, out->run, &which, err) : status;
}

void cli_states_open(cli *c, const char *operand, cli_states *out) {
    char *const real = cli_sys_real(operand);
    char *const slash = real != NULL ? strrchr(real, '/') : NULL;
    uint64_t step;
    sft_error err;

    if (slash != NULL && slash != real && number_of(slash + 1, &step)) {
        char *const manifest = cli_joined(real, "/manifest.json", "");
        *slash = '\0';
        if (cli_sys_kind(manifest) == CLI_KIND_FILE &&
            open_point(real, step, out, &err) != SFT_OK) {
            cli_warn(c, operand, "what is no tensor is not compared: %s", err.message);
        }
        free(manifest);
    }
    free(real);
}

void cli_states_close(cli_states *states) {
    sft_run_point_free(states->point);
    if (states->run != NULL) {
        (void)!sft_run_close(states->run, NULL); /* it was only read */
    }
    memset(states, 0, sizeof *states);
}

static const char *json_of(const cli_states *states, const char *name, size_t *len) {
    const char *json = NULL;
    *len = 0;
    return sft_run_point_node(states->point, name, &json, len, NULL) == SFT_OK ? json : NULL;
}

uint64_t cli_states_differ(const cli_states *a, const cli_states *b, cli_states_fn report,
                           void *ctx) {
    uint64_t count = 0;
    const char *name;

    if (a->point == NULL || b->point == NULL) {
        return 0;
    }
    for (size_t side = 0; side < 2; side++) {
        const cli_states *const mine = side == 0 ? a : b;
        for (size_t i = 0; (name = sft_run_point_name(mine->point, i)) != NULL; i++) {
            size_t a_len;
            size_t b_len;
            const char *const in_a = json_of(a, name, &a_len);
            const char *const in_b = json_of(b, name, &b_len);
            const bool same =
                in_a != NULL && in_b != NULL && a_len == b_len && memcmp(in_a, in_b, a_len) == 0;
            if (same || (side == 1 && in_a != NULL)) {
                continue;
            }
            count++;
            if (report != NULL) {
                report(ctx, name, in_a, a_len, in_b, b_len);
            }
        }
    }
    return count;
}
