/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/remote.h - models behind URLs: headers, tensors and slices over HTTP and S3, and whole
 * downloads. A library of its own, libsafetensors-remote (libcurl); link it beside libsafetensors.
 *
 * Caveats first.
 *  - What is open is pinned to the version met first (ETag, else Last-Modified, and the size): a
 *    file that changes at the server is SFT_E_CHANGED at the next read. A server that sends neither
 *    is not pinned.
 *  - A server that ignores ranges serves what begins within `whole_bytes` of the file's start, no
 *    more; sft_remote_fetch of whole files reads them in one go.
 *  - The local Hugging Face cache is believed: a branch that it has is not asked for at the hub
 *    again (SFT_REMOTE_NO_HUB_CACHE asks always).
 *  - All files of one catalog or download are of one commit of the hub's branch: the one that the
 *    cache has, or the one that the hub named first. SFT_REMOTE_ONE_COMMIT makes that so for all that
 *    a sft_remote opens; who wants to see a branch move then makes a new one.
 *  - Many short ranges that lie far apart (columns) are asked for in one request. A server that
 *    does not serve several ranges at once, and S3, sends the gaps up to 64 KiB (gap_bytes) with them.
 *  - TLS certificates are always verified; there is no switch for that. A redirect never leads from
 *    https to http, nor to anything but these two, nor from a public address to a private one, nor
 *    from another machine to this one (docs/remote.md); another host never sees a credential. Behind
 *    a proxy only literal addresses are checked.
 *  - Error messages and names of sources leave out the query of a URL, which may be a secret.
 *
 * URLs:
 *  - https://host/path; http:// only to this machine, unless SFT_REMOTE_ALLOW_HTTP
 *  - hf://[models/]ORG/REPO[@REVISION][/FILE]; also hf://datasets/..., hf://spaces/...; a slash in a
 *    revision is written %2F. FILE may be a directory with a model, if no file has that name
 *  - s3://BUCKET/KEY
 * Each names a .safetensors file or an *.index.json (its shards lie beside it). hf://ORG/REPO alone
 * is the model of the repository: its model.safetensors.index.json, model.safetensors, or what it
 * has of weights.
 *
 * Threads: a sft_remote may be used by many at once; so may sources and catalogs, as everywhere.
 * Transfers run in the calling threads: there are no others. Reads of many ranges have many
 * transfers under way.
 */
#ifndef SFT_REMOTE_H
#define SFT_REMOTE_H

#include <sft/open.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sft_remote sft_remote;

/* Take what is NULL or 0 below from HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE,
 * HF_HUB_OFFLINE, HF_HUB_DISABLE_IMPLICIT_TOKEN, XDG_CACHE_HOME, AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3,
 * AWS_ENDPOINT_URL, SSL_CERT_FILE, CURL_CA_BUNDLE, SFT_REMOTE_GAP (gap_bytes; 0: none) and the proxy
 * variables of libcurl. Without it no
 * variable and no file of the user's is looked at. */
#define SFT_REMOTE_ENVIRONMENT  1u
#define SFT_REMOTE_ALLOW_HTTP   2u  /* http:// to any host */
#define SFT_REMOTE_OFFLINE      4u  /* hf:// from the local cache; all else is SFT_E_HTTP */
#define SFT_REMOTE_NO_HUB_CACHE 8u  /* do not look into the local Hugging Face cache */
#define SFT_REMOTE_ONE_COMMIT   16u /* a branch of the hub stays the commit that was met first */

typedef struct sft_remote_options {
    size_t struct_size;
    const sft_allocator *allocator; /* must outlive the sft_remote and all that it opened */
    const char *hf_endpoint;        /* default https://huggingface.co */
    const char *hf_token;           /* sent to the endpoint's scheme, host and port alone */
    const char *hf_cache;           /* directory of models--ORG--REPO; default: none */
    const char *s3_endpoint;        /* default https://BUCKET.s3.REGION.amazonaws.com */
    const char *s3_region;          /* default us-east-1 */
    const char *s3_access_key;      /* NULL: requests are not signed */
    const char *s3_secret_key;
    const char *s3_session_token;
    const char *ca_file;    /* PEM; default: the system's */
    const char *proxy;      /* default: none, or the environment's */
    const char *disk_cache; /* directory for blocks of what was read; NULL: none. Made if missing */
    uint64_t disk_cache_bytes;   /* default 8 GiB: the oldest go first */
    uint64_t memory_cache_bytes; /* default 64 MiB, for all that this sft_remote opened */
    uint64_t whole_bytes;        /* budget where a server sends the whole file; default 8 MiB */
    uint32_t connections;        /* transfers under way at once; default 8, at most 64 */
    uint32_t retries;            /* further tries of a range without progress; default 4 */
    uint32_t connect_ms;         /* default 10,000 */
    uint32_t stall_ms;    /* less than stall_bytes within it ends a transfer; default 15,000 */
    uint32_t stall_bytes; /* default 4,096 */
    uint32_t deadline_ms; /* no further try after this; default 60,000 */
    uint32_t backoff_ms;  /* before the first retry, then doubled, with jitter; default 250 */
    uint32_t first_bytes; /* of the first read of a file; default 64 KiB */
    uint32_t redirects;   /* per request; default 5 */
    uint32_t flags;       /* SFT_REMOTE_* */
    const sft_control *control; /* asked now and then during any transfer; must outlive it */
    /* Where a server does not serve several ranges at once: gaps up to this between short ranges
     * are read over, for they take less time than a request; default 64 KiB. On a link that is
     * paid by the byte: 1, each range is a request of its own, and comes without more. */
    uint64_t gap_bytes;
} sft_remote_options;

