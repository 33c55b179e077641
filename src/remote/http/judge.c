/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/judge.c - what an answer means, before a byte of its body is taken. Nothing here sends or
 * waits.
 *
 *  - 206: exactly from the byte that was asked for, not beyond the last one, of the known size and
 *    version, not encoded, in one part: taken. Shorter than asked: taken, the rest is asked for
 *    at once if it was worth a request, else after a while. In parts, if several ranges were asked
 *    for: taken, each part judged as it comes.
 *  - 200, the whole file: taken while what is wanted lies within the budget from its start, or to
 *    the end if nothing else is to be had and the whole is wanted.
 *  - 3xx: followed if allowed.
 *  - 408 425 429 500 502 503 504: tried again.
 *  - 416: an empty file, or a fault.
 *  - 401 403 404 410 at an address that a redirect gave earlier: once more at the object's own.
 *  - Whatever else comes when several ranges were asked for: one at a time from then on.
 *  - Everything else is the end.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "remote/http/curl.h"
#include "remote/http/transfer.h"
#include <stdio.h>
#include <string.h>

static void note(sft__remote_exchange *x, sft_status status, int32_t sys, const char *text) {
    x->failure_status = status;
    x->failure_sys = sys;
    const size_t len = strlen(text) < sizeof x->failure ? strlen(text) : sizeof x->failure - 1;
    memcpy(x->failure, text, len);
    x->failure[len] = '\0';
}

static void fail(sft__remote_exchange *x, sft_status status, int32_t sys, const char *text) {
    note(x, status, sys, text);
    x->verdict = SFT__FAIL;
}

void sft__remote_exchange_fault(sft__remote_exchange *x, const char *fault) {
    char text[200];
    (void)snprintf(text, sizeof text, "the answer (HTTP %d) is refused: %s", x->response.status,
                   fault);
    fail(x, SFT_E_HTTP, x->response.status, text);
}

void sft__remote_exchange_note(sft__remote_exchange *x, const char *more) {
    const size_t len = strlen(x->failure);
    (void)snprintf(x->failure + len, sizeof x->failure - len, "%s%s", len > 0 ? "; " : "", more);
}

/* The words of a server may repeat what it was sent. */
static bool repeats_secret(const sft__remote_exchange *x, const char *text) {
    const sft__remote_object *object = x->get->object;
    const sft_remote_options *o = &object->remote->settings.o;
    const char *const secrets[] = {o->hf_token, o->s3_access_key, o->s3_secret_key,
                                   o->s3_session_token};

    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        if (secrets[i] != NULL && sft__remote_mentions(text, secrets[i], strlen(secrets[i]))) {
            return true;
        }
    }
    return sft__remote_mentions_query(text, x->url) ||
           sft__remote_mentions_query(text, object->url);
}

void sft__remote_exchange_explain(sft__remote_exchange *x) {
    char text[SFT__REASON_MAX];

    sft__remote_reason(text, sizeof text, x->why, x->why_len);
    if (text[0] == '\0') {
        memcpy(text, x->response.problem, sizeof text);
    }
    if (text[0] != '\0') {
        sft__remote_exchange_note(
            x, repeats_secret(x, text) ? "the server's words repeat a credential" : text);
    }
    x->explaining = false;
}

sft_status sft__remote_exchange_fail(sft__remote_exchange *x) {
    const sft__remote_get *get = x->get;
    char shown[150];

    sft__remote_url_show(shown, sizeof shown, x->url);
    (void)sft_error_at(&x->get->err, x->failure_status, x->at, NULL, 0, "%s: bytes %llu-%llu: %s",
                       shown, (unsigned long long)get->offset,
                       (unsigned long long)(get->offset + get->size - 1), x->failure);
    x->get->err.sys = x->failure_sys;
    return x->failure_status;
}

sft_status sft__remote_exchange_stopped(sft__remote_exchange *x, sft_status status) {
    note(x, status, 0, status == SFT_E_NOMEM ? "out of memory" : "cancelled");
    return sft__remote_exchange_fail(x);
}

void sft__remote_exchange_plain(sft__remote_exchange *x) {
    x->plain = true;
    sft__remote_multipart_refuse(x->get->object->remote, x->url);
}

/* ---------------------------------------------------------------- heads */

