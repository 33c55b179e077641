/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/hub.c - from an operand to a place: hf:// and s3:// become https URLs, the local Hugging
 * Face cache is looked into, the environment is read for those who ask for it. Layout of that cache
 * (huggingface_hub, "Understand caching"): models--ORG--REPO/{refs/REVISION, snapshots/COMMIT/FILE
 * -> ../../blobs/...}.
 */
#include "base/memory/need.h"
#include "remote/room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- environment */

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool truth(const char *name) {
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *value = variable(name);

    for (size_t i = 0; value != NULL && i < 4; i++) {
        size_t k = 0;
        while (yes[i][k] != '\0' && (value[k] | 0x20) == (yes[i][k] | 0x20)) {
            k++;
        }
        if (yes[i][k] == '\0' && value[k] == '\0') {
            return true;
        }
    }
    return false;
}

static const char *joined(sft__base_arena *arena, const char *a, const char *b) {
    const size_t len = strlen(a) + strlen(b);
    char *text = sft__base_arena_alloc(arena, len + 1, 1);
    if (text != NULL) {
        (void)snprintf(text, len + 1, "%s%s", a, b);
    }
    return text;
}

/* The first word of the text; NULL: blanks only. */
static const char *first_word(sft__base_arena *arena, const char *text) {
    const size_t start = strspn(text, " \t\r\n");
    const size_t n = strcspn(text + start, " \t\r\n");
    return n > 0 ? sft__base_arena_copy(arena, text + start, n) : NULL;
}

/* The first word of a small file; NULL: there is none, or what is there is no file (a pipe would be
 * waited for). */
static const char *first_of_file(sft__base_arena *arena, const char *path) {
    char text[2048];
    sft_source *source;

    if (sft_source_open(&source, path, SFT_ACCESS_READ, NULL, NULL) != SFT_OK) {
        return NULL;
    }
    const uint64_t size = sft_source_size(source);
    const size_t len = size < sizeof text ? (size_t)size : sizeof text - 1;
    const sft_status status = len > 0 ? sft_source_read(source, 0, text, len, NULL) : SFT_OK;
    sft_source_close(source);
    text[len] = '\0';
    return status == SFT_OK ? first_word(arena, text) : NULL;
}

static const char *hub_home(sft__base_arena *arena) {
    const char *home = variable("HF_HOME");
    if (home != NULL) {
        return home;
    }
    const char *xdg = variable("XDG_CACHE_HOME");
    if (xdg != NULL) {
        return joined(arena, xdg, "/huggingface");
    }
    const char *user = variable("HOME");
    return user != NULL ? joined(arena, user, "/.cache/huggingface") : NULL;
}

