/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/remote.c - a sft_remote: its settings, its life, what it counted. Read first: room.h.
 */
#include "base/memory/need.h"
#include "base/options.h"
#include "base/text/strmap.h"
#include "remote/disk/disk.h"
#include "remote/room.h"
#include <string.h>

/* ---------------------------------------------------------------- settings */

static bool keep(sft__base_arena *arena, const char **text) {
    if (*text != NULL) {
        *text = sft__base_arena_copy(arena, *text, strlen(*text));
        return *text != NULL;
    }
    return true;
}

static void limits(sft_remote_options *o) {
    static const char amazon[] = "us-east-1";
#define DEFAULT(field, value) o->field = o->field != 0 ? o->field : (value)
    DEFAULT(hf_endpoint, "https://huggingface.co");
    DEFAULT(s3_region, amazon);
    DEFAULT(disk_cache_bytes, (uint64_t)8 << 30);
    DEFAULT(memory_cache_bytes, (uint64_t)64 << 20);
    DEFAULT(whole_bytes, (uint64_t)8 << 20);
    DEFAULT(connections, 8);
    DEFAULT(retries, 4);
    DEFAULT(connect_ms, 10000);
    DEFAULT(stall_ms, 15000);
    DEFAULT(stall_bytes, 4096);
    DEFAULT(deadline_ms, 60000);
    DEFAULT(backoff_ms, 250);
    DEFAULT(first_bytes, 64 << 10);
    DEFAULT(redirects, 5);
    DEFAULT(gap_bytes, SFT__JOIN_GAP);
#undef DEFAULT
    o->connections = o->connections < 64 ? o->connections : 64;
    o->first_bytes = o->first_bytes < 8 ? 8 : o->first_bytes < 64 << 20 ? o->first_bytes : 64 << 20;
    o->redirects = o->redirects < 20 ? o->redirects : 20;
}

/* A header or a signature is made of these: nothing that could end the line. */
static bool one_line(const char *text) {
    size_t len = 0;
    for (; text != NULL && text[len] != '\0'; len++) {
        if ((unsigned char)text[len] < 0x20 || (unsigned char)text[len] >= 0x7f || len > 4096) {
            return false;
        }
    }
    return true;
}

static sft_status settings_check(const sft_remote_options *o, sft_error *err) {
    sft__remote_url u;
    const char *const urls[] = {o->hf_endpoint, o->s3_endpoint};

    for (size_t i = 0; i < 2; i++) {
        if (urls[i] != NULL && (!sft__remote_url_parse(&u, urls[i]) || u.query_len != 0)) {
            return sft__base_fail(err, SFT_E_ARG, "the %s endpoint is no http or https URL",
                                  i == 0 ? "Hugging Face" : "S3");
        }
    }
    if (!one_line(o->hf_token) || !one_line(o->s3_access_key) || !one_line(o->s3_secret_key) ||
        !one_line(o->s3_session_token) || !one_line(o->s3_region)) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a credential or the region holds a control character");
    }
    if ((o->s3_access_key == NULL) != (o->s3_secret_key == NULL)) {
        return sft__base_fail(err, SFT_E_ARG, "an S3 access key needs its secret key");
    }
    return SFT_OK;
}

static sft_status settings_read(sft__remote_settings *s, const sft_remote_options *given,
                                sft_error *err) {
    sft_remote_options *o = &s->o;

    memset(&s->proxies, 0, sizeof s->proxies);
    SFT_TRY(sft__base_options_read(o, sizeof *o, given, SFT__UP_TO(sft_remote_options, struct_size),
                                   "options", err));
    if ((o->flags & SFT_REMOTE_ENVIRONMENT) != 0) {
        SFT_TRY(sft__remote_environment(s, err));
    }
    limits(o);
    const char **const texts[] = {
        &o->hf_endpoint,   &o->hf_token,      &o->hf_cache,         &o->s3_endpoint, &o->s3_region,
        &o->s3_access_key, &o->s3_secret_key, &o->s3_session_token, &o->ca_file,     &o->proxy,
        &o->disk_cache,    &s->proxies.http,  &s->proxies.https,    &s->proxies.no};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        SFT_NEED(keep(&s->strings, texts[i]), 256, err);
    }
    s->proxies.given = o->proxy;
    s->proxies.plain = (o->flags & SFT_REMOTE_ALLOW_HTTP) != 0;
    return settings_check(o, err);
}

