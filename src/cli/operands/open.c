/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/open.c - operands become catalogs; the worker pool; glob and natural order. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/operands/foreign.h"
#include "cli/operands/ranks.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include "cli/team.h"
#include "cli/ui/explain.h"
#include <string.h>

/* ---------------------------------------------------------------- standard input */

static sft_status kept_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    return sft_source_read(self, offset, dst, size, err);
}

static sft_status kept_borrow(void *self, uint64_t offset, size_t size, const void **data,
                              sft_error *err) {
    return sft_source_borrow(self, offset, size, data, err);
}

/* A pipe is read once and kept, as more than one reader may ask what it is. */
static sft_status open_kept(cli *c, sft_source **out, sft_error *err) {
    static const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = kept_read, .borrow = kept_borrow};
    sft_status status = SFT_OK;

    if (c->stdin_bytes == NULL) {
        /* Nothing is to be cleaned up while we wait for a pipe, so Ctrl-C may simply end us. */
        cli_sys_catch(false);
        status = cli_sys_interrupted() /* before: a read that nothing ends would forget it */
                     ? sft_error_set(err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "cancelled")
                     : sft_source_open_stream(&c->stdin_bytes, 0, 0, NULL, err);
        cli_sys_catch(true);
    }
    return status == SFT_OK
               ? sft_source_create(out, &vtable, c->stdin_bytes, sft_source_size(c->stdin_bytes),
                                   SFT_SOURCE_MEMORY, "stream", NULL, err)
               : status;
}

sft_status cli_stdin_source(cli *c, sft_source **out, sft_error *err) {
    sft_status status = SFT_E_IO;

    *out = NULL;
    if (c->stdin_bytes == NULL && cli_sys_regular_fd(0)) {
        status = sft_source_open_fd(out, 0, SFT_ACCESS_READ, NULL, err);
    }
    /* not every system lets an inherited file be looked at */
    return status == SFT_E_IO ? open_kept(c, out, err) : status;
}

bool cli_reads_stdin(const cli *c) {
    for (size_t i = 0; i < c->operand_count; i++) {
        if (strcmp(c->operands[i], "-") == 0) {
            return true;
        }
    }
    return false;
}

void cli_stdin_end(cli *c) {
    sft_source_close(c->stdin_bytes);
    c->stdin_bytes = NULL;
}

static sft_status open_stdin(cli *c, const sft_open_options *options, sft_catalog **out,
                             sft_error *err) {
    sft_source *source;
    sft_status status;

    *out = NULL;
    if (c->stdin_bytes == NULL && cli_sys_regular_fd(0)) {
        status = sft_catalog_open_fd(out, 0, options, err);
        if (status != SFT_E_IO) {
            return status;
        }
    }
    status = open_kept(c, &source, err);
    return status == SFT_OK ? sft_catalog_open_source(out, source, options, err) : status;
}

/* ---------------------------------------------------------------- operands */

/* foreign: whether the import wing was asked. */
static sft_status open_any(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                           bool *foreign, sft_error *err) {
    sft_open_options options;
    sft_limits limits;

    *foreign = false;
    SFT_INIT(&options);
    SFT_INIT(&limits);
    limits.header_bytes = cli_number(c, "max-header-bytes", 0);
    options.limits = &limits;
    options.flags = flags;
    if (strcmp(operand, "-") == 0) {
        const sft_status read = open_stdin(c, &options, out, err);
        return read != SFT_OK ? cli_open_foreign(c, operand, read, out, foreign, err) : SFT_OK;
    }
    if (cli_is_url(operand)) {
        const sft_status there = cli_url_open(c, operand, &options, out, err);
        return there != SFT_OK ? cli_open_foreign(c, operand, there, out, foreign, err) : SFT_OK;
    }
    bool ranks;
    sft_status status = cli_ranks_open_whole(c, operand, &options, out, &ranks, err);
    if (ranks) {
        return status;
    }
    status = sft_catalog_open(out, operand, &options, err);
    return status != SFT_OK ? cli_open_foreign(c, operand, status, out, foreign, err) : SFT_OK;
}

sft_status cli_open_quietly(cli *c, const char *operand, uint32_t flags, sft_catalog **out,
                            sft_error *err) {
    bool foreign;
    return open_any(c, operand, flags, out, &foreign, err);
}

bool cli_open(cli *c, const char *operand, uint32_t flags, sft_catalog **out) {
    const int before = c->status;
    bool foreign;
    sft_error err;

    const sft_status status = open_any(c, operand, flags, out, &foreign, &err);
    if (status != SFT_OK && foreign) {
        cli_fail_plainly(c, operand, &err); /* hints are about safetensors */
        if (status == SFT_E_UNSUPPORTED) {  /* the file's fault, not the command line's */
            c->status = before > CLI_NO ? before : CLI_NO;
        }
    } else if (status != SFT_OK) {
        cli_fail(c, operand, &err);
    }
    if (status == SFT_OK && cli_flag(c, "explain")) {
        cli_explain(*out);
    }
    return status == SFT_OK;
}