static void hub_token(sft_remote_options *o, sft__base_arena *arena, const char *home) {
    if (o->hf_token != NULL || truth("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
        return;
    }
    const char *token = variable("HF_TOKEN");
    o->hf_token = token != NULL ? first_word(arena, token) : NULL;
    if (o->hf_token == NULL) {
        const char *path = variable("HF_TOKEN_PATH");
        if (path == NULL && home != NULL) {
            path = joined(arena, home, "/token");
        }
        o->hf_token = path != NULL ? first_of_file(arena, path) : NULL;
    }
}

static void take(const char **field, const char *first, const char *second) {
    if (*field == NULL) {
        *field = variable(first);
    }
    if (*field == NULL && second != NULL) {
        *field = variable(second);
    }
}

/* As libcurl takes them: HTTP_PROXY is left alone, for a CGI program has it from its client. */
static void proxies(sft__remote_proxies *p) {
    take(&p->http, "http_proxy", NULL);
    take(&p->http, "all_proxy", "ALL_PROXY");
    take(&p->https, "https_proxy", "HTTPS_PROXY");
    take(&p->https, "all_proxy", "ALL_PROXY");
    take(&p->no, "no_proxy", "NO_PROXY");
}

/* Bytes of the gaps that are read over; 0 means none, which the option calls 1. */
static sft_status take_gap(sft_remote_options *o, sft_error *err) {
    const char *text = variable("SFT_REMOTE_GAP");
    uint64_t value = 0;

    if (o->gap_bytes != 0 || text == NULL) {
        return SFT_OK;
    }
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (text[i] < '0' || text[i] > '9' || i == 18) { /* 18 digits fit */
            return sft__base_fail(err, SFT_E_ARG, "SFT_REMOTE_GAP is no number of bytes");
        }
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    o->gap_bytes = value > 0 ? value : 1;
    return SFT_OK;
}

sft_status sft__remote_environment(sft__remote_settings *s, sft_error *err) {
    sft_remote_options *o = &s->o;
    sft__base_arena *arena = &s->strings;
    const char *home = hub_home(arena);

    take(&o->hf_endpoint, "HF_ENDPOINT", NULL);
    hub_token(o, arena, home);
    take(&o->hf_cache, "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    if (o->hf_cache == NULL && home != NULL) {
        o->hf_cache = joined(arena, home, "/hub");
        SFT_NEED(o->hf_cache != NULL, 256, err);
    }
    if (o->s3_access_key == NULL && o->s3_secret_key == NULL) {
        take(&o->s3_access_key, "AWS_ACCESS_KEY_ID", NULL);
        take(&o->s3_secret_key, "AWS_SECRET_ACCESS_KEY", NULL);
        take(&o->s3_session_token, "AWS_SESSION_TOKEN", NULL);
        if (o->s3_access_key == NULL || o->s3_secret_key == NULL) {
            o->s3_access_key = o->s3_secret_key = o->s3_session_token = NULL;
        }
    }
    take(&o->s3_region, "AWS_REGION", "AWS_DEFAULT_REGION");
    take(&o->s3_endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    take(&o->ca_file, "SSL_CERT_FILE", "CURL_CA_BUNDLE");
    proxies(&s->proxies);
    o->flags |= truth("HF_HUB_OFFLINE") ? SFT_REMOTE_OFFLINE : 0;
    return take_gap(o, err);
}

/* ---------------------------------------------------------------- the local cache */

bool sft__remote_path_exists(const char *path) {
    sft_source *source;
    const sft_status status = sft_source_open(&source, path, SFT_ACCESS_READ, NULL, NULL);
    if (status == SFT_OK) {
        sft_source_close(source);
    }
    return status == SFT_OK || status == SFT_E_NOT_REGULAR; /* a directory is there */
}

static bool is_commit(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) {
            return false;
        }
    }
    return len == 40;
}

/* HF_CACHE/models--ORG--REPO/ */
static void cache_repo(sft__base_buf *b, const char *cache, const sft__remote_hub_url *u) {
    sft__base_buf_text(b, cache);
    sft__base_buf_text(b, "/");
    sft__base_buf_text(b, u->kind);
    sft__base_buf_text(b, "--");
    for (size_t i = 0; i < u->repo_len; i++) {
        sft__base_buf_add(b, u->repo[i] == '/' ? "--" : &u->repo[i], u->repo[i] == '/' ? 2 : 1);
    }
    sft__base_buf_text(b, "/");
}

static bool cache_is_asked(const sft_remote *remote) {
    const sft_remote_options *o = &remote->settings.o;
    return o->hf_cache != NULL && (o->flags & SFT_REMOTE_NO_HUB_CACHE) == 0;
}

/* HF_CACHE/models--ORG--REPO/snapshots/COMMIT/ */
static void cache_snapshot(sft__base_buf *b, const sft_remote *remote, const sft__remote_hub_url *u,
                           const char *commit) {
    cache_repo(b, remote->settings.o.hf_cache, u);
    sft__base_buf_text(b, "snapshots/");
    sft__base_buf_text(b, commit);
    sft__base_buf_text(b, "/");
}

