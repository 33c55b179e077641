/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/transfer.c - gets become requests: one lane (a curl multi handle with its connections)
 * belongs to one calling thread at a time, runs up to some number of exchanges and returns when all
 * gets have ended. An exchange is one get with its redirects, retries and waits. An answer is
 * judged when its head is complete, before a byte of its body is taken (judge.c). Read first:
 * room.h.
 */
#include "remote/http/transfer.h"
#include "base/checked.h"
#include "base/text/strmap.h"
#include "base/thread/thread.h"
#include "remote/http/curl.h"
#include <stdio.h>
#include <string.h>

enum {
    SPARE_MAX = 64,
    HEAD_MAX = 64 << 10,
    POLL_MS = 50,
    PROGRESS = 256 << 10,
    ENOUGH = 16 << 10, /* bytes in an answer that was shorter than asked, to go on at once */
    HALVES = 256,
    CUT_MIN = 4 << 20, /* less is not worth another request */
    CUT_STEP = 1 << 20
};

struct sft__remote_lane {
    sft__remote_lane *next;
    const sft__remote_curl *curl;
    void *multi;
    void *spare[SPARE_MAX];
    size_t spare_count;
};

typedef struct batch {
    sft_remote *remote;
    sft__remote_lane *lane;
    sft__remote_get *gets;
    size_t count;
    size_t next; /* to be begun */
    size_t most;
    bool all;
    const sft_control *control;
    sft__remote_exchange *exchanges; /* slots */
    size_t slots;
    size_t busy;
    sft__remote_get *halves; /* back halves of gets that were cut in two, or NULL */
    size_t half_count;
    bool stop; /* begin nothing more */
    sft_status stop_status;
} batch;

/* ---------------------------------------------------------------- lanes */

static void lane_free(sft__remote_lane *lane, const sft_allocator *a) {
    for (size_t i = 0; i < lane->spare_count; i++) {
        lane->curl->easy_cleanup(lane->spare[i]);
    }
    if (lane->multi != NULL) {
        (void)lane->curl->multi_cleanup(lane->multi);
    }
    sft__base_free(a, lane, sizeof *lane);
}

void sft__remote_lanes_free(sft_remote *remote) {
    while (remote->lanes != NULL) {
        sft__remote_lane *lane = remote->lanes;
        remote->lanes = lane->next;
        lane_free(lane, remote->allocator);
    }
}