sft_status sft__remote_url_allowed(const sft_remote *remote, const char *url, sft_error *err) {
    char shown[200];
    sft__remote_url u;

    sft__remote_url_show(shown, sizeof shown, url);
    if (!sft__remote_url_parse(&u, url)) {
        return sft__base_fail(err, SFT_E_PATH, "%s: %s", shown,
                              sft__remote_url_has_login(url)
                                  ? "a URL with a user name or password is refused"
                                  : "not a URL of the form http[s]://host[:port]/path");
    }
    if (!u.https && !sft__remote_url_loopback(&u) &&
        (remote->settings.o.flags & SFT_REMOTE_ALLOW_HTTP) == 0) {
        return sft__base_fail(err, SFT_E_PATH,
                              "%s: http is allowed to this machine only; use https", shown);
    }
    if ((remote->settings.o.flags & SFT_REMOTE_OFFLINE) != 0) {
        return sft__base_fail(err, SFT_E_HTTP, "%s: offline, and not in the local cache", shown);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- life */

void sft__remote_hold(sft_remote *remote) {
    atomic_fetch_add_explicit(&remote->references, 1, memory_order_relaxed);
}

void sft__remote_release(sft_remote *remote) {
    if (atomic_fetch_sub_explicit(&remote->references, 1, memory_order_acq_rel) == 1) {
        sft__remote_lanes_free(remote);
        sft__remote_cache_free(remote->cache);
        sft__remote_disk_close(remote->disk);
        sft__base_arena_free(&remote->settings.strings);
        sft__base_arena_free(&remote->pinned);
        sft__base_mutex_reset(&remote->mutex);
        void (*const cleanup)(void) = remote->curl.global_cleanup;
        sft__base_free(remote->allocator, remote, sizeof *remote);
        cleanup(); /* counts its users, as init does */
    }
}

void sft_remote_free(sft_remote *remote) {
    if (remote != NULL) {
        sft__remote_release(remote);
    }
}

static sft_status fill(sft_remote *remote, const sft_remote_options *options, sft_error *err) {
    sft__base_arena_init(&remote->settings.strings, remote->allocator, 0);
    sft__base_arena_init(&remote->pinned, remote->allocator, 0);
    SFT_TRY(settings_read(&remote->settings, options, err));
    const sft_remote_options *o = &remote->settings.o;
    SFT_TRY(
        sft__remote_cache_create(&remote->cache, o->memory_cache_bytes, remote->allocator, err));
    return o->disk_cache == NULL
               ? SFT_OK
               : sft__remote_disk_open(&remote->disk, o->disk_cache, o->disk_cache_bytes,
                                       remote->allocator, err);
}

sft_status sft_remote_create(sft_remote **out, const sft_remote_options *options, sft_error *err) {
    SFT_OUT(out, err);
    const bool own =
        options != NULL &&
        options->struct_size >= offsetof(sft_remote_options, allocator) + sizeof options->allocator;
    const sft_allocator *a = sft__base_allocator(own ? options->allocator : NULL);
    sft__remote_curl curl;
    SFT_TRY(sft__remote_curl_find(&curl, err));
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return sft__base_fail(err, SFT_E_NOMEM, "libcurl could not be started");
    }
    sft_remote *remote = sft__base_alloc_zero(a, sizeof *remote);
    if (remote == NULL || !sft__base_mutex_init(&remote->mutex)) {
        sft__base_free(a, remote, sizeof *remote);
        curl.global_cleanup();
        return sft__base_fail_nomem(err, sizeof *remote);
    }
    remote->allocator = a;
    remote->curl = curl;
    atomic_store(&remote->references, 1);
    sft__base_random_key(remote->secret);
    const sft_status status = fill(remote, options, err);
    if (status != SFT_OK) {
        sft__remote_release(remote);
        return status;
    }
    *out = remote;
    return SFT_OK;
}

void sft_remote_count(const sft_remote *remote, sft_remote_counts *out) {
    memset(out, 0, sizeof *out);
    out->requests = atomic_load_explicit(&remote->requests, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&remote->bytes, memory_order_relaxed);
    out->retries = atomic_load_explicit(&remote->retries, memory_order_relaxed);
    out->redirects = atomic_load_explicit(&remote->redirects, memory_order_relaxed);
    out->cache_hits = atomic_load_explicit(&remote->cache_hits, memory_order_relaxed);
}