/* Which commit the revision is, as the cache knows it, if it has anything of that. */
static bool cache_commit(char *commit, const sft_remote *remote, const sft__remote_hub_url *u) {
    sft__base_arena arena = {.allocator = remote->allocator};
    char revision[SFT__REVISION_MAX];
    sft__base_buf b;

    if (!cache_is_asked(remote)) {
        return false;
    }
    sft__base_buf_init(&b, remote->allocator);
    cache_repo(&b, remote->settings.o.hf_cache, u);
    sft__base_buf_text(&b, "refs/");
    sft__base_buf_add(&b, revision, sft__remote_url_decode(revision, u->revision, u->revision_len));
    sft__base_buf_add(&b, "", 1);
    const char *line = b.failed ? NULL : first_of_file(&arena, b.data);
    bool known = line != NULL && is_commit(line, strlen(line));
    if (known) {
        memcpy(commit, line, strlen(line) + 1);
        b.len = 0;
        cache_snapshot(&b, remote, u, commit);
        sft__base_buf_add(&b, "", 1);
        known = !b.failed && sft__remote_path_exists(b.data);
    }
    commit[0] = known ? commit[0] : '\0';
    sft__base_arena_free(&arena);
    sft__base_buf_reset(&b);
    return known;
}

/* The path in the snapshot of the commit: emptied again if there is none. */
static void cache_find(sft__base_buf *b, const sft_remote *remote, const sft__remote_hub_url *u,
                       const char *commit) {
    if (!cache_is_asked(remote) || !is_commit(commit, strlen(commit))) {
        return;
    }
    cache_snapshot(b, remote, u, commit);
    sft__base_buf_text(b, u->file != NULL ? u->file : "");
    sft__base_buf_add(b, "", 1);
    if (b->failed || !sft__remote_path_exists(b->data)) {
        b->len = 0;
    }
}

/* ---------------------------------------------------------------- one commit of a branch */

struct sft__remote_pin {
    const sft__remote_pin *next;
    const char *branch; /* its URL, as far as the revision */
    const char *commit;
};

static void pin_find(char *commit, sft_remote *remote, const char *branch, size_t len) {
    if ((remote->settings.o.flags & SFT_REMOTE_ONE_COMMIT) == 0) {
        return;
    }
    sft__base_mutex_lock(&remote->mutex);
    for (const sft__remote_pin *p = remote->pins; p != NULL; p = p->next) {
        if (strlen(p->branch) == len && memcmp(p->branch, branch, len) == 0) {
            memcpy(commit, p->commit, strlen(p->commit) + 1);
        }
    }
    sft__base_mutex_unlock(&remote->mutex);
}

static sft_status pin_keep(sft_remote *remote, const char *branch, size_t len, const char *commit,
                           sft_error *err) {
    char before[SFT__COMMIT_MAX + 1] = "";

    pin_find(before, remote, branch, len);
    if (before[0] != '\0' || /* of two at a time either may be kept */
        (remote->settings.o.flags & SFT_REMOTE_ONE_COMMIT) == 0) {
        return SFT_OK;
    }
    sft__base_mutex_lock(&remote->mutex);
    sft__remote_pin *p = sft__base_arena_alloc(&remote->pinned, sizeof *p, sizeof(void *));
    if (p != NULL) {
        p->next = remote->pins;
        p->branch = sft__base_arena_copy(&remote->pinned, branch, len);
        p->commit = sft__base_arena_copy(&remote->pinned, commit, strlen(commit));
        remote->pins = p->branch != NULL && p->commit != NULL ? p : remote->pins;
    }
    const bool kept = p != NULL && remote->pins == p;
    sft__base_mutex_unlock(&remote->mutex);
    return kept ? SFT_OK : sft__base_fail_nomem(err, sizeof *p + len);
}

sft_status sft__remote_place_pin(sft__remote_place *place, sft_remote *remote, const char *commit,
                                 sft_error *err) {
    const char *revision = place->url.data + place->revision_at;
    sft__base_buf url;

    if (!place->hub || commit[0] == '\0' || is_commit(revision, place->revision_len)) {
        return SFT_OK;
    }
    SFT_TRY(
        pin_keep(remote, place->url.data, place->revision_at + place->revision_len, commit, err));
    sft__base_buf_init(&url, place->url.allocator);
    sft__base_buf_add(&url, place->url.data, place->revision_at);
    sft__base_buf_url(&url, commit, strlen(commit), false);
    const size_t len = url.len - place->revision_at;
    sft__base_buf_text(&url, revision + place->revision_len);
    sft__base_buf_add(&url, "", 1);
    if (url.failed) {
        sft__base_buf_reset(&url);
        return sft__base_fail_nomem(err, place->url.len + SFT__COMMIT_MAX);
    }
    sft__base_buf_reset(&place->url);
    place->url = url;
    place->revision_len = len;
    return SFT_OK;
}

