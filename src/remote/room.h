/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/room.h - the objects of this library: the sft_remote with its settings, what is known of
 * one file at a server, one wanted range of it. remote.c makes and ends a sft_remote; transfer.c
 * carries out gets; source.c turns reads into gets; cache.c keeps blocks; hub.c knows Hugging Face;
 * open.c makes catalogs; fetch.c downloads. Of curl only transfer.c knows.
 */
#ifndef SFT_REMOTE_ROOM_H
#define SFT_REMOTE_ROOM_H

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/thread/thread.h"
#include "remote/http/address.h"
#include "remote/http/curl.h"
#include "remote/http/response.h"
#include "remote/http/url.h"
#include <sft/extend.h>
#include <sft/remote.h>
#include <stdatomic.h>

typedef struct sft__remote_lane sft__remote_lane;
typedef struct sft__remote_cache sft__remote_cache;
typedef struct sft__remote_disk sft__remote_disk;
typedef struct sft__remote_pin sft__remote_pin;

enum { SFT__COMMIT_MAX = 64 };

/* Options with defaults filled in; its strings are in `strings`. */
typedef struct sft__remote_settings {
    sft_remote_options o;
    sft__remote_proxies proxies;
    sft__base_arena strings;
} sft__remote_settings;

struct sft_remote {
    const sft_allocator *allocator;
    atomic_size_t references; /* the caller's, and one per open object */
    sft__remote_curl curl;
    sft__remote_settings settings;
    sft__base_mutex mutex;       /* lanes, cache, control, pins */
    const sft__remote_pin *pins; /* branches of the hub, and the commit that each is here */
    sft__base_arena pinned;
    sft__remote_lane *lanes; /* idle ones */
    sft__remote_cache *cache;
    sft__remote_disk *disk; /* or NULL */
    atomic_uint active;     /* transfers under way in all lanes */
    uint64_t secret[2];     /* of hashes and jitter */
    uint64_t refused[8]; /* hashes of the last servers that do not serve several ranges at once */
    size_t refused_count;
    atomic_uint_fast64_t ticket;
    atomic_uint_fast64_t requests;
    atomic_uint_fast64_t bytes;
    atomic_uint_fast64_t retries;
    atomic_uint_fast64_t redirects;
    atomic_uint_fast64_t cache_hits;
};

void sft__remote_hold(sft_remote *remote);
void sft__remote_release(sft_remote *remote);

typedef enum sft__remote_credential {
    SFT__ANONYMOUS = 0,
    SFT__BEARER = 1,
    SFT__SIGV4 = 2
} sft__remote_credential;

/* One file at a server. Facts are set by the first answer and never change after that. */
typedef struct sft__remote_object {
    sft_remote *remote;
    char *url; /* where it is asked for; credentials go to this origin alone */
    size_t url_size;
    char *stable; /* its name in the caches: the same whoever signed it */
    size_t stable_size;
    sft__remote_credential credential;
    sft__base_mutex mutex; /* the rest */
    char *resolved;        /* where redirects led the last time, or NULL */
    size_t resolved_size;
    uint8_t resolved_from; /* sft__remote_reach of the server that said so */
    bool whole_only;       /* answered with the whole file instead of a range */
    bool known;
    uint64_t size;
    uint64_t key[2]; /* names this version of it in the caches */
    char etag[SFT__ETAG_MAX + 1];
    char modified[40];
    char linked_etag[SFT__ETAG_MAX + 1];
    char commit[SFT__COMMIT_MAX + 1]; /* of the hub */
    /* The beginning, as far as it was fetched at opening; freed by sft__remote_object_forget_head. */
    uint8_t *head;
    size_t head_len;
    size_t head_room;
} sft__remote_object;

/* url: copied. */
sft_status sft__remote_object_create(sft__remote_object **out, sft_remote *remote, const char *url,
                                     sft__remote_credential credential, sft_error *err);
void sft__remote_object_free(sft__remote_object *object); /* NULL is fine */

enum {
    SFT__SHORT = 1 << 20,     /* longer ranges are not cached in memory and not joined */
    SFT__JOIN_GAP = 64 << 10, /* bytes that cost less than a request: gap_bytes, if nobody says */
    SFT__RANGES_MAX = 200     /* in one request: more are refused by Apache as it comes */
};

typedef struct sft__remote_range {
    uint64_t offset;
    uint64_t size;
} sft__remote_range;

/* Bytes of an object that are wanted. */
typedef struct sft__remote_get {
    sft__remote_object *object;
    uint64_t offset;
    uint64_t size;
    bool first; /* the object is not known yet; it may be shorter than offset + size */
    bool bulk;  /* long: a connection of its own rather than a part of one */
    bool share; /* may be cut in two for a connection that has nothing to do: `size` then becomes
                 * less, and a copy of this get brings the rest; `ended` must be NULL */
    /* NULL: all from offset on. Else what of it is wanted: ascending, with gaps between them, the
     * first beginning at offset, the last ending at offset + size. Asked for in one request where
     * the server serves such, otherwise run by run with the small gaps. */
    const sft__remote_range *ranges;
    size_t range_count;
    bool whole; /* the server has no ranges: its whole file is read to where `size` ends */
    /* Takes bytes as they come, ascending. Other than SFT_OK ends the get with this and *err. */
    sft_status (*put)(void *ctx, uint64_t offset, const uint8_t *data, size_t size, sft_error *err);
    void *ctx;
    /* Called when it has ended, whatever the result; may be NULL. */
    void (*ended)(struct sft__remote_get *get);
    /* Results. got < size only with first. */
    uint64_t got;
    sft_status status;
    sft_error err;
} sft__remote_get;

