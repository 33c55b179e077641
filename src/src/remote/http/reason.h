/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/reason.h - what a server says of an error, in its own words: S3's XML, the hub's and other
 * APIs' JSON. Pure functions over hostile text.
 */
#ifndef SFT_REMOTE_REASON_H
#define SFT_REMOTE_REASON_H

#include <stdbool.h>
#include <stddef.h>

enum { SFT__REASON_BODY = 4096, SFT__REASON_MAX = 160, SFT__REASON_SECRET = 4096 };

/* "AccessDenied: Request has expired" of the body of an error: <Code> and <Message> of XML;
 * "error", "message" or "detail" of a JSON object, that may be cut short. dst: cap bytes,
 * NUL-terminated, blanks in place of control characters; "" if there is nothing of the kind (a web
 * page). */
void sft__remote_reason(char *dst, size_t cap, const char *body, size_t len);

/* Does the text (of less than SFT__REASON_MAX bytes) hold this secret (of 6 bytes and more), or a good
 * part of it: half, but 6 bytes at least and 16 at most, in large or small letters, with escapes of
 * URLs, JSON or XML, or in base64? Of longer ones the first SFT__REASON_SECRET bytes count. */
bool sft__remote_mentions(const char *text, const char *secret, size_t len);
/* Does it hold a value of the query, or what stands before the '@' of the URL? */
bool sft__remote_mentions_query(const char *text, const char *url);

#endif