/* The URL as far as the revision. A branch is the commit that it is in the local cache; with
 * SFT_REMOTE_ONE_COMMIT it stays that one, or the one that the hub told first. */
static sft_status add_revision(sft__remote_place *out, char *commit, sft_remote *remote,
                               const sft__remote_hub_url *u, sft_error *err) {
    char revision[SFT__REVISION_MAX];

    out->revision_at = out->url.len;
    sft__base_buf_url(&out->url, revision,
                      sft__remote_url_decode(revision, u->revision, u->revision_len), false);
    SFT_NEED(!out->url.failed, u->revision_len, err);
    if (is_commit(u->revision, u->revision_len)) {
        memcpy(commit, u->revision, u->revision_len);
        commit[u->revision_len] = '\0';
    } else {
        pin_find(commit, remote, out->url.data, out->url.len);
        if (commit[0] == '\0' && cache_commit(commit, remote, u)) {
            SFT_TRY(pin_keep(remote, out->url.data, out->url.len, commit, err));
        }
        if (commit[0] != '\0') {
            out->url.len = out->revision_at;
            sft__base_buf_url(&out->url, commit, strlen(commit), false);
        }
    }
    out->revision_len = out->url.len - out->revision_at;
    return SFT_OK;
}

/* ---------------------------------------------------------------- places */

