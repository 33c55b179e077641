/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/response.h - the head of an HTTP answer, line by line (RFC 9110): the few fields that
 * matter, read strictly. Pure functions over hostile text. A field that is given twice with
 * different values is a fault.
 */
#ifndef SFT_REMOTE_RESPONSE_H
#define SFT_REMOTE_RESPONSE_H

#include "base/compiler.h"
#include "remote/http/multipart.h"
#include "remote/http/reason.h"
#include <sft/types.h>

enum { SFT__ETAG_MAX = 255 };

typedef struct sft__remote_response {
    int status;
    bool complete;  /* the blank line was seen */
    bool has_range; /* Content-Range: bytes first-last/total */
    bool has_total; /* its total is a number; also in the form without a range, which goes with 416
                     */
    bool has_length;
    bool encoded;                         /* Content-Encoding other than identity */
    bool parts;                           /* multipart/byteranges */
    char boundary[SFT__BOUNDARY_MAX + 1]; /* of the parts; "": none that makes sense */
    bool has_retry;
    bool retry_is_date;
    uint64_t first;
    uint64_t last;
    uint64_t total;
    uint64_t length;
    uint64_t retry; /* seconds, or seconds since 1970 */
    uint64_t head_bytes;
    const char *fault;            /* static sentence, or NULL */
    char etag[SFT__ETAG_MAX + 1]; /* with its quotes; "" if none or too long */
    char modified[40];            /* Last-Modified as it stands */
    /* X-Linked-Etag: of the file behind a redirect (the hub) */
    char linked_etag[SFT__ETAG_MAX + 1];
    char commit[65];               /* X-Repo-Commit (the hub) */
    char problem[SFT__REASON_MAX]; /* X-Error-Message (the hub) */
} sft__remote_response;

void sft__remote_response_init(sft__remote_response *r);
/* One line of the head, its line end included or not. A status line begins the head of a new
 * answer. */
void sft__remote_response_line(sft__remote_response *r, const char *line, size_t len);

/* "bytes 0-99/1234", or with an asterisk for the range or for the total. False: none of these. */
bool sft__remote_content_range(const char *text, size_t len, sft__remote_response *r);
/* Seconds since 1970 of an HTTP date in its three forms; false: none. */
bool sft__remote_http_date(const char *text, size_t len, uint64_t *seconds);
/* Milliseconds to wait, at `now` (seconds since 1970); 0 if nothing was said. */
uint64_t sft__remote_retry_after_ms(const sft__remote_response *r, uint64_t now);
/* An entity tag that may stand in If-Range: quoted and not weak. */
bool sft__remote_etag_strong(const char *etag);
/* The 64 hex digits of a SHA-256, if the tag is one (quotes aside). */
bool sft__remote_etag_sha256(const char *etag, uint8_t digest[32]);

#endif