void cli_close(cli *c, sft_catalog *catalog) {
    sft_error err;

    if (catalog != NULL && !c->proved && c->status < CLI_SYSTEM &&
        sft_catalog_unchanged(catalog, &err) != SFT_OK) {
        cli_fail_plainly(c, NULL, &err);
    }
    sft_catalog_close(catalog);
}

const sft_pool *cli_pool(cli *c) {
    const uint64_t jobs = cli_number(c, "jobs", cli_team_threads(c));

    if (c->pool == NULL && jobs != 1) {
        sft_error err; /* without a pool everything works as well, only slower */
        (void)!sft_pool_create(&c->pool, jobs > 1024 ? 1024 : (uint32_t)jobs, NULL, &err);
    }
    return c->pool;
}

/* ---------------------------------------------------------------- glob */

/* Length of the [...] at p (p[0] is '['), or 0 if it never closes: then '[' stands for itself. */
static size_t class_length(const char *p) {
    size_t n = 1;

    n += p[n] == '!' || p[n] == '^';
    n += p[n] == ']'; /* first: a member */
    while (p[n] != '\0' && p[n] != ']') {
        n++;
    }
    return p[n] == ']' ? n + 1 : 0;
}

static bool in_class(const char *p, size_t len, unsigned char ch) {
    const bool negated = p[1] == '!' || p[1] == '^';
    bool found = false;

    for (size_t i = negated ? 2 : 1; i + 1 < len; i++) {
        const unsigned char low = (unsigned char)p[i];
        unsigned char high = low;
        if (p[i + 1] == '-' && i + 3 < len) {
            high = (unsigned char)p[i + 2];
            i += 2;
        }
        found = found || (ch >= low && ch <= high);
    }
    return found != negated;
}

/* Bytes of pattern that match one byte of the name, 0 if it does not match. */
static size_t match_one(const char *p, const char *name, size_t left, size_t *used) {
    size_t char_len = 1;

    *used = 1;
    if (*p == '?') { /* one character, not one byte */
        (void)cli_decode(name, left, &char_len);
        *used = char_len;
        return 1;
    }
    if (*p == '[') {
        const size_t len = class_length(p);
        if (len > 0) {
            return in_class(p, len, (unsigned char)*name) ? len : 0;
        }
    }
    if (*p == '\\' && p[1] != '\0') {
        return p[1] == *name ? 2 : 0;
    }
    return *p == *name ? 1 : 0;
}

bool cli_match(const char *pattern, const char *name, size_t name_len) {
    const char *star = NULL; /* after the last '*'; going back to it is enough */
    size_t star_at = 0;
    size_t i = 0;

    while (i < name_len) {
        size_t used;
        const size_t n = *pattern == '\0' || *pattern == '*'
                             ? 0
                             : match_one(pattern, name + i, name_len - i, &used);
        if (n > 0) {
            pattern += n;
            i += used;
        } else if (*pattern == '*') {
            star = ++pattern;
            star_at = i;
        } else if (star != NULL) {
            pattern = star;
            i = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

/* ---------------------------------------------------------------- natural order */

static bool is_digit(char ch) {
    return ch >= '0' && ch <= '9';
}

static size_t digits_at(const char *s, size_t len) {
    size_t n = 0;
    while (n < len && is_digit(s[n])) {
        n++;
    }
    return n;
}

/* Two runs of digits by value, whatever their length. */
static int compare_numbers(const char *a, size_t na, const char *b, size_t nb) {
    while (na > 1 && *a == '0') {
        a++;
        na--;
    }
    while (nb > 1 && *b == '0') {
        b++;
        nb--;
    }
    return na != nb ? (na < nb ? -1 : 1) : memcmp(a, b, na);
}

int cli_natural(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t i = 0;
    size_t k = 0;

    while (i < a_len && k < b_len) {
        const size_t na = digits_at(a + i, a_len - i);
        const size_t nb = digits_at(b + k, b_len - k);
        if (na > 0 && nb > 0) {
            const int order = compare_numbers(a + i, na, b + k, nb);
            if (order != 0 || na != nb) { /* 7 before 07: names that share a start stay together */
                return order != 0 ? order : na < nb ? -1 : 1;
            }
            i += na;
            k += nb;
        } else if (a[i] != b[k]) {
            return (unsigned char)a[i] < (unsigned char)b[k] ? -1 : 1;
        } else {
            i++;
            k++;
        }
    }
    return a_len - i < b_len - k ? -1 : a_len - i > b_len - k;
}
