/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/object.c - one file at a server: where it is asked for, which version of it was met. Read
 * first: room.h.
 */
#include "base/text/strmap.h"
#include "remote/http/transfer.h"
#include <string.h>

sft_status sft__remote_no_memory(sft_error *err, size_t size) {
    return sft_error_set(err, SFT_E_NOMEM, 0, SFT_NO_OFFSET, NULL, 0, "no memory for %llu bytes",
                         (unsigned long long)size);
}

sft_status sft__remote_object_create(sft__remote_object **out, sft_remote *remote, const char *url,
                                     sft__remote_credential credential, sft_error *err) {
    const size_t size = strlen(url) + 1;
    sft__base_buf stable;

    *out = NULL;
    SFT_TRY(sft__remote_url_allowed(remote, url, err));
    sft__remote_object *object = sft__base_alloc_zero(remote->allocator, sizeof *object);
    char *copy = object != NULL ? sft__base_alloc(remote->allocator, size) : NULL;
    sft__base_buf_init(&stable, remote->allocator);
    sft__remote_url_stable(&stable, url);
    sft__base_buf_add(&stable, "", 1);
    char *name =
        copy != NULL && !stable.failed ? sft__base_alloc(remote->allocator, stable.len) : NULL;
    if (name != NULL) {
        memcpy(name, stable.data, stable.len);
        object->stable = name;
        object->stable_size = stable.len;
    }
    const size_t name_size = stable.len;
    sft__base_buf_reset(&stable);
    if (name == NULL || !sft__base_mutex_init(&object->mutex)) {
        sft__base_free(remote->allocator, name, name_size);
        sft__base_free(remote->allocator, copy, size);
        sft__base_free(remote->allocator, object, sizeof *object);
        return sft__remote_no_memory(err, sizeof *object);
    }
    memcpy(copy, url, size);
    object->remote = remote;
    object->url = copy;
    object->url_size = size;
    object->credential = credential;
    sft__remote_hold(remote);
    *out = object;
    return SFT_OK;
}

void sft__remote_object_forget_head(sft__remote_object *object) {
    sft__base_free(object->remote->allocator, object->head, object->head_room);
    object->head = NULL;
    object->head_len = 0;
    object->head_room = 0;
}

void sft__remote_object_free(sft__remote_object *object) {
    if (object != NULL) {
        sft_remote *remote = object->remote;
        sft__remote_object_forget_head(object);
        sft__base_free(remote->allocator, object->resolved, object->resolved_size);
        sft__base_free(remote->allocator, object->url, object->url_size);
        sft__base_free(remote->allocator, object->stable, object->stable_size);
        sft__base_mutex_reset(&object->mutex);
        sft__base_free(remote->allocator, object, sizeof *object);
        sft__remote_release(remote);
    }
}

char *sft__remote_object_where(sft__remote_object *object, size_t *size, bool *redirected,
                               uint8_t *from_reach) {
    sft__base_mutex_lock(&object->mutex);
    const char *from = object->resolved != NULL ? object->resolved : object->url;
    *redirected = object->resolved != NULL;
    *from_reach = object->resolved_from;
    *size = strlen(from) + 1;
    char *copy = sft__base_alloc(object->remote->allocator, *size);
    if (copy != NULL) {
        memcpy(copy, from, *size);
    }
    sft__base_mutex_unlock(&object->mutex);
    return copy;
}

static void replace_resolved(sft__remote_object *object, char *url, size_t size, uint8_t from) {
    sft__base_mutex_lock(&object->mutex);
    sft__base_free(object->remote->allocator, object->resolved, object->resolved_size);
    object->resolved = url;
    object->resolved_size = size;
    object->resolved_from = from;
    sft__base_mutex_unlock(&object->mutex);
}

void sft__remote_object_settle(sft__remote_object *object, const char *url, uint8_t from) {
    const size_t size = strlen(url) + 1;
    char *copy = sft__base_alloc(object->remote->allocator, size);
    if (copy != NULL) {
        memcpy(copy, url, size);
    }
    replace_resolved(object, copy, copy != NULL ? size : 0, from);
}

void sft__remote_object_unsettle(sft__remote_object *object) {
    replace_resolved(object, NULL, 0, 0);
}