/* Else it may be a directory. */
static bool is_file(const char *file) {
    static const char *const ends[] = {".safetensors", ".json"};
    const size_t len = strlen(file);
    for (size_t i = 0; i < 2; i++) {
        const size_t n = strlen(ends[i]);
        if (len > n && memcmp(file + len - n, ends[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/* Without the slashes at its end. */
static void add_endpoint(sft__base_buf *b, const char *endpoint) {
    size_t len = strlen(endpoint);
    while (len > 0 && endpoint[len - 1] == '/') {
        len--;
    }
    sft__base_buf_add(b, endpoint, len);
}

static sft_status hub_place(sft__remote_place *out, sft_remote *remote, const char *url,
                            sft_error *err) {
    const sft_remote_options *o = &remote->settings.o;
    char commit[SFT__COMMIT_MAX + 1] = "";
    sft__remote_hub_url u;

    if (!sft__remote_hub_url_parse(&u, url + 5)) {
        char shown[200];
        sft__remote_url_show(shown, sizeof shown, url);
        return sft__base_fail(
            err, SFT_E_PATH, "%s: not of the form hf://[models/]ORG/REPO[@REVISION][/FILE]", shown);
    }
    out->hub = true;
    out->repository = u.file == NULL;
    out->perhaps_directory = u.file != NULL && !is_file(u.file);
    out->credential = o->hf_token != NULL ? SFT__BEARER : SFT__ANONYMOUS;
    add_endpoint(&out->url, o->hf_endpoint);
    if (strcmp(u.kind, "models") != 0) {
        sft__base_buf_text(&out->url, "/");
        sft__base_buf_text(&out->url, u.kind);
    }
    sft__base_buf_text(&out->url, "/");
    sft__base_buf_add(&out->url, u.repo, u.repo_len);
    sft__base_buf_text(&out->url, "/resolve/");
    SFT_TRY(add_revision(out, commit, remote, &u, err));
    sft__base_buf_text(&out->url, "/");
    if (u.file != NULL) {
        sft__base_buf_url(&out->url, u.file, strlen(u.file), true);
    }
    sft__base_buf_add(&out->url, "", 1);
    cache_find(&out->cached, remote, &u, commit);
    return SFT_OK;
}

/* Amazon's own endpoint has the bucket in the host's name, where that can be a name. */
static sft_status s3_place(sft__remote_place *out, sft_remote *remote, const char *url,
                           sft_error *err) {
    const sft_remote_options *o = &remote->settings.o;
    const char *bucket;
    const char *key;
    size_t bucket_len;

    if (!sft__remote_s3_url_parse(url + 5, &bucket, &bucket_len, &key)) {
        char shown[200];
        sft__remote_url_show(shown, sizeof shown, url);
        return sft__base_fail(err, SFT_E_PATH, "%s: not of the form s3://BUCKET/KEY", shown);
    }
    out->credential = o->s3_access_key != NULL ? SFT__SIGV4 : SFT__ANONYMOUS;
    if (o->s3_endpoint != NULL) {
        add_endpoint(&out->url, o->s3_endpoint);
        sft__base_buf_text(&out->url, "/");
        sft__base_buf_add(&out->url, bucket, bucket_len);
    } else {
        const bool host =
            memchr(bucket, '.', bucket_len) == NULL && memchr(bucket, '_', bucket_len) == NULL;
        sft__base_buf_text(&out->url, "https://");
        if (host) {
            sft__base_buf_add(&out->url, bucket, bucket_len);
            sft__base_buf_text(&out->url, ".");
        }
        sft__base_buf_text(&out->url, "s3.");
        sft__base_buf_url(&out->url, o->s3_region, strlen(o->s3_region), false);
        sft__base_buf_text(&out->url, ".amazonaws.com");
        if (!host) {
            sft__base_buf_text(&out->url, "/");
            sft__base_buf_add(&out->url, bucket, bucket_len);
        }
    }
    sft__base_buf_text(&out->url, "/");
    sft__base_buf_url(&out->url, key, strlen(key), true);
    sft__base_buf_add(&out->url, "", 1);
    return SFT_OK;
}

/* A plain URL at the hub's own origin may have its token. */
static void web_place(sft__remote_place *out, const sft_remote *remote, const char *url) {
    const sft_remote_options *o = &remote->settings.o;
    sft__remote_url there;
    sft__remote_url hub;

    sft__base_buf_text(&out->url, url);
    sft__base_buf_add(&out->url, "", 1);
    if (o->hf_token != NULL && sft__remote_url_parse(&there, url) &&
        sft__remote_url_parse(&hub, o->hf_endpoint) && sft__remote_url_same_origin(&there, &hub)) {
        out->credential = SFT__BEARER;
    }
}

void sft__remote_place_reset(sft__remote_place *place) {
    sft__base_buf_reset(&place->url);
    sft__base_buf_reset(&place->cached);
}

sft_status sft__remote_place_find(sft__remote_place *out, sft_remote *remote, const char *url,
                                  sft_error *err) {
    sft_status status = SFT_OK;

    memset(out, 0, sizeof *out);
    sft__base_buf_init(&out->url, remote->allocator);
    sft__base_buf_init(&out->cached, remote->allocator);
    if (url == NULL || !sft_operand_is_url(url)) {
        return sft_error_set(err, SFT_E_ARG, 0,
                             "a URL begins with https://, http://, hf:// or s3://");
    }
    const bool hub = (url[0] | 0x20) == 'h' && (url[1] | 0x20) == 'f';
    if ((hub || (url[0] | 0x20) == 's') && sft__remote_url_signed(url)) {
        status = sft__base_fail(
            err, SFT_E_PATH,
            "a signed URL begins with https://; in %s a question mark is part of a name",
            hub ? "hf://" : "s3://");
    } else if (hub) {
        status = hub_place(out, remote, url, err);
    } else if ((url[0] | 0x20) == 's') {
        status = s3_place(out, remote, url, err);
    } else {
        web_place(out, remote, url);
    }
    if (status == SFT_OK && (out->url.failed || out->cached.failed)) {
        status = sft__base_fail_nomem(err, strlen(url) + 64);
    }
    if (status != SFT_OK) {
        sft__remote_place_reset(out);
    }
    return status;
}