/* Several ranges were asked for, and so it comes. */
static void judge_parts(sft__remote_exchange *x) {
    const sft__remote_response *r = &x->response;
    sft_error why;

    if (sft__remote_object_meet(x->get->object, r, x->get->object->size, &why) != SFT_OK) {
        fail(x, (sft_status)why.status, 0, why.message);
    } else if (r->boundary[0] == '\0' || r->has_range) {
        sft__remote_exchange_plain(x);
        x->verdict = SFT__PLAIN;
    } else {
        sft__remote_multipart_init(&x->parts, r->boundary, x->get->object->size, x->stop, x->asked);
        x->in_parts = true;
        x->verdict = SFT__TAKE;
    }
}

static void judge_206(sft__remote_exchange *x) {
    const sft__remote_response *r = &x->response;
    sft__remote_object *object = x->get->object;
    const uint64_t end = x->stop;
    sft_error why;

    if (r->parts && x->asked > 1 && object->known) {
        judge_parts(x);
    } else if (r->parts || !r->has_range) {
        sft__remote_exchange_fault(x, r->parts ? "it comes in several parts"
                                               : "it has no Content-Range");
    } else if (r->first != x->at || r->last >= end) {
        char text[160];
        (void)snprintf(text, sizeof text, "its Content-Range is %llu-%llu, asked was %llu-%llu",
                       (unsigned long long)r->first, (unsigned long long)r->last,
                       (unsigned long long)x->at, (unsigned long long)(end - 1));
        sft__remote_exchange_fault(x, text);
    } else if (r->has_length && r->length != r->last - r->first + 1) {
        sft__remote_exchange_fault(x, "Content-Length and Content-Range disagree");
    } else if (!r->has_total && !object->known) {
        sft__remote_exchange_fault(x, "its Content-Range does not tell the size of the file");
    } else if (sft__remote_object_meet(object, r, r->has_total ? r->total : object->size, &why) !=
               SFT_OK) {
        fail(x, (sft_status)why.status, 0, why.message);
    } else {
        x->verdict = SFT__TAKE;
        x->pos = r->first;
        if (x->asked > 1 && r->last + 1 < end) { /* one of several ranges, which is well so */
            sft__remote_exchange_plain(x);
            x->stop = r->last + 1;
        }
    }
}

/* No ranges are served: whoever wants the whole asks for it in one go. */
static void note_whole_only(sft__remote_object *object) {
    sft__base_mutex_lock(&object->mutex);
    object->whole_only = true;
    sft__base_mutex_unlock(&object->mutex);
}

static void judge_200(sft__remote_exchange *x) {
    const sft__remote_response *r = &x->response;
    sft__remote_object *object = x->get->object;
    const uint64_t budget = object->remote->settings.o.whole_bytes;
    const uint64_t end = x->stop;
    sft_error why;

    if (!r->has_length && !object->known) {
        sft__remote_exchange_fault(x, "the whole file instead of a range, and no Content-Length");
        return;
    }
    if (sft__remote_object_meet(object, r, r->has_length ? r->length : object->size, &why) !=
        SFT_OK) {
        fail(x, (sft_status)why.status, 0, why.message);
        return;
    }
    note_whole_only(object);
    if (x->asked > 1) {
        sft__remote_exchange_plain(x);
        x->verdict = SFT__PLAIN;
    } else if (x->get->whole) { /* again from the start, if it is not the first time */
        x->pos = 0;
        x->verdict = SFT__TAKE;
    } else if (end > budget && x->at != 0) {
        sft__remote_exchange_fault(
            x, "the whole file instead of a range, which lies beyond the budget for that");
    } else if (end > budget && !x->get->first && x->get->size < object->size) {
        sft__remote_exchange_fault(x, "the whole file instead of a range");
    } else {
        x->pos = 0;
        x->verdict = SFT__TAKE;
    }
}

static void judge_416(sft__remote_exchange *x) {
    const sft__remote_response *r = &x->response;
    sft__remote_object *object = x->get->object;
    sft_error why;

    if (r->has_total && r->total == 0 && x->get->first && !object->known) {
        if (sft__remote_object_meet(object, r, 0, &why) == SFT_OK) {
            x->verdict = SFT__DONE;
            return;
        }
    }
    if (object->known && r->has_total && r->total != object->size) {
        fail(x, SFT_E_CHANGED, 416, "the file changed at the server: it has another size now");
    } else if (x->asked > 1) {
        sft__remote_exchange_plain(x);
        x->verdict = SFT__PLAIN;
    } else {
        fail(x, SFT_E_HTTP, 416, "HTTP 416: the server says that there is no such range");
    }
}