static sft__remote_lane *lane_take(sft_remote *remote) {
    sft__base_mutex_lock(&remote->mutex);
    sft__remote_lane *lane = remote->lanes;
    if (lane != NULL) {
        remote->lanes = lane->next;
    }
    sft__base_mutex_unlock(&remote->mutex);
    if (lane == NULL) {
        lane = sft__base_alloc_zero(remote->allocator, sizeof *lane);
        if (lane == NULL) {
            return NULL;
        }
        lane->curl = &remote->curl;
        lane->multi = lane->curl->multi_init();
        if (lane->multi == NULL) {
            lane_free(lane, remote->allocator);
            return NULL;
        }
        (void)lane->curl->multi_setopt(lane->multi, CURLMOPT_MAXCONNECTS, 64L);
        (void)lane->curl->multi_setopt(lane->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    }
    return lane;
}

static void lane_give(sft_remote *remote, sft__remote_lane *lane) {
    sft__base_mutex_lock(&remote->mutex);
    lane->next = remote->lanes;
    remote->lanes = lane;
    sft__base_mutex_unlock(&remote->mutex);
}

/* ---------------------------------------------------------------- callbacks of curl */

static size_t on_head(char *line, size_t one, size_t len, void *ctx) {
    sft__remote_exchange *x = ctx;
    (void)one;
    if (x->body) { /* trailers */
        return len;
    }
    sft__remote_response_line(&x->response, line, len);
    if (x->response.head_bytes > HEAD_MAX) {
        x->response.fault = "its head is longer than 64 KiB";
        return 0;
    }
    if (x->response.complete && x->response.status >= 200) {
        x->body = true;
        sft__remote_exchange_judge(x);
        if (x->verdict == SFT__FAIL && !x->explaining) {
            return 0;
        }
    } else if (x->response.complete) { /* 1xx: the answer is still to come */
        const uint64_t head = x->response.head_bytes;
        sft__remote_response_init(&x->response);
        x->response.head_bytes = head;
    }
    return len;
}

static size_t on_body(char *data, size_t one, size_t len, void *ctx) {
    sft__remote_exchange *x = ctx;
    (void)one;

    atomic_fetch_add_explicit(&x->get->object->remote->bytes, len, memory_order_relaxed);
    x->window_bytes += len;
    return sft__remote_exchange_body(x, (const uint8_t *)data, len) ? len : 0;
}

/* An address is about to be connected to. */
static int on_socket(void *ctx, int purpose, struct curl_sockaddr *to) {
    sft__remote_exchange *x = ctx;

    if (purpose != CURLSOCKTYPE_IPCXN ||
        (!x->proxied &&
         !sft__remote_exchange_may_reach(x, sft__remote_reach_sockaddr((const void *)to->addr)))) {
        return CURL_SOCKET_BAD;
    }
    return sft__remote_socket_open(to->family, to->socktype, to->protocol);
}

/* A connection, new or used before, is about to carry this request. */
static int on_connected(void *ctx, char *ip, char *local, int port, int local_port) {
    sft__remote_exchange *x = ctx;
    sft__remote_reach reach = SFT__REACH_SELF;
    (void)port;
    (void)local_port;

    if (x->proxied) {
        return CURL_PREREQFUNC_OK;
    }
    if (strcmp(ip, local) != 0 && !sft__remote_reach_literal(ip, strlen(ip), &reach)) {
        reach = SFT__REACH_SELF;
    }
    return sft__remote_exchange_may_reach(x, reach) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* ---------------------------------------------------------------- one request */

static const sft__remote_curl *curl_of(const sft__remote_exchange *x) {
    return &x->get->object->remote->curl;
}

static void *easy_take(sft__remote_lane *lane) {
    if (lane->spare_count > 0) {
        void *easy = lane->spare[--lane->spare_count];
        lane->curl->easy_reset(easy);
        return easy;
    }
    return lane->curl->easy_init();
}

static void easy_give(sft__remote_lane *lane, void *easy) {
    if (lane->spare_count < SPARE_MAX) {
        lane->spare[lane->spare_count++] = easy;
    } else {
        lane->curl->easy_cleanup(easy);
    }
}

static bool header_add(const sft__remote_curl *curl, struct curl_slist **list, const char *name,
                       const char *value) {
    char line[1200];
    const int n = snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer =
        n > 0 && (size_t)n < sizeof line ? curl->slist_append(*list, line) : NULL;
    if (longer == NULL) {
        return false;
    }
    *list = longer;
    return true;
}

static bool set_credentials(sft__remote_exchange *x, void *easy, struct curl_slist **headers) {
    const sft_remote_options *o = &x->get->object->remote->settings.o;
    char text[1100];

    x->sent_credential = false;
    if (x->get->object->credential == SFT__ANONYMOUS || !sft__remote_exchange_at_home(x)) {
        return true;
    }
    x->sent_credential = true;
    if (x->get->object->credential == SFT__BEARER) {
        const int n = snprintf(text, sizeof text, "Bearer %s", o->hf_token);
        return n > 0 && (size_t)n < sizeof text &&
               header_add(curl_of(x), headers, "Authorization", text);
    }
    int n = snprintf(text, sizeof text, "aws:amz:%s:s3", o->s3_region);
    if (n < 0 || (size_t)n >= sizeof text ||
        curl_of(x)->easy_setopt(easy, CURLOPT_AWS_SIGV4, text) != CURLE_OK) {
        return false;
    }
    /* set apart, so that a colon in either is no matter */
    if (curl_of(x)->easy_setopt(easy, CURLOPT_USERNAME, o->s3_access_key) != CURLE_OK ||
        curl_of(x)->easy_setopt(easy, CURLOPT_PASSWORD, o->s3_secret_key) != CURLE_OK) {
        return false;
    }
    /* Amazon wants it in every request; that of no body at all. */
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    if (!header_add(curl_of(x), headers, "x-amz-content-sha256", empty)) {
        return false;
    }
    return o->s3_session_token == NULL ||
           header_add(curl_of(x), headers, "x-amz-security-token", o->s3_session_token);
}

static bool set_headers(sft__remote_exchange *x, void *easy, struct curl_slist **headers) {
    sft__remote_object *object = x->get->object;
    char range[SFT__ASK_TEXT];

    sft__remote_exchange_ask(x, range);
    bool good = curl_of(x)->easy_setopt(easy, CURLOPT_RANGE, range) == CURLE_OK &&
                header_add(curl_of(x), headers, "Accept-Encoding", "identity") &&
                set_credentials(x, easy, headers);
    sft__base_mutex_lock(&object->mutex);
    if (good && object->known && sft__remote_etag_strong(object->etag)) {
        good = header_add(curl_of(x), headers, "If-Range", object->etag);
    }
    sft__base_mutex_unlock(&object->mutex);
    return good && curl_of(x)->easy_setopt(easy, CURLOPT_HTTPHEADER, *headers) == CURLE_OK;
}

/* Through which proxy, and to which addresses. A connection may be one that another request made:
 * so its address is looked at before it is used, too. */
static bool set_route(sft__remote_exchange *x, void *easy) {
    sft__remote_url u;
    const char *proxy = sft__remote_url_parse(&u, x->url)
                            ? sft__remote_proxy_for(&x->get->object->remote->settings.proxies, &u)
                            : NULL;

    x->proxied = proxy != NULL;
    /* "" keeps curl off its own choice, and off no_proxy, which was looked at here. */
    return curl_of(x)->easy_setopt(easy, CURLOPT_PROXY, proxy != NULL ? proxy : "") == CURLE_OK &&
           curl_of(x)->easy_setopt(easy, CURLOPT_NOPROXY, "") == CURLE_OK &&
           curl_of(x)->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket) == CURLE_OK &&
           curl_of(x)->easy_setopt(easy, CURLOPT_OPENSOCKETDATA, x) == CURLE_OK &&
           curl_of(x)->easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected) == CURLE_OK &&
           curl_of(x)->easy_setopt(easy, CURLOPT_PREREQDATA, x) == CURLE_OK;
}

