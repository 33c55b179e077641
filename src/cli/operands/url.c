/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/url.c - operands that are URLs. libcurl is looked for when the first of them is met. Read
 * url.h first.
 */
#include "cli/operands/url.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *start) {
    for (; *start != '\0'; text++, start++) {
        if ((*text >= 'A' && *text <= 'Z' ? *text | 0x20 : *text) != *start) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- secrets */

typedef struct cli_secret {
    struct cli_secret *next;
    char *shown;     /* the argument as everybody sees it */
    const char *url; /* in it */
    char *real;
} cli_secret;

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-"

/* Does a URL begin here, perhaps a mistyped one? *rest: behind the scheme and its slashes. */
static bool is_url_like(char *at, char **rest) {
    static const char *const known[] = {"http:", "https:", "hf:", "s3:"};
    const size_t scheme = strspn(at, LETTERS);
    const size_t odd = strspn(at, LETTERS ":;\\"); /* "https;//", "HTTPS//", "https\\://", "//" */
    bool like = scheme > 0 && strncmp(at + scheme, "://", 3) == 0;

    for (size_t i = 0; i < sizeof known / sizeof known[0];
         i++) { /* with a slash too few, perhaps */
        like = like || begins(at, known[i]);
    }
    *rest = at + (like ? scheme + 1 : odd);
    like = like || (odd < 12 && strncmp(*rest, "//", 2) == 0 && /* "model//x?y" is a path */
                    (odd == 0 || strcspn(at, ":;\\") < odd || begins(at, "http")));
    *rest += strspn(*rest, "/");
    return like;
}

/* The URL in an argument: all of it, or the value of "--option=" or "-o". NULL: none. */
static char *url_in(char *word, char **rest) {
    char *at = word;

    if (word[0] == '-' && word[1] == '-') {
        at = strchr(word, '=');
        at = at != NULL ? at + 1 : word;
    } else if (word[0] == '-' && word[1] != '\0') {
        at = word + 2;
    }
    at += strspn(at, " \t\"'<");
    return is_url_like(at, rest) ? at : NULL;
}

/* How much of "user:password@" stands at the beginning of what follows "://". In hf://REPO@REVISION
 * there is none, but who writes a login before the first slash means one. */
static size_t login_length(const char *url, const char *rest) {
    const size_t authority = strcspn(rest, "/?#");
    size_t n = 0;
    bool colon = false;

    for (size_t i = 0; i < authority; i++) {
        colon = colon || rest[i] == ':';
        n = rest[i] == '@' && (colon || !begins(url, "hf://")) ? i + 1 : n;
    }
    return n;
}

static const cli_secret *secret_of(const cli *c, const char *shown) {
    for (const cli_secret *s = c->secrets; s != NULL; s = s->next) {
        if (strcmp(s->url, shown) == 0) {
            return s;
        }
    }
    return NULL;
}

static void conceal(cli *c, char **word) {
    char *rest;
    char *url = url_in(*word, &rest);
    if (url == NULL) {
        return;
    }
    const size_t login = login_length(url, rest);
    if (url[0] == '/' && (login == 0 || memchr(rest, ':', login) == NULL)) {
        return; /* a path, but for "//user:password@" */
    }
    /* a fragment goes to no server, but may hold what was meant as a query; in names of hf and s3 #
     * is a letter */
    const size_t query = strcspn(rest + login, begins(url, "http") ? "?#" : "?");
    if (login == 0 && rest[login + query] == '\0') {
        return;
    }
    const size_t size = strlen(*word) + 32;
    cli_secret *s = cli_alloc(1, sizeof *s);
    s->shown = cli_alloc(size, 1);
    s->real = cli_alloc(strlen(url) + 1, 1);
    memcpy(s->real, url, strlen(url) + 1);
    const int n =
        snprintf(s->shown, size, "%.*s%.*s", (int)(rest - *word), *word, (int)query, rest + login);
    s->url = s->shown + (url - *word);
    for (unsigned k = 2; secret_of(c, s->url) != NULL; k++) { /* the same place by another query */
        (void)snprintf(s->shown + n, 16, "?%u", k);
    }
    s->next = c->secrets;
    c->secrets = s;
    memset(rest, '*', login > 0 ? login - 1 : 0);
    if (rest[login + query] != '\0') {
        memset(rest + login + query + 1, '*', strlen(rest + login + query + 1));
    }
    *word = s->shown;
}

void cli_url_conceal(cli *c, int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        conceal(c, &argv[i]);
    }
}

const char *cli_url_real(const cli *c, const char *operand) {
    const cli_secret *s = secret_of(c, operand);
    return s != NULL ? s->real : operand;
}

/* ---------------------------------------------------------------- opening */