static const char *words(int status) {
    switch (status) {
    case 400:
        return "bad request";
    case 401:
        return "not authorized";
    case 403:
        return "forbidden";
    case 404:
        return "not found";
    case 408:
        return "timed out at the server";
    case 410:
        return "gone";
    case 412:
        return "precondition failed";
    case 429:
        return "too many requests";
    case 500:
        return "server error";
    case 502:
        return "bad gateway";
    case 503:
        return "not available";
    case 504:
        return "gateway timed out";
    default:
        return "";
    }
}

static void judge_other(sft__remote_exchange *x, int status) {
    const bool again = status == 408 || status == 425 || status == 429 || status == 500 ||
                       status == 502 || status == 503 || status == 504;
    const bool address = status == 401 || status == 403 || status == 404 || status == 410;
    const char *word = words(status);
    char text[120];

    (void)snprintf(text, sizeof text, "HTTP %d%s%s%s", status, word[0] != '\0' ? ": " : "", word,
                   status != 401 && status != 403 ? ""
                   : x->sent_credential           ? ", although a credential was sent"
                                                  : ", no credential was sent");
    note(x, SFT_E_HTTP, status, text);
    x->verdict = address && x->cached_redirect ? SFT__HOME : again ? SFT__DROP : SFT__FAIL;
    x->explaining = x->verdict != SFT__HOME;
    if (x->asked > 1 && x->verdict == SFT__FAIL) { /* perhaps it is only that they are many */
        sft__remote_exchange_plain(x);
        x->verdict = SFT__PLAIN;
        x->explaining = false;
    }
}

void sft__remote_exchange_judge(sft__remote_exchange *x) {
    const int status = x->response.status;
    sft__remote_object *object = x->get->object;

    if (x->response.fault != NULL) {
        sft__remote_exchange_fault(x, x->response.fault);
        return;
    }
    if ((status == 200 || status == 206) && x->response.encoded) {
        sft__remote_exchange_fault(x, "it is compressed, which was not asked for");
        return;
    }
    switch (status) {
    case 206:
        judge_206(x);
        break;
    case 200:
        judge_200(x);
        break;
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        sft__base_mutex_lock(&object->mutex);
        if (!object->known &&
            sft__remote_exchange_at_home(x)) { /* what the hub says of the file behind it */
            memcpy(object->linked_etag, x->response.linked_etag, sizeof object->linked_etag);
            memcpy(object->commit, x->response.commit, sizeof object->commit);
        }
        sft__base_mutex_unlock(&object->mutex);
        x->verdict = SFT__REDIRECT;
        break;
    case 412:
        fail(x, SFT_E_CHANGED, 412, "the file changed at the server");
        break;
    case 416:
        judge_416(x);
        break;
    default:
        judge_other(x, status);
    }
}

/* ---------------------------------------------------------------- ends */

bool sft__remote_exchange_whole(sft__remote_exchange *x) {
    const uint64_t end = x->get->offset + x->get->size;
    char text[120];

    if (x->at == end || (x->get->first && x->at >= x->get->object->size)) {
        return true;
    }
    (void)snprintf(text, sizeof text, "the answer ended after %llu of %llu bytes",
                   (unsigned long long)(x->at - x->get->offset), (unsigned long long)x->get->size);
    note(x, SFT_E_HTTP, x->response.status, text);
    return false;
}

bool sft__remote_exchange_hopeless(int code) {
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CIPHER ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
           code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_SSL_ISSUER_ERROR ||
           code == CURLE_NOT_BUILT_IN || code == CURLE_SSL_ENGINE_NOTFOUND ||
           code == CURLE_AUTH_ERROR;
}

void sft__remote_exchange_broken(sft__remote_exchange *x, int code, const char *text) {
    char line[200];
    const bool tls = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                     code == CURLE_SSL_CONNECT_ERROR;
    const bool told =
        x->reason[0] != '\0' && strchr(x->reason, '@') == NULL; /* a proxy's login, perhaps */
    (void)snprintf(line, sizeof line, "%s%.150s", tls ? "TLS: " : "", told ? x->reason : text);
    note(x, SFT_E_HTTP, 0, line);
}

void sft__remote_exchange_stalled(sft__remote_exchange *x) {
    const sft_remote_options *o = &x->get->object->remote->settings.o;
    char text[120];
    (void)snprintf(text, sizeof text, "stalled: %llu bytes came in %u ms",
                   (unsigned long long)x->window_bytes, (unsigned)o->stall_ms);
    note(x, SFT_E_HTTP, 0, text);
}