static bool set_network(sft__remote_exchange *x, void *easy) {
    const sft_remote_options *o = &x->get->object->remote->settings.o;
    bool good = true;

    /* A handle that shared an HTTP/2 connection still in use keeps its buffer, whose size is then
     * refused: it stays as it is. */
    (void)curl_of(x)->easy_setopt(easy, CURLOPT_BUFFERSIZE, x->get->bulk ? 262144L : 65536L);
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
    good &=
        curl_of(x)->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_ms) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_HTTP_VERSION,
                                    x->get->bulk ? (long)CURL_HTTP_VERSION_1_1
                                                 : (long)CURL_HTTP_VERSION_2TLS) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_PIPEWAIT, x->get->bulk ? 0L : 1L) == CURLE_OK;
    good &= curl_of(x)->easy_setopt(easy, CURLOPT_USERAGENT,
                                    "libsafetensors/" SFT_VERSION_STRING) == CURLE_OK;
    if (o->ca_file != NULL) {
        good &= curl_of(x)->easy_setopt(easy, CURLOPT_CAINFO, o->ca_file) == CURLE_OK;
    }
    return good && set_route(x, easy);
}

/* Begins a request for what is still wanted. False: no memory. */
static bool request_begin(batch *b, sft__remote_exchange *x) {
    void *easy = easy_take(b->lane);
    struct curl_slist *headers = NULL;

    if (easy == NULL) {
        return false;
    }
    sft__remote_response_init(&x->response);
    x->verdict = SFT__DROP;
    x->body = false;
    x->enough = false;
    x->in_parts = false;
    x->explaining = false;
    x->why_len = 0;
    x->refused = NULL;
    x->pos = 0;
    x->dropped = 0;
    x->waiting = false;
    x->window_bytes = 0;
    x->window_begin = sft__base_now_ms();
    x->reason[0] = '\0';
    bool good = set_network(x, easy) && set_headers(x, easy, &headers);
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_URL, x->url) == CURLE_OK;
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, x->reason) == CURLE_OK;
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head) == CURLE_OK;
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_HEADERDATA, x) == CURLE_OK;
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_WRITEDATA, x) == CURLE_OK;
    good = good && b->lane->curl->easy_setopt(easy, CURLOPT_PRIVATE, x) == CURLE_OK;
    good = good && b->lane->curl->multi_add_handle(b->lane->multi, easy) == CURLM_OK;
    if (!good) {
        b->lane->curl->slist_free_all(headers);
        b->lane->curl->easy_cleanup(easy);
        return false;
    }
    atomic_fetch_add_explicit(&b->remote->requests, 1, memory_order_relaxed);
    x->easy = easy;
    x->headers = headers;
    return true;
}

