/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_remote.c - what the remote library reads as text. The first byte chooses: 'h' the head of
 * an answer, 'm' a body in parts, 'r' a Content-Range, 'd' a date, 'u' a URL with a name beside it
 * (after a line end), 'f' what follows hf:// or s3://.
 */
#include "fuzz.h"

#include "remote/http/response.h"
#include "remote/http/url.h"

static void one_head(const char *text, size_t len) {
    sft__remote_response r;
    uint8_t digest[32];

    sft__remote_response_init(&r);
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t n = end != NULL ? (size_t)(end - text) + 1 - at : len - at;
        sft__remote_response_line(&r, text + at, n);
        at += n;
    }
    CHECK(r.status == 0 || (r.status >= 100 && r.status <= 999));
    CHECK(!r.has_range || (r.first <= r.last && (!r.has_total || r.last < r.total)));
    CHECK(memchr(r.etag, 0, sizeof r.etag) != NULL &&
          memchr(r.modified, 0, sizeof r.modified) != NULL);
    CHECK(memchr(r.linked_etag, 0, sizeof r.linked_etag) != NULL);
    CHECK(memchr(r.commit, 0, sizeof r.commit) != NULL);
    CHECK(strpbrk(r.etag, "\r\n") == NULL); /* it goes back into If-Range */
    CHECK(r.head_bytes <= len);
    CHECK(memchr(r.boundary, 0, sizeof r.boundary) != NULL);
    CHECK(strpbrk(r.boundary, "\r\n\" ") == NULL);
    CHECK(r.has_retry || sft__remote_retry_after_ms(&r, 5) == 0);
    (void)sft__remote_etag_sha256(r.etag, digest);
    CHECK(!sft__remote_etag_strong(r.etag) || (r.etag[0] == '"' && strlen(r.etag) >= 2));
}

static void one_url(char *text) {
    char *name = strchr(text, '\n');
    char shown[64];
    sft__remote_url u;
    sft__remote_url v;
    sft__base_buf b;

    if (name == NULL) {
        return;
    }
    *name++ = '\0';
    sft__remote_url_show(shown, sizeof shown, text);
    CHECK(strlen(shown) < sizeof shown && strchr(shown, '?') == NULL &&
          strchr(shown, '\n') == NULL);
    if (!sft__remote_url_parse(&u, text)) {
        return;
    }
    CHECK(u.host_len > 0 && u.port > 0 && u.port <= 65535 && strchr(text, '#') == NULL);
    CHECK(memchr(u.host, '@', u.host_len) == NULL && memchr(u.host, '/', u.host_len) == NULL);
    CHECK(u.path_len == 0 || u.path[0] == '/');
    CHECK(sft__remote_url_same_origin(&u, &u));
    if (u.path_len == 0) {
        return;
    }
    sft__base_buf_init(&b, NULL);
    sft__remote_url_beside(&b, text, name); /* whatever the name holds, it stays at that origin */
    sft__base_buf_add(&b, "", 1);
    CHECK(!b.failed && sft__remote_url_parse(&v, b.data) && sft__remote_url_same_origin(&u, &v));
    CHECK(v.query_len == u.query_len);
    sft__base_buf_reset(&b);
}

/* The first byte is the size of the steps it comes in. Whatever comes out lies in ranges that were
 * asked for, ascending, and what is expected next is always the byte behind or the next range. */
static void one_body(const uint8_t *data, size_t size) {
    static const uint64_t begins[] = {0, 10, 40, 1000};
    static const uint64_t ends[] = {5, 30, 41, 2000};
    const size_t step = size > 0 ? (size_t)data[0] + 1 : 1;
    uint64_t at = begins[0];
    uint64_t high = 0; /* behind what came */
    size_t range = 0;
    sft__remote_multipart p;
    sft__remote_slice s;

    sft__remote_multipart_init(&p, "B", 4000, ends[3], 4);
    for (size_t i = 1; i < size; i += step) {
        const uint8_t *next = data + i;
        size_t left = size - i < step ? size - i : step;
        while (sft__remote_multipart_next(&p, at, &next, &left, &s)) {
            CHECK(p.fault == NULL && s.size > 0 && s.data >= data + i && s.data + s.size <= next);
            CHECK(s.offset >= high && s.offset + s.size <= ends[3]);
            high = s.offset + s.size;
            for (at = high; range < 3 && at >= ends[range]; range++) {
                at = at < begins[range + 1] ? begins[range + 1] : at;
            }
        }
        CHECK(left == 0 || p.fault != NULL);
        CHECK(p.line_len <= SFT__PART_LINE);
    }
    CHECK(!sft__remote_multipart_ended(&p) || p.fault == NULL);
}

static void one_hub(const char *text) {
    const char *bucket;
    const char *key;
    size_t len;
    sft__remote_hub_url u;

    if (sft__remote_hub_url_parse(&u, text)) {
        CHECK(u.repo_len > 0 && u.revision_len > 0);
        CHECK(memchr(u.repo, '@', u.repo_len) == NULL && memchr(u.repo, '?', u.repo_len) == NULL);
        CHECK(u.file == NULL || (u.file[0] != '/' && strstr(u.file, "/../") == NULL));
        CHECK(u.file == NULL || strncmp(u.file, "../", 3) != 0);
    }
    if (sft__remote_s3_url_parse(text, &bucket, &len, &key)) {
        /* empty parts are the business of S3, which has such keys */
        CHECK(len > 0 && key[0] != '\0' && strstr(key, "/../") == NULL);
        CHECK(strncmp(key, "../", 3) != 0 && strncmp(key, "./", 2) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sft__remote_response r;
    uint64_t seconds;

    if (size == 0 || size > 65536) {
        return 0;
    }
    char *text = malloc(size);
    CHECK(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    sft__remote_response_init(&r);
    switch (data[0]) {
    case 'h':
        one_head(text, size - 1);
        break;
    case 'm':
        one_body((const uint8_t *)text, size - 1);
        break;
    case 'r':
        if (sft__remote_content_range(text, size - 1, &r)) {
            CHECK(r.has_range || r.has_total);
            CHECK(!r.has_range || r.first <= r.last);
        } else {
            CHECK(!r.has_range && !r.has_total);
        }
        break;
    case 'd':
        if (sft__remote_http_date(text, size - 1, &seconds)) {
            CHECK(seconds < UINT64_C(253402300861)); /* the year 9999 */
        }
        break;
    case 'u':
        one_url(text);
        break;
    default:
        one_hub(text);
    }
    free(text);
    return 0;
}
