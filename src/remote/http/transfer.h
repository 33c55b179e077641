/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/transfer.h - an exchange: one get on its way, with redirects, retries and waits.
 * transfer.c moves it, judge.c decides what an answer means, body.c takes its bytes. Read first:
 * room.h.
 */
#ifndef SFT_REMOTE_TRANSFER_H
#define SFT_REMOTE_TRANSFER_H

#include "remote/room.h"

/* What becomes of an answer, known when its head is complete. */
typedef enum sft__remote_verdict {
    SFT__DROP = 0, /* its body is not wanted; try again */
    SFT__TAKE,     /* its body is what was asked for */
    SFT__DONE,     /* nothing more is to come */
    SFT__REDIRECT,
    SFT__HOME,  /* the address from a redirect is no longer good */
    SFT__PLAIN, /* several ranges are not served: ask for one at a time */
    SFT__FAIL   /* the exchange ends with failure_status */
} sft__remote_verdict;

typedef struct sft__remote_exchange {
    sft__remote_get *get; /* NULL: this slot is free */
    char *url;            /* where it is asked now */
    size_t url_size;
    void *easy;
    struct curl_slist *headers;
    sft__remote_response response;
    sft__remote_verdict verdict;
    bool body;            /* the head is complete and was judged */
    bool enough;          /* all that is wanted came: the connection may be cut */
    bool waiting;         /* for wait_until */
    bool moved;           /* url is not the object's own */
    bool cached_redirect; /* url comes from an earlier redirect and may be out of date */
    bool sent_credential;
    bool proxied; /* by a proxy: the address that is connected to is not the server's */
    uint8_t from; /* sft__remote_reach of the server that redirected here last, if there is one */
    bool redirected;     /* `from` says something */
    const char *refused; /* why an address was not connected to, or NULL; static */
    bool plain;          /* never again several ranges at once */
    bool in_parts;       /* the body comes in parts */
    size_t asked;        /* ranges that this request asks for */
    size_t range;        /* of get->ranges, that `at` lies in */
    uint64_t at;         /* next byte wanted */
    uint64_t stop;       /* end of what this request asks for */
    uint64_t pos;        /* of the next byte of the body in the file: at most `at` */
    sft__remote_multipart parts;
    uint64_t dropped;
    uint64_t progress; /* since the last retry that counted */
    uint64_t begun;    /* all times in milliseconds of a clock that never jumps */
    uint64_t wait_until;
    uint64_t window_begin; /* of the measurement of stalls */
    uint64_t window_bytes;
    uint32_t tries;
    uint32_t redirects;
    sft_status failure_status;
    int32_t failure_sys;
    bool explaining; /* the body of an error: its beginning is kept in `why` */
    size_t why_len;
    char why[SFT__REASON_BODY];
    char failure[400]; /* what went wrong last; the URL and the range are added */
    char reason[256];  /* curl's words */
} sft__remote_exchange;

void sft__remote_exchange_judge(sft__remote_exchange *x);
/* Never again several ranges at once, from anybody. */
void sft__remote_exchange_plain(sft__remote_exchange *x);
/* Is url of the origin that credentials are meant for? */
bool sft__remote_exchange_at_home(const sft__remote_exchange *x);
/* To where a redirect leads, if that is allowed; from: of the server that gave it. Fills the get's
 * error. */
sft_status sft__remote_exchange_follow(sft__remote_exchange *x, const char *to,
                                       sft__remote_reach from);
/* May this request use an address that reaches so far? If not, why is noted in `refused`. */
bool sft__remote_exchange_may_reach(sft__remote_exchange *x, sft__remote_reach to);
/* No address was left that may be connected to: the end. */
void sft__remote_exchange_refused(sft__remote_exchange *x);
/* Back to the object's own URL. False: no memory. */
bool sft__remote_exchange_go_home(sft__remote_exchange *x);
/* The body ended: is everything there? If not, why is noted. */
bool sft__remote_exchange_whole(sft__remote_exchange *x);
void sft__remote_exchange_broken(sft__remote_exchange *x, int code, const char *text);
bool sft__remote_exchange_hopeless(int code); /* a curl code that another try will not change */
void sft__remote_exchange_stalled(sft__remote_exchange *x);
void sft__remote_exchange_fault(sft__remote_exchange *x, const char *fault);
void sft__remote_exchange_note(sft__remote_exchange *x, const char *more);
/* Adds the server's own words to what went wrong, if it has any and they repeat no secret. */
void sft__remote_exchange_explain(sft__remote_exchange *x);
/* Makes the get's error out of what went wrong last; returns its status. */
sft_status sft__remote_exchange_fail(sft__remote_exchange *x);
sft_status sft__remote_exchange_stopped(sft__remote_exchange *x, sft_status status);

/* ---------------------------------------------------------------- body.c */

enum { SFT__ASK_TEXT = 4000 }; /* servers take lines of 8 KiB, some of 4 KiB */

/* Decides what the next request asks for, beginning at x->at: everything that is left of a get
 * without ranges; else as many ranges as one request may have, or the run that lies closely
 * together. text: the value of its Range, "bytes=" aside. */
void sft__remote_exchange_ask(sft__remote_exchange *x, char text[SFT__ASK_TEXT]);
/* Bytes of a body. False: cut the answer off; x->verdict and x->enough say why. */
bool sft__remote_exchange_body(sft__remote_exchange *x, const uint8_t *data, size_t len);

/* ---------------------------------------------------------------- object.c */

/* A copy of where the object is to be asked for. NULL: no memory. from: sft__remote_reach of the server
 * that led there, if it was redirected. */
char *sft__remote_object_where(sft__remote_object *object, size_t *size, bool *redirected,
                               uint8_t *from);
/* Remembers where redirects led, and who said so last; no memory: forgets it. */
void sft__remote_object_settle(sft__remote_object *object, const char *url, uint8_t from);
void sft__remote_object_unsettle(sft__remote_object *object);

#endif