static void request_end(batch *b, sft__remote_exchange *x) {
    if (x->easy != NULL) {
        (void)b->lane->curl->multi_remove_handle(b->lane->multi, x->easy);
        easy_give(b->lane, x->easy);
        b->lane->curl->slist_free_all(x->headers);
        x->easy = NULL;
        x->headers = NULL;
    }
}

/* ---------------------------------------------------------------- one exchange */

static void exchange_end(batch *b, sft__remote_exchange *x, sft_status status) {
    sft__remote_get *get = x->get;

    request_end(b, x);
    get->status = status;
    if (status == SFT_OK && x->moved) {
        sft__remote_object_settle(get->object, x->url, x->from);
    }
    sft__base_free(b->remote->allocator, x->url, x->url_size);
    x->url = NULL;
    x->get = NULL;
    b->busy--;
    if (status != SFT_OK && !b->all && !b->stop) {
        b->stop = true;
        b->stop_status = SFT_E_CANCELLED;
    }
    if (get->ended != NULL) {
        get->ended(get);
    }
}

static void exchange_no_memory(batch *b, sft__remote_exchange *x) {
    const sft_status status = sft__base_fail_nomem(&x->get->err, x->url_size);
    exchange_end(b, x, status);
}

static void exchange_begin(batch *b, sft__remote_exchange *x, sft__remote_get *get) {
    memset(x, 0, sizeof *x);
    x->get = get;
    x->at = get->offset;
    x->begun = sft__base_now_ms();
    get->got = 0;
    get->status = SFT_OK;
    b->busy++;
    x->url = sft__remote_object_where(get->object, &x->url_size, &x->cached_redirect, &x->from);
    x->redirected = x->cached_redirect;
    if (x->url == NULL || !request_begin(b, x)) {
        exchange_no_memory(b, x);
    }
}

/* Again, now or after a while: at = get->offset + get->got. */
static void exchange_again(batch *b, sft__remote_exchange *x, uint64_t wait_ms) {
    request_end(b, x);
    if (wait_ms > 0) {
        x->waiting = true;
        x->wait_until = sft__base_now_ms() + wait_ms;
    } else if (!request_begin(b, x)) {
        exchange_no_memory(b, x);
    }
}

/* A little chance, so that many clients do not come back at the same moment. */
static uint64_t jitter(sft_remote *remote) {
    const uint64_t ticket = atomic_fetch_add(&remote->ticket, 1);
    return sft__base_hash(remote->secret, &ticket, sizeof ticket);
}

static void exchange_retry(batch *b, sft__remote_exchange *x) {
    const sft_remote_options *o = &b->remote->settings.o;
    const uint64_t asked =
        sft__remote_retry_after_ms(&x->response, (uint64_t)sft__base_now_seconds());
    const uint64_t now = sft__base_now_ms();
    uint64_t wait = (uint64_t)o->backoff_ms << (x->tries < 10 ? x->tries : 10);

    if (x->progress >= PROGRESS) { /* it does get on: count from here */
        x->tries = 0;
        x->begun = now;
        x->progress = 0;
        wait = o->backoff_ms;
    }
    wait = wait / 2 + jitter(b->remote) % (wait / 2 + 1);
    wait = asked > wait ? asked : wait;
    const uint64_t used = now - x->begun;
    if (x->tries >= o->retries || used >= o->deadline_ms || wait >= o->deadline_ms - used) {
        if (asked > 0 && wait >= o->deadline_ms - (used < o->deadline_ms ? used : o->deadline_ms)) {
            sft__remote_exchange_note(x, "the server asks to wait longer than the deadline allows");
        }
        exchange_end(b, x, sft__remote_exchange_fail(x));
        return;
    }
    x->tries++;
    atomic_fetch_add_explicit(&b->remote->retries, 1, memory_order_relaxed);
    exchange_again(b, x, wait);
}

