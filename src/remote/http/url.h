/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/url.h - URLs as text: taking them apart, comparing where they lead, joining. Pure
 * functions; nothing here resolves a name or opens a connection.
 */
#ifndef SFT_REMOTE_URL_H
#define SFT_REMOTE_URL_H

#include "base/text/buf.h"
#include <sft/types.h>

/* An http or https URL. All pointers lead into the text. */
typedef struct sft__remote_url {
    bool https;
    uint32_t port;
    const char *host; /* with [] around an IPv6 address */
    size_t host_len;
    const char *path; /* begins with '/', or empty */
    size_t path_len;
    const char *query; /* begins with '?', or empty */
    size_t query_len;
} sft__remote_url;

/* False for another scheme, an empty host, a user name or password, a fragment, control characters,
 * blanks or backslashes. */
bool sft__remote_url_parse(sft__remote_url *out, const char *text);
/* Same scheme, host and port. */
bool sft__remote_url_same_origin(const sft__remote_url *a, const sft__remote_url *b);
/* localhost, 127.0.0.0/8, [::1]. */
bool sft__remote_url_loopback(const sft__remote_url *u);
/* Does "user@" or "user:password@" stand before the host? */
bool sft__remote_url_has_login(const char *url);
/* Scheme, host and path: what may stand in a message. No user name, password or query.
 * cap >= 8; cut with "..." */
void sft__remote_url_show(char *dst, size_t cap, const char *url);

/* The URL of `name` (relative, checked) beside `base`; the base's query is kept. */
void sft__remote_url_beside(sft__base_buf *b, const char *base, const char *name);

/* The URL without the parameters that only sign it: the same bytes by another signature have the
 * same name. */
void sft__remote_url_stable(sft__base_buf *b, const char *url);
/* Does it hold such parameters? */
bool sft__remote_url_signed(const char *url);

/* Percent-escapes undone; dst: at least len bytes. Returns how many it has. */
size_t sft__remote_url_decode(char *dst, const char *text, size_t len);

enum { SFT__REVISION_MAX = 512 };

/* hf://[models/]ORG/REPO[@REVISION][/FILE]; a slash in a revision is written %2F */
typedef struct sft__remote_hub_url {
    const char *kind; /* "models", "datasets", "spaces" */
    const char *repo; /* "org/name" */
    size_t repo_len;
    const char *revision; /* "main" if none is given; escapes as they stand */
    size_t revision_len;
    const char *file; /* NULL: none */
} sft__remote_hub_url;
/* text: what follows "hf://". False: not of that form, or a name with "..", an empty part or a
 * control character. */
bool sft__remote_hub_url_parse(sft__remote_hub_url *out, const char *text);

/* s3://BUCKET/KEY: text is what follows "s3://". */
bool sft__remote_s3_url_parse(const char *text, const char **bucket, size_t *bucket_len,
                              const char **key);

/* Is it, by its path, an index (or any .json)? */
bool sft__remote_url_is_json(const char *url);
/* The last part of the path, without query. */
void sft__remote_url_base(const char *url, const char **name, size_t *len);

#endif