#ifdef SFT_TOOL_REMOTE
static int poll_stopped(void *ctx, const sft_progress *progress) {
    (void)progress; /* what is under way is told by whoever asked for it */
    return cli_stopped(ctx) ? 1 : 0;
}

sft_status cli_url_begin(cli *c, sft_error *err) {
    sft_remote_options o;

    if (c->remote != NULL) {
        return SFT_OK;
    }
    SFT_INIT(&c->remote_control);
    c->remote_control.poll = poll_stopped;
    c->remote_control.ctx = c;
    SFT_INIT(&o);
    o.control = &c->remote_control;
    o.connections = (uint32_t)cli_number(c, "connections", 0);
    o.disk_cache = cli_text(c, "block-cache");
    o.flags = SFT_REMOTE_ENVIRONMENT | SFT_REMOTE_ONE_COMMIT |
              (cli_flag(c, "allow-http") ? SFT_REMOTE_ALLOW_HTTP : 0) |
              (cli_flag(c, "offline") ? SFT_REMOTE_OFFLINE : 0);
    const sft_status status = sft_remote_create(&c->remote, &o, err);
    if (status ==
        SFT_E_UNSUPPORTED) { /* without libcurl: the system's fault, not the command line's */
        err->status = SFT_E_IO;
    }
    return status == SFT_E_UNSUPPORTED ? SFT_E_IO : status;
}

static sft_status find(void *ctx, sft_remote **remote, sft_error *err) {
    cli *c = ctx;
    const sft_status status = cli_url_begin(c, err);

    *remote = c->remote;
    return status;
}

sft_opener_row cli_url_row(cli *c, sft_remote_opening *opening) {
    SFT_INIT(opening);
    opening->find = find;
    opening->ctx = c;
    return (sft_opener_row){sft_remote_opener(), opening};
}

sft_status cli_url_source(cli *c, const char *operand, sft_source **out, sft_error *err) {
    const sft_status status = cli_url_begin(c, err);

    *out = NULL;
    return status == SFT_OK ? sft_remote_source_open(out, c->remote, cli_url_real(c, operand), err)
                            : status;
}

sft_status cli_url_fetch(cli *c, const char *operand, const char *directory,
                         const sft_fetch_options *options, sft_fetch_result *result,
                         sft_error *err) {
    return sft_remote_fetch(c->remote, cli_url_real(c, operand), directory, options, result, err);
}

static void end_remote(cli *c) {
    if (c->verbose) {
        sft_remote_counts n;
        sft_remote_count(c->remote, &n);
        cli_note(c, NULL, "%llu requests, %llu bytes received, %llu retries, %llu redirects",
                 (unsigned long long)n.requests, (unsigned long long)n.bytes,
                 (unsigned long long)n.retries, (unsigned long long)n.redirects);
    }
    sft_remote_free(c->remote);
    c->remote = NULL;
}
#else
sft_status cli_url_begin(cli *c, sft_error *err) {
    (void)c;
    return sft_error_set(err, SFT_E_IO, 0,
                         "reading from a URL needs libsafetensors-remote, which this build of the "
                         "tool does not have");
}

static sft_status open_none(sft_operand *operand, const void *options, sft_catalog **out,
                            sft_error *err) {
    (void)options;
    (void)out;
    return operand->kind == SFT_OPERAND_URL ? cli_url_begin(NULL, err) : SFT_OK;
}

sft_opener_row cli_url_row(cli *c, sft_remote_opening *opening) {
    static const sft_opener opener = {sizeof opener, open_none};

    (void)c;
    (void)opening;
    return (sft_opener_row){&opener, NULL};
}

sft_status cli_url_source(cli *c, const char *operand, sft_source **out, sft_error *err) {
    (void)operand;
    *out = NULL;
    return cli_url_begin(c, err);
}

sft_status cli_url_fetch(cli *c, const char *operand, const char *directory,
                         const sft_fetch_options *options, sft_fetch_result *result,
                         sft_error *err) {
    (void)operand;
    (void)directory;
    (void)options;
    (void)result;
    return cli_url_begin(c, err);
}

static void end_remote(cli *c) {
    (void)c;
}
#endif

const sft_pool *cli_url_askers(cli *c) {
    enum { ASKERS = 16 };

    if (c->askers == NULL && sft_pool_create(&c->askers, ASKERS, NULL, NULL) != SFT_OK) {
        c->askers = NULL;
    }
    return c->askers;
}

void cli_url_end(cli *c) {
    sft_pool_free(c->askers);
    c->askers = NULL;
    while (c->secrets != NULL) {
        cli_secret *s = c->secrets;
        c->secrets = s->next;
        free(s->shown);
        free(s->real);
        free(s);
    }
    if (c->remote != NULL) {
        end_remote(c);
    }
}
