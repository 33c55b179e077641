/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote.c - what URLs are read by, made when the first one is met: libcurl is looked for then. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

#ifdef _WIN32
/* libsafetensors-remote has no transport there, and is not in the package. */
sft_status core_remote_find(void *ctx, sft_remote **remote, sft_error *err) {
    core_remote_finding *f = ctx;

    *remote = NULL;
    f->failed = true;
    return sft_error_set(err, SFT_E_UNSUPPORTED, 0,
                         "reading from a URL is not possible on Windows yet");
}

static sft_status open_none(sft_operand *operand, const void *options, sft_catalog **out,
                            sft_error *err) {
    const sft_remote_opening *o = options;
    sft_remote *remote;

    (void)out;
    return operand->kind == SFT_OPERAND_URL ? o->find(o->ctx, &remote, err) : SFT_OK;
}

sft_opener_row core_remote_row(const sft_remote_opening *opening) {
    static const sft_opener opener = {sizeof opener, open_none};

    return (sft_opener_row){&opener, opening};
}

sft_status core_remote_bytes(void *ctx, const char *url, sft_source **out, sft_error *err) {
    sft_remote *remote;

    (void)url;
    *out = NULL;
    return core_remote_find(ctx, &remote, err);
}

void core_remote_end(core_state *state) {
    (void)state;
}
#else
/* What a process has of it; a forked child makes its own, for connections must not be shared. */
struct core_remote {
    sft_remote *remote;
    long process;
};

static sft_status make(struct core_remote **out, sft_error *err) {
    struct core_remote *r = malloc(sizeof *r);
    sft_remote_options options;

    *out = NULL;
    if (r == NULL) {
        return sft_error_set(err, SFT_E_NOMEM, 0, "out of memory");
    }
    SFT_INIT(&options);
    options.flags = SFT_REMOTE_ENVIRONMENT;
    r->process = core_process();
    const sft_status status = sft_remote_create(&r->remote, &options, err);
    if (status != SFT_OK) {
        free(r);
        return status;
    }
    *out = r;
    return SFT_OK;
}

/* Two threads may make one each: the first stays. What a forked child was born with is left alone. */
sft_status core_remote_find(void *ctx, sft_remote **remote, sft_error *err) {
    core_remote_finding *f = ctx;
    struct core_remote *now = __atomic_load_n(&f->state->remote, __ATOMIC_ACQUIRE);
    struct core_remote *fresh = now;

    if (now == NULL || now->process != core_process()) {
        const sft_status status = make(&fresh, err);
        f->failed = status != SFT_OK;
        if (f->failed) {
            return status;
        }
        if (!__atomic_compare_exchange_n(&f->state->remote, &now, fresh, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            sft_remote_free(fresh->remote);
            free(fresh);
            fresh = now;
        }
    }
    *remote = fresh->remote;
    return SFT_OK;
}

sft_opener_row core_remote_row(const sft_remote_opening *opening) {
    return (sft_opener_row){sft_remote_opener(), opening};
}

sft_status core_remote_bytes(void *ctx, const char *url, sft_source **out, sft_error *err) {
    sft_remote *remote;
    const sft_status status = core_remote_find(ctx, &remote, err);

    *out = NULL;
    return status == SFT_OK ? sft_remote_source_open(out, remote, url, err) : status;
}

void core_remote_end(core_state *state) {
    struct core_remote *r = state->remote;

    state->remote = NULL;
    if (r != NULL && r->process == core_process()) {
        sft_remote_free(r->remote);
        free(r);
    }
}
#endif

bool core_remote_source(core_state *state, sft_source **out, const char *url) {
    core_remote_finding f = {state, false};
    sft_status status;
    sft_error err;

    Py_BEGIN_ALLOW_THREADS status = core_remote_bytes(&f, url, out, &err);
    Py_END_ALLOW_THREADS if (status != SFT_OK) {
        core_raise(state, &err, NULL);
        return false;
    }
    return true;
}