/* Of the server that answers: by its address, or by its name where a proxy stands between. */
static sft__remote_reach server_reach(const sft__remote_exchange *x) {
    sft__remote_reach reach = SFT__REACH_PUBLIC;
    char *ip = NULL;
    sft__remote_url u;

    if (!x->proxied && curl_of(x)->easy_getinfo(x->easy, CURLINFO_PRIMARY_IP, &ip) == CURLE_OK &&
        ip != NULL && sft__remote_reach_literal(ip, strlen(ip), &reach)) {
        return reach;
    }
    return sft__remote_url_parse(&u, x->url) &&
                   sft__remote_reach_literal(u.host, u.host_len, &reach)
               ? reach
               : SFT__REACH_PUBLIC;
}

static void exchange_redirect(batch *b, sft__remote_exchange *x) {
    const char *to = NULL;

    (void)b->lane->curl->easy_getinfo(x->easy, CURLINFO_REDIRECT_URL, &to);
    const sft_status status = sft__remote_exchange_follow(x, to, server_reach(x));
    if (status != SFT_OK) {
        exchange_end(b, x, status);
        return;
    }
    atomic_fetch_add_explicit(&b->remote->redirects, 1, memory_order_relaxed);
    exchange_again(b, x, 0);
}

/* A request has come to its end in whatever way. */
static void exchange_step(batch *b, sft__remote_exchange *x, int code) {
    const bool cut = code == CURLE_WRITE_ERROR && x->enough;

    if (x->explaining) {
        sft__remote_exchange_explain(x);
    }
    if (x->verdict == SFT__FAIL) {
        exchange_end(b, x,
                     x->get->status != SFT_OK ? x->get->status : sft__remote_exchange_fail(x));
    } else if (code == CURLE_OUT_OF_MEMORY) {
        exchange_no_memory(b, x);
    } else if (!x->body || (code != CURLE_OK && !cut && x->verdict == SFT__TAKE)) {
        if (x->response.fault != NULL) {
            sft__remote_exchange_fault(x, x->response.fault);
            exchange_end(b, x, sft__remote_exchange_fail(x));
            return;
        }
        sft__remote_exchange_broken(x, (int)code, b->lane->curl->easy_strerror(code));
        if (x->refused != NULL) {
            sft__remote_exchange_refused(x);
            exchange_end(b, x, sft__remote_exchange_fail(x));
        } else if (sft__remote_exchange_hopeless((int)code)) {
            exchange_end(b, x, sft__remote_exchange_fail(x));
        } else {
            exchange_retry(b, x);
        }
    } else if (x->verdict == SFT__TAKE) {
        if (sft__remote_exchange_whole(x)) {
            exchange_end(b, x, SFT_OK);
        } else if (x->at >= x->stop) { /* all of this request; the next ranges */
            exchange_again(b, x, 0);
        } else if (code == CURLE_OK && x->response.has_range && x->at == x->response.last + 1 &&
                   x->response.last - x->response.first >= ENOUGH) {
            exchange_again(b, x, 0); /* all that it announced: it serves no more at once */
        } else if (x->in_parts) {    /* some were left out */
            sft__remote_exchange_plain(x);
            exchange_again(b, x, 0);
        } else {
            exchange_retry(b, x);
        }
    } else if (x->verdict == SFT__PLAIN) {
        exchange_again(b, x, 0);
    } else if (x->verdict == SFT__REDIRECT) {
        exchange_redirect(b, x);
    } else if (x->verdict ==
               SFT__HOME) { /* what a redirect led to is gone: ask at home once more */
        if (sft__remote_exchange_go_home(x)) {
            exchange_again(b, x, 0);
        } else {
            exchange_no_memory(b, x);
        }
    } else if (x->verdict == SFT__DONE) {
        exchange_end(b, x, SFT_OK);
    } else {
        exchange_retry(b, x);
    }
}

/* ---------------------------------------------------------------- the loop */