/* ---------------------------------------------------------------- servers without parts */

static uint64_t origin_hash(const sft_remote *remote, const char *url) {
    sft__remote_url u;
    if (!sft__remote_url_parse(&u, url)) {
        return 0;
    }
    return sft__base_hash(remote->secret, u.host, u.host_len) + u.port * 2 + (u.https ? 1 : 0);
}

bool sft__remote_multipart_refused(sft_remote *remote, const char *url) {
    const uint64_t hash = origin_hash(remote, url);
    bool found = false;

    sft__base_mutex_lock(&remote->mutex);
    for (size_t i = 0; i < sizeof remote->refused / sizeof remote->refused[0]; i++) {
        found = found || (i < remote->refused_count && remote->refused[i] == hash);
    }
    sft__base_mutex_unlock(&remote->mutex);
    return found;
}

void sft__remote_multipart_refuse(sft_remote *remote, const char *url) {
    const size_t room = sizeof remote->refused / sizeof remote->refused[0];
    const uint64_t hash = origin_hash(remote, url);

    if (!sft__remote_multipart_refused(remote, url)) {
        sft__base_mutex_lock(&remote->mutex);
        remote->refused[remote->refused_count++ % room] = hash;
        sft__base_mutex_unlock(&remote->mutex);
    }
}

/* ---------------------------------------------------------------- versions */

static void learn(sft__remote_object *object, const sft__remote_response *r, uint64_t size) {
    const uint64_t *secret = object->remote->secret;
    const uint64_t turned[2] = {secret[1] ^ size, secret[0]};
    const char *version = r->etag[0] != '\0' ? r->etag : r->modified;

    object->size = size;
    memcpy(object->etag, r->etag, sizeof object->etag);
    memcpy(object->modified, r->modified, sizeof object->modified);
    if (object->linked_etag[0] == '\0') {
        memcpy(object->linked_etag, r->linked_etag, sizeof object->linked_etag);
    }
    object->key[0] = sft__base_hash(secret, object->stable, object->stable_size);
    object->key[1] = sft__base_hash(turned, version, strlen(version));
    if (version[0] == '\0') { /* nothing tells this version from the next: not shared */
        object->key[1] ^= atomic_fetch_add(&object->remote->ticket, 1) + 1;
    }
    if (object->commit[0] == '\0') {
        memcpy(object->commit, r->commit, sizeof object->commit);
    }
    object->known = true;
}

static bool tells(const char *etag, const char *modified) {
    return etag[0] != '\0' || modified[0] != '\0';
}

static bool share(const char *a, const char *b) {
    return a[0] != '\0' && b[0] != '\0';
}

sft_status sft__remote_object_meet(sft__remote_object *object, const sft__remote_response *r,
                                   uint64_t size, sft_error *err) {
    sft_status status = SFT_OK;

    sft__base_mutex_lock(&object->mutex);
    if (!object->known) {
        learn(object, r, size);
    } else if (size != object->size) {
        status = sft_error_set(err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                               "the file changed at the server: it has %llu bytes, had %llu",
                               (unsigned long long)size, (unsigned long long)object->size);
    } else if (share(object->etag, r->etag) && strcmp(object->etag, r->etag) != 0) {
        status = sft_error_set(err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                               "the file changed at the server: its ETag is %.40s, was %.40s",
                               r->etag, object->etag);
    } else if (!share(object->etag, r->etag) && share(object->modified, r->modified) &&
               strcmp(object->modified, r->modified) != 0) {
        status = sft_error_set(err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                               "the file changed at the server: it is of %s, was of %s",
                               r->modified, object->modified);
    } else if (!share(object->etag, r->etag) && !share(object->modified, r->modified) &&
               (tells(object->etag, object->modified) || tells(r->etag, r->modified))) {
        status = sft_error_set(err, SFT_E_CHANGED, 0, SFT_NO_OFFSET, NULL, 0,
                               "the file may have changed at the server: an answer %s",
                               !tells(r->etag, r->modified) ? "does not tell its version any more"
                               : !tells(object->etag, object->modified)
                                   ? "tells a version, and the first one told none"
                                   : "tells its version in another way than the first one");
    }
    sft__base_mutex_unlock(&object->mutex);
    return status;
}