/* ---------------------------------------------------------------- redirects */

bool sft__remote_exchange_at_home(const sft__remote_exchange *x) {
    sft__remote_url home;
    sft__remote_url now;
    return sft__remote_url_parse(&home, x->get->object->url) &&
           sft__remote_url_parse(&now, x->url) && sft__remote_url_same_origin(&home, &now);
}

static bool replace_url(sft__remote_exchange *x, const char *to) {
    const sft_allocator *a = x->get->object->remote->allocator;
    const size_t size = strlen(to) + 1;
    char *copy = sft__base_alloc(a, size);

    if (copy == NULL) {
        return false;
    }
    memcpy(copy, to, size);
    sft__base_free(a, x->url, x->url_size);
    x->url = copy;
    x->url_size = size;
    return true;
}

/* Why a redirect is refused, or NULL; as far as its text says. Where a name leads is known when it
 * is about to be connected to. from: of the server that gave it. */
static const char *refuse(const sft__remote_exchange *x, const char *to,
                          sft__remote_reach from_reach) {
    const sft_remote *remote = x->get->object->remote;
    sft__remote_reach reach;
    sft__remote_url from;
    sft__remote_url next;

    if (!sft__remote_url_parse(&from, x->url) || !sft__remote_url_parse(&next, to)) {
        return sft__remote_url_has_login(to) ? "it holds a user name or a password"
                                             : "only http and https are followed";
    }
    if (from.https && !next.https) {
        return "it leads from https to http";
    }
    if (!next.https && !sft__remote_url_loopback(&next) &&
        (remote->settings.o.flags & SFT_REMOTE_ALLOW_HTTP) == 0) {
        return "http is allowed to this machine only";
    }
    return sft__remote_reach_literal(next.host, next.host_len, &reach)
               ? sft__remote_reach_refusal(from_reach, reach)
               : NULL;
}

bool sft__remote_exchange_may_reach(sft__remote_exchange *x, sft__remote_reach to) {
    const uint32_t flags = x->get->object->remote->settings.o.flags;
    const char *why =
        x->redirected ? sft__remote_reach_refusal((sft__remote_reach)x->from, to) : NULL;
    sft__remote_url u;

    if (why == NULL && to != SFT__REACH_SELF && (flags & SFT_REMOTE_ALLOW_HTTP) == 0 &&
        (!sft__remote_url_parse(&u, x->url) || !u.https)) {
        why = "http is allowed to this machine only, and its name leads to another";
    }
    x->refused = why != NULL ? why : x->refused;
    return why == NULL;
}

void sft__remote_exchange_refused(sft__remote_exchange *x) {
    char text[200];
    char shown[90];

    sft__remote_url_show(shown, sizeof shown, x->url);
    (void)snprintf(text, sizeof text, "%s%s is refused: %s", x->redirected ? "a redirect to " : "",
                   shown, x->refused);
    note(x, SFT_E_PATH, 0, text);
}

sft_status sft__remote_exchange_follow(sft__remote_exchange *x, const char *to,
                                       sft__remote_reach from) {
    const uint32_t most = x->get->object->remote->settings.o.redirects;
    char text[200];
    char shown[90];

    if (to == NULL) {
        sft__remote_exchange_fault(x, "a redirect without an address");
        return sft__remote_exchange_fail(x);
    }
    sft__remote_url_show(shown, sizeof shown, to);
    if (x->redirects >= most) {
        (void)snprintf(text, sizeof text, "more than %u redirects, the last to %s", (unsigned)most,
                       shown);
        note(x, SFT_E_HTTP, x->response.status, text);
        return sft__remote_exchange_fail(x);
    }
    const char *why = refuse(x, to, from);
    if (why != NULL) {
        (void)snprintf(text, sizeof text, "a redirect to %s is refused: %s", shown, why);
        note(x, SFT_E_PATH, x->response.status, text);
        return sft__remote_exchange_fail(x);
    }
    SFT_NEED(replace_url(x, to), strlen(to) + 1, &x->get->err);
    x->redirects++;
    x->from = (uint8_t)from;
    x->redirected = true;
    x->moved = true;
    x->cached_redirect = false;
    return SFT_OK;
}

bool sft__remote_exchange_go_home(sft__remote_exchange *x) {
    sft__remote_object_unsettle(x->get->object);
    x->moved = false;
    x->redirected = false;
    x->cached_redirect = false;
    return replace_url(x, x->get->object->url);
}