static bool asked_to_stop(const batch *b) {
    static const sft_progress nothing = {0, 0};
    const sft_control *own = b->remote->settings.o.control;
    int stop = b->control != NULL && b->control->poll != NULL &&
               b->control->poll(b->control->ctx, &nothing) != 0;

    if (!stop && own != NULL && own->poll != NULL) { /* never from two threads at once */
        sft__base_mutex_lock(&b->remote->mutex);
        stop = own->poll(own->ctx, &nothing) != 0;
        sft__base_mutex_unlock(&b->remote->mutex);
    }
    return stop != 0;
}

/* May one more be begun, with those of all other threads counted? One may always. */
static bool may_begin(const batch *b) {
    if (b->stop || b->next == b->count || b->busy == b->slots) {
        return false;
    }
    return b->busy == 0 || atomic_load_explicit(&b->remote->active, memory_order_relaxed) < b->most;
}

static sft__remote_exchange *free_slot(batch *b) {
    for (size_t i = 0; i < b->slots; i++) {
        if (b->exchanges[i].get == NULL) {
            return &b->exchanges[i];
        }
    }
    return NULL;
}

static bool may_cut(const batch *b) {
    return b->halves != NULL && b->next == b->count && b->busy > 0 && b->busy < b->slots &&
           !b->stop && atomic_load_explicit(&b->remote->active, memory_order_relaxed) < b->most;
}

/* With nothing more to begin, a connection would be idle while others have much to do: the back
 * half of what the busiest has left becomes a get of its own. The server goes on sending that half
 * to the first, too, which cuts it off. */
static void cut_in_two(batch *b) {
    sft__remote_exchange *most = NULL;
    uint64_t left = CUT_MIN;

    for (size_t i = 0; i < b->slots; i++) {
        sft__remote_exchange *x = &b->exchanges[i];
        /* not while it waits for an answer, which is judged by what was asked for */
        if (x->get != NULL && x->get->share && x->body && x->verdict == SFT__TAKE &&
            x->get->offset + x->get->size - x->at > left) {
            most = x;
            left = x->get->offset + x->get->size - x->at;
        }
    }
    if (most == NULL || b->half_count == HALVES) {
        return;
    }
    sft__remote_get *get = most->get;
    sft__remote_get *half = &b->halves[b->half_count++];
    const uint64_t end = get->offset + get->size;
    const uint64_t middle = end - left / 2 / CUT_STEP * CUT_STEP; /* at least CUT_STEP less */
    *half = *get;
    half->offset = middle;
    half->size = end - middle;
    get->size = middle - get->offset;
    most->stop = middle;
    exchange_begin(b, free_slot(b), half);
}

/* Ends what stalls, wakes what has waited; returns how long nothing of the kind will happen. */
static int look_after(batch *b) {
    const sft_remote_options *o = &b->remote->settings.o;
    const uint64_t now = sft__base_now_ms();
    uint64_t soon = POLL_MS;

    for (size_t i = 0; i < b->slots; i++) {
        sft__remote_exchange *x = &b->exchanges[i];
        if (x->get == NULL) {
            continue;
        }
        if (x->waiting) {
            if (b->stop) {
                exchange_end(b, x, sft__remote_exchange_stopped(x, b->stop_status));
            } else if (now >= x->wait_until) {
                exchange_again(b, x, 0);
            } else {
                soon = x->wait_until - now < soon ? x->wait_until - now : soon;
            }
        } else if (now - x->window_begin >= o->stall_ms) {
            if (x->window_bytes < o->stall_bytes) {
                sft__remote_exchange_stalled(x);
                exchange_retry(b, x);
                continue;
            }
            x->window_begin = now;
            x->window_bytes = 0;
        }
    }
    return (int)(soon > 0 ? soon : 1);
}

static void collect(batch *b) {
    int left;
    const CURLMsg *m;

    while ((m = b->lane->curl->multi_info_read(b->lane->multi, &left)) != NULL) {
        char *x = NULL;
        if (m->msg == CURLMSG_DONE) {
            const int code = m->data.result;
            (void)b->lane->curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
            exchange_step(b, (sft__remote_exchange *)(void *)x, code);
        }
    }
}