typedef struct sft__remote_gets {
    sft__remote_get *gets;
    size_t count;
    size_t most;                /* at once; 0: settings.connections */
    bool all;                   /* the failure of one does not stop the others */
    const sft_control *control; /* may be NULL */
} sft__remote_gets;

/* Carries the gets out and returns when all have ended. The status is that of the first that failed, in
 * the order of the array. */
sft_status sft__remote_transfer(sft_remote *remote, const sft__remote_gets *list, sft_error *err);
void sft__remote_lanes_free(sft_remote *remote);
/* Does the server of this URL not serve several ranges in one answer, as far as is known? */
bool sft__remote_multipart_refused(sft_remote *remote, const char *url);
void sft__remote_multipart_refuse(sft_remote *remote, const char *url);

/* Facts from the first good answer, or a comparison with them. */
sft_status sft__remote_object_meet(sft__remote_object *object, const sft__remote_response *r,
                                   uint64_t size, sft_error *err);

/* ---------------------------------------------------------------- source.c */

/* A source over an object; the object is taken over if this succeeds. Its size must be known. */
sft_status sft__remote_source_over(sft_source **out, sft__remote_object *object, sft_error *err);
/* The beginnings of objects that are not known yet. Each object's own result is in statuses[i], whose HTTP
 * status in https[i]. */
typedef struct sft__remote_beginnings {
    sft__remote_object *const *objects;
    size_t count;
    size_t first; /* bytes of each; 0: settings.first_bytes */
    bool headers; /* of safetensors files: also the rest of each header, up to `limit` bytes */
    uint64_t limit;
    sft_status *statuses;
    int32_t *https; /* may be NULL */
} sft__remote_beginnings;

/* All at once. err: of the first that failed. */
sft_status sft__remote_objects_begin(const sft__remote_beginnings *b, sft_error *err);
void sft__remote_object_forget_head(sft__remote_object *object);

/* ---------------------------------------------------------------- cache.c */

enum { SFT__BLOCK = 16 << 10 };

sft_status sft__remote_cache_create(sft__remote_cache **out, uint64_t bytes,
                                    const sft_allocator *allocator, sft_error *err);
void sft__remote_cache_free(sft__remote_cache *cache);
/* Copies block `index` of the version `key` to dst (size bytes: SFT__BLOCK, less at the end of the
 * file). */
bool sft__remote_cache_get(sft__remote_cache *cache, const uint64_t key[2], uint64_t index,
                           uint8_t *dst, size_t size);
void sft__remote_cache_put(sft__remote_cache *cache, const uint64_t key[2], uint64_t index,
                           const uint8_t *data, size_t size);

/* ---------------------------------------------------------------- hub.c */

/* Fills what is NULL or 0 in the settings from the environment. Strings go to the arena. */
sft_status sft__remote_environment(sft__remote_settings *s, sft_error *err);

/* An operand: where its parts are. */
typedef struct sft__remote_place {
    sft__base_buf url; /* NUL-terminated */
    /* path of the same in the local cache, NUL-terminated; length 0: not there */
    sft__base_buf cached;
    sft__remote_credential credential;
    bool repository; /* no file was named: url and cached are those of a directory, ending in '/' */
    bool perhaps_directory; /* what was named may be one: known when no file has that name */
    bool hub;
    size_t revision_at; /* of the hub: where the revision stands in the URL */
    size_t revision_len;
} sft__remote_place;
sft_status sft__remote_place_find(sft__remote_place *out, sft_remote *remote, const char *url,
                                  sft_error *err);
void sft__remote_place_reset(sft__remote_place *place);
/* The commit (as the hub told it, or "") in the place of a branch, so that all files are of one
 * state; with SFT_REMOTE_ONE_COMMIT the branch stays this commit. */
sft_status sft__remote_place_pin(sft__remote_place *place, sft_remote *remote, const char *commit,
                                 sft_error *err);
/* May this URL be asked at all: http only to this machine or if allowed. */
sft_status sft__remote_url_allowed(const sft_remote *remote, const char *url, sft_error *err);

/* Is there a regular file (directory: any)? */
bool sft__remote_path_exists(const char *path);

/* ---------------------------------------------------------------- open.c */

/* A file of a model: from the local cache, or an object at a server; exactly one of the two. */
typedef struct sft__remote_part {
    const char *name; /* relative to the place */
    sft_source *local;
    sft__remote_object *object;
} sft__remote_part;

/* What a URL led to. The objects belong to the sources, those to the catalog. */
typedef struct sft__remote_opened_file {
    const char *name; /* relative to the place */
    sft_source *source;
    sft__remote_object *object; /* NULL: from the local cache */
} sft__remote_opened_file;

typedef struct sft__remote_opened {
    sft_catalog *catalog;
    sft_source *index; /* NULL: there is none */
    sft__remote_object *index_object;
    sft__remote_opened_file *files;
    size_t count;
    size_t room;
    sft__base_arena names;
    sft__remote_place place;
} sft__remote_opened;
sft_status sft__remote_open(sft__remote_opened *out, sft_remote *remote, const char *url,
                            const sft_open_options *options, sft_error *err);
void sft__remote_opened_reset(sft__remote_opened *opened, sft_remote *remote);

#endif
