/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote.c - catalogs behind URLs. libcurl is found when the first URL is met. Read core.h first.
 */
#include "core.h"
#include <sft/remote.h>

#include <stdlib.h>

/* What a process has of it; a forked child makes its own, for connections must not be shared. */
struct core_remote {
    sft_remote *remote;
    long process;
};

int core_is_url(const char *text) {
    static const char *const starts[] = {"https://", "http://", "hf://", "s3://"};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (strncmp(text, starts[i], strlen(starts[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

static struct core_remote *make(core_state *state) {
    struct core_remote *r;
    sft_remote_options options;
    sft_error err;

    r = malloc(sizeof *r);
    if (r == NULL) {
        core_no_memory(0);
        return NULL;
    }
    SFT_INIT(&options);
    options.flags = SFT_REMOTE_ENVIRONMENT;
    r->process = core_process();
    if (sft_remote_create(&r->remote, &options, &err) != SFT_OK) {
        free(r);
        core_raise(state, &err, NULL);
        return NULL;
    }
    return r;
}

/* Two threads may make one each: the first stays. What a forked child was born with is left alone. */
static struct core_remote *remote_of(core_state *state) {
    struct core_remote *now = __atomic_load_n(&state->remote, __ATOMIC_ACQUIRE);
    struct core_remote *fresh;

    if (now != NULL && now->process == core_process()) {
        return now;
    }
    fresh = make(state);
    if (fresh != NULL && !__atomic_compare_exchange_n(&state->remote, &now, fresh, false,
                                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        sft_remote_free(fresh->remote);
        free(fresh);
        return now;
    }
    return fresh;
}

bool core_remote_open(core_state *state, sft_catalog **out, const char *url, const char *doing) {
    struct core_remote *r = remote_of(state);
    sft_status status;
    sft_error err;

    *out = NULL;
    if (r == NULL) {
        return false;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_remote_open(out, r->remote, url, NULL, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        core_raise(state, &err, doing);
        return false;
    }
    return true;
}

bool core_remote_source(core_state *state, sft_source **out, const char *url) {
    struct core_remote *r = remote_of(state);
    sft_status status;
    sft_error err;

    *out = NULL;
    if (r == NULL) {
        return false;
    }
    Py_BEGIN_ALLOW_THREADS status = sft_remote_source_open(out, r->remote, url, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        core_raise(state, &err, NULL);
        return false;
    }
    return true;
}

void core_remote_end(core_state *state) {
    struct core_remote *r = state->remote;

    state->remote = NULL;
    if (r != NULL && r->process == core_process()) {
        sft_remote_free(r->remote);
        free(r);
    }
}