static void stop_all(batch *b) {
    for (size_t i = 0; i < b->slots; i++) {
        if (b->exchanges[i].get != NULL) {
            exchange_end(b, &b->exchanges[i],
                         sft__remote_exchange_stopped(&b->exchanges[i], b->stop_status));
        }
    }
}

static void run(batch *b) {
    while (b->busy > 0 || (b->next < b->count && !b->stop)) {
        size_t before = b->busy;
        int running;
        while (may_begin(b)) {
            exchange_begin(b, free_slot(b), &b->gets[b->next++]);
        }
        if (may_cut(b)) {
            cut_in_two(b);
        }
        atomic_fetch_add_explicit(&b->remote->active, (unsigned)(b->busy - before),
                                  memory_order_relaxed);
        before = b->busy;
        if (b->lane->curl->multi_perform(b->lane->multi, &running) != CURLM_OK) {
            b->stop = true;
            b->stop_status = SFT_E_NOMEM;
        }
        collect(b);
        const int wait = look_after(b);
        if (!b->stop && asked_to_stop(b)) {
            b->stop = true;
            b->stop_status = SFT_E_CANCELLED;
        }
        if (b->stop) {
            stop_all(b);
        }
        atomic_fetch_sub_explicit(&b->remote->active, (unsigned)(before - b->busy),
                                  memory_order_relaxed);
        if (b->busy > 0 && b->busy == before) {
            (void)b->lane->curl->multi_poll(b->lane->multi, NULL, 0, wait, NULL);
        }
    }
}

/* What was never begun ends too. */
static void end_rest(batch *b) {
    for (; b->next < b->count; b->next++) {
        sft__remote_get *get = &b->gets[b->next];
        get->got = 0;
        get->status = sft_error_at(&get->err, SFT_E_CANCELLED, get->offset, NULL, 0,
                                   "not read: another range of the batch failed");
        if (get->ended != NULL) {
            get->ended(get);
        }
    }
}

/* Those that failed by themselves come before those that were stopped because of them. */
static sft_status result(const batch *b, sft_error *err) {
    const sft__remote_get *worst = NULL;
    for (size_t i = 0; i < b->count + b->half_count; i++) {
        const sft__remote_get *get = i < b->count ? &b->gets[i] : &b->halves[i - b->count];
        if (get->status != SFT_OK && (worst == NULL || (worst->status == SFT_E_CANCELLED &&
                                                        get->status != SFT_E_CANCELLED))) {
            worst = get;
        }
    }
    if (worst == NULL) {
        return SFT_OK;
    }
    if (err != NULL) {
        *err = worst->err;
    }
    return worst->status;
}

sft_status sft__remote_transfer(sft_remote *remote, const sft__remote_gets *list, sft_error *err) {
    batch b = {.remote = remote,
               .gets = list->gets,
               .count = list->count,
               .all = list->all,
               .control = list->control};

    if (b.count == 0) {
        return SFT_OK;
    }
    b.most = list->most != 0 ? list->most : remote->settings.o.connections;
    b.slots = b.most < b.count ? b.most : b.count;
    b.exchanges = sft__base_alloc_zero(remote->allocator, b.slots * sizeof *b.exchanges);
    if (b.slots > 1 && b.gets[0].share) { /* without memory for them it goes on without */
        b.halves = sft__base_alloc_array(remote->allocator, HALVES, sizeof *b.halves);
    }
    b.lane = b.exchanges != NULL ? lane_take(remote) : NULL;
    if (b.lane == NULL) {
        sft__base_free(remote->allocator, b.exchanges, b.slots * sizeof *b.exchanges);
        sft__base_free(remote->allocator, b.halves,
                       b.halves != NULL ? HALVES * sizeof *b.halves : 0);
        end_rest(&b);
        return sft__base_fail_nomem(err, sizeof *b.exchanges);
    }
    run(&b);
    end_rest(&b);
    lane_give(remote, b.lane);
    const sft_status status = result(&b, err);
    sft__base_free(remote->allocator, b.exchanges, b.slots * sizeof *b.exchanges);
    sft__base_free(remote->allocator, b.halves, b.halves != NULL ? HALVES * sizeof *b.halves : 0);
    return status;
}