/* Strings are copied. SFT_E_ARG for an endpoint that is no http or https URL. */
SFT_API SFT_MUST_CHECK sft_status sft_remote_create(sft_remote **out,
                                                    const sft_remote_options *options,
                                                    sft_error *err);
/* NULL is fine. Sources and catalogs that it opened stay valid. */
SFT_API void sft_remote_free(sft_remote *remote);

/* Options of sft_remote_opener. */
typedef struct sft_remote_opening {
    size_t struct_size;
    sft_remote *remote; /* NULL: asked for */
    /* Called when a URL is met, so that nobody looks for libcurl before. *remote stays its caller's. */
    sft_status (*find)(void *ctx, sft_remote **remote, sft_error *err);
    void *ctx;
} sft_remote_opening;

/* For sft_open: URLs become catalogs. Headers of many files are fetched at once: two round trips for
 * an index and its shards, three where headers are longer than first_bytes. Errors: those of
 * sft_catalog_open; SFT_E_HTTP (err->sys: the status, 0: no answer came, or offline),
 * SFT_E_CHANGED, SFT_E_PATH (a URL or redirect that is refused), SFT_E_CANCELLED. A file that is no
 * safetensors is left, with a source over its bytes, to the openers behind it. */
SFT_API const sft_opener *sft_remote_opener(void);

/* One file as a source: SFT_SOURCE_REMOTE, with batched reads. Costs one round trip. */
SFT_API SFT_MUST_CHECK sft_status sft_remote_source_open(sft_source **out, sft_remote *remote,
                                                         const char *url, sft_error *err);

/* What was done so far; all transfers of this sft_remote together. */
typedef struct sft_remote_counts {
    uint64_t requests; /* sent, those of redirects and retries included */
    uint64_t bytes;    /* of bodies received */
    uint64_t retries;
    uint64_t redirects;
    uint64_t cache_hits; /* bytes that came from the caches */
    uint64_t reserved[3];
} sft_remote_counts;
SFT_API void sft_remote_count(const sft_remote *remote, sft_remote_counts *out);

/* ---------------------------------------------------------------- downloads */

#define SFT_FETCH_REPLACE 1u /* files of these names in the directory are replaced */

typedef struct sft_fetch_options {
    size_t struct_size;
    /* With `wanted` only the tensors for which it returns other than 0 are fetched, into one new
     * file model.safetensors, with the metadata of the files they come from. */
    int (*wanted)(void *ctx, const sft_tensor *tensor);
    void *wanted_ctx;
    /* progress in bytes; cancelling keeps what is there for the next time */
    const sft_control *control;
    uint32_t flags; /* SFT_FETCH_* */
    uint32_t reserved;
    /* Called once when everything is there and proven, before the first file gets its name: what it
     * returns but SFT_OK ends the call, and what came waits for the next one. May be NULL. */
    sft_status (*ready)(void *ctx, sft_error *err);
    void *ready_ctx;
} sft_fetch_options;

typedef struct sft_fetch_result {
    uint64_t files;    /* published */
    uint64_t bytes;    /* of these */
    uint64_t resumed;  /* of these, found from an earlier try and proven */
    uint64_t kept;     /* files that were there already, with the right size and digest */
    uint64_t verified; /* files whose SHA-256 the server gave, and which have it */
    uint64_t reserved[3];
} sft_fetch_result;

/* Downloads the file, or an index and its shards, into a directory (made if missing). Everything is
 * first written beside its place as .NAME.part, with a journal of the blocks that are whole and
 * their CRC32C; a later call goes on where this one ended, if the server still has that version.
 * When all files are there, of the right size, equal to the server's SHA-256 where it gives one
 * (Hugging Face does), and on disk, they are renamed, the index last. SFT_E_EXISTS before anything
 * is fetched if a file is there already (one that has the right size and SHA-256 is kept). result
 * may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_remote_fetch(sft_remote *remote, const char *url,
                                                   const char *folder,
                                                   const sft_fetch_options *options,
                                                   sft_fetch_result *result, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
