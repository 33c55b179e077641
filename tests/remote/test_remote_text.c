/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of what the remote library reads as text: URLs, heads of answers, dates, entity tags; and
 * of the cache of blocks.
 */
#include "remote/open_url.h"
#include "unit/cm.h"
#include "unit/counting.h"
#include "unit/older.h"

#include "remote/http/address.h"
#include "remote/http/reason.h"
#include "remote/http/response.h"
#include "remote/http/url.h"
#include "remote/room.h"

static void test_content_range(void **state) {
    static const struct {
        const char *text;
        int good, range, total;
        uint64_t first, last, size;
    } rows[] = {
        {"bytes 0-99/1234", 1, 1, 1, 0, 99, 1234},
        {"BYTES 5-5/6", 1, 1, 1, 5, 5, 6},
        {"bytes 0-0/*", 1, 1, 0, 0, 0, 0},
        {"bytes */77", 1, 0, 1, 0, 0, 77},
        {"bytes 18446744073709551614-18446744073709551614/18446744073709551615", 1, 1, 1,
         UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX},
        {"bytes */*", 0, 0, 0, 0, 0, 0},
        {"bytes 9-8/20", 0, 0, 0, 0, 0, 0},
        {"bytes 0-20/20", 0, 0, 0, 0, 0, 0},
        {"bytes 0-18446744073709551616/*", 0, 0, 0, 0, 0, 0},
        {"bytes -5/20", 0, 0, 0, 0, 0, 0},
        {"bytes 0-/20", 0, 0, 0, 0, 0, 0},
        {"bytes 0-5", 0, 0, 0, 0, 0, 0},
        {"bytes 0-5/", 0, 0, 0, 0, 0, 0},
        {"bytes 0-5/6 ", 0, 0, 0, 0, 0, 0},
        {"bytes 0-5/6,7-8/9", 0, 0, 0, 0, 0, 0},
        {"bytes=0-5/6", 0, 0, 0, 0, 0, 0},
        {"items 0-5/6", 0, 0, 0, 0, 0, 0},
        {"bytes", 0, 0, 0, 0, 0, 0},
        {"", 0, 0, 0, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__remote_response r;
        sft__remote_response_init(&r);
        assert_int_equal(sft__remote_content_range(rows[i].text, strlen(rows[i].text), &r),
                         rows[i].good);
        if (rows[i].good) {
            assert_int_equal(r.has_range, rows[i].range);
            assert_int_equal(r.has_total, rows[i].total);
            assert_true(r.first == rows[i].first && r.last == rows[i].last &&
                        r.total == rows[i].size);
        }
    }
}

static void test_dates(void **state) {
    static const struct {
        const char *text;
        uint64_t seconds; /* 0: none */
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Thu, 01 Jan 1970 00:00:01 GMT", 1},
        {"Thu, 29 Feb 2024 12:00:00 GMT", 1709208000},
        {"Fri, 01 Mar 2024 00:00:00 GMT", 1709251200},
        {"Tue, 01 Mar 2101 00:00:00 GMT", 4139078400},
        {"Friday, 31-Dec-27 23:59:59 GMT", 1830297599},
        {"Sun, 06 Nov 1994 08:49:37", 0},
        {"Sun, 06 Nov 1994 08:49:37 CET", 0},
        {"Sun, 06 Noo 1994 08:49:37 GMT", 0},
        {"Sun, 32 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1969 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1994 24:49:37 GMT", 0},
        {"Sun, 06 Nov 99999999999999999999 08:49:37 GMT", 0},
        {"Sun", 0},
        {"", 0},
        {",", 0},
        {"x, ", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t seconds = 0;
        const bool good = sft__remote_http_date(rows[i].text, strlen(rows[i].text), &seconds);
        assert_int_equal(good, rows[i].seconds != 0);
        if (good) {
            assert_int_equal(seconds, rows[i].seconds);
        }
    }
}

static void lines(sft__remote_response *r, const char *text) {
    sft__remote_response_init(r);
    while (*text != '\0') {
        const size_t len = strcspn(text, "\n") + 1;
        sft__remote_response_line(r, text, len);
        text += len;
    }
}

static void test_heads(void **state) {
    sft__remote_response r;
    (void)state;

    lines(&r,
          "HTTP/1.1 206 Partial Content\r\ncontent-RANGE:  bytes 0-9/10 \r\nContent-Length: 10\r\n"
          "ETag: \"a\"\r\nX-Linked-Etag: \"b\"\r\nX-Repo-Commit: abc\r\nRetry-After: 7\r\n\r\n");
    assert_true(r.complete && r.status == 206 && r.has_range && r.total == 10 && r.length == 10);
    assert_string_equal(r.etag, "\"a\"");
    assert_string_equal(r.linked_etag, "\"b\"");
    assert_string_equal(r.commit, "abc");
    assert_int_equal(sft__remote_retry_after_ms(&r, 0), 7000);
    assert_null(r.fault);
    lines(&r, "HTTP/2 503 \r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
    assert_int_equal(r.status, 503);
    assert_int_equal(sft__remote_retry_after_ms(&r, 784111770), 7000);
    assert_int_equal(sft__remote_retry_after_ms(&r, 784111790), 0);
    lines(&r, "HTTP/1.1 503 x\r\nRetry-After: soon\r\n\r\n");
    assert_int_equal(sft__remote_retry_after_ms(&r, 0), 0);
    lines(&r, "HTTP/1.1 503 x\r\nRetry-After: 18446744073709551615\r\n\r\n");
    assert_true(sft__remote_retry_after_ms(&r, 0) == UINT64_MAX);
    lines(&r, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
    assert_true(r.encoded);
    lines(&r, "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding:\r\n\r\n");
    assert_false(r.encoded);
    lines(&r,
          "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-1/2\r\nContent-Range: bytes 0-1/3\r\n\r\n");
    assert_non_null(r.fault);
    lines(&r, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n");
    assert_non_null(r.fault);
    lines(&r, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
    assert_non_null(r.fault);
    lines(&r, "HTTP/1.1 20 OK\r\n\r\n");
    assert_non_null(r.fault);
    lines(&r, "HTTP/1.1 200 OK\r\n\r\nContent-Length: 9\r\n"); /* behind the body */
    assert_false(r.has_length);
    lines(&r, "HTTP/1.1 200 OK\r\nETag: \"\001\"\r\n\r\n");
    assert_string_equal(r.etag, "");
    lines(&r, "HTTP/1.1 200 OK\r\nETag: \"\"\r\n\r\n"); /* tells no version */
    assert_string_equal(r.etag, "");
    lines(&r, "HTTP/1.1 200 OK\r\nETag: W/\"\"\r\n\r\n");
    assert_string_equal(r.etag, "");
    lines(&r, "HTTP/1.1 100 Continue\r\nETag: \"x\"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    assert_true(r.status == 200 && r.etag[0] == '\0');
}

static void test_etags(void **state) {
    static const char hex[] = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef";
    char quoted[80];
    uint8_t digest[32];
    (void)state;

    assert_true(sft__remote_etag_strong("\"a\""));
    assert_false(sft__remote_etag_strong("W/\"a\""));
    assert_false(sft__remote_etag_strong("a"));
    assert_false(sft__remote_etag_strong("\""));
    assert_false(sft__remote_etag_strong(""));
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", hex);
    assert_true(sft__remote_etag_sha256(quoted, digest) && digest[0] == 0x01 && digest[31] == 0xef);
    assert_true(sft__remote_etag_sha256(hex, digest));
    quoted[5] = 'g';
    assert_false(sft__remote_etag_sha256(quoted, digest));
    assert_false(sft__remote_etag_sha256(hex + 1, digest));
    assert_false(sft__remote_etag_sha256("", digest));
}

static void test_urls(void **state) {
    static const char *const bad[] = {"",
                                      "http://",
                                      "http:///x",
                                      "http://h:0/",
                                      "http://h:65536/",
                                      "http://h:x/",
                                      "http://u@h/",
                                      "http://u:p@h/",
                                      "http://h/ x",
                                      "http://h/\n",
                                      "http://h\\x/",
                                      "http://h/#f",
                                      "http://[::1/",
                                      "http://[::1]x/",
                                      "ftp://h/",
                                      "file:///x",
                                      "//h/x"};
    static const char *const here[] = {"http://localhost/", "HTTP://LOCALHOST:8/",
                                       "https://127.0.0.1/x", "http://127.9.9.9",
                                       "http://[::1]:8/"};
    static const char *const there[] = {"http://localhost.x/", "http://127.0.0.1.x/",
                                        "http://1270.0.0.1/",  "http://127.0.0/",
                                        "http://127.0.0.0.1/", "http://10.0.0.1/"};
    sft__remote_url a;
    sft__remote_url b;
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(sft__remote_url_parse(&a, bad[i]));
    }
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
        assert_true(sft__remote_url_parse(&a, here[i]) && sft__remote_url_loopback(&a));
    }
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        assert_true(sft__remote_url_parse(&a, there[i]));
        assert_false(sft__remote_url_loopback(&a));
    }
    assert_true(sft__remote_url_parse(&a, "https://Host/a?b") && a.port == 443 && a.path_len == 2);
    assert_true(sft__remote_url_parse(&b, "HTTPS://hOST:443/c") &&
                sft__remote_url_same_origin(&a, &b));
    assert_true(sft__remote_url_parse(&b, "http://host:443/c"));
    assert_false(sft__remote_url_same_origin(&a, &b));
    assert_true(sft__remote_url_parse(&b, "https://host.x/c"));
    assert_false(sft__remote_url_same_origin(&a, &b));
    assert_true(sft__remote_url_parse(&b, "https://host:444/c"));
    assert_false(sft__remote_url_same_origin(&a, &b));
}

static void test_joining(void **state) {
    static const struct {
        const char *base, *name, *wanted;
    } rows[] = {
        {"https://h/a/b.json", "c.safetensors", "https://h/a/c.safetensors"},
        {"https://h/a/b.json?q=/1", "d/c", "https://h/a/d/c?q=/1"},
        {"https://h/a/", "c", "https://h/a/c"},
        {"https://h/a/b", "x?y#z %2e", "https://h/a/x%3Fy%23z%20%252e"},
        {"https://h/b", "\xc3\xa9", "https://h/%C3%A9"},
    };
    char shown[30];
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__base_buf b;
        sft__base_buf_init(&b, NULL);
        sft__remote_url_beside(&b, rows[i].base, rows[i].name);
        sft__base_buf_add(&b, "", 1);
        assert_string_equal(b.data, rows[i].wanted);
        sft__base_buf_reset(&b);
    }
    sft__remote_url_show(shown, sizeof shown, "https://h/x?secret=1");
    assert_string_equal(shown, "https://h/x");
    sft__remote_url_show(shown, sizeof shown, "https://h/0123456789012345678901234567890123456789");
    assert_int_equal(strlen(shown), sizeof shown - 1);
    assert_true(sft__remote_url_is_json("https://h/a.json?x"));
    assert_false(sft__remote_url_is_json("https://h/.json"));
    assert_false(sft__remote_url_is_json("https://h/a.safetensors?x.json"));
}

static void test_hub_urls(void **state) {
    static const struct {
        const char *text, *kind, *repo, *revision, *file;
    } good[] = {
        {"org/repo", "models", "org/repo", "main", NULL},
        {"org/repo/", "models", "org/repo", "main", NULL},
        {"models/org/repo/a/b.safetensors", "models", "org/repo", "main", "a/b.safetensors"},
        {"datasets/org/repo@v1", "datasets", "org/repo", "v1", NULL},
        {"org/repo@refs/pr/7/x.json", "models", "org/repo", "refs/pr/7", "x.json"},
        {"org/repo@abc/x.json", "models", "org/repo", "abc", "x.json"},
        {"gpt2", "models", "gpt2", "main", NULL},
        {"gpt2@x", "models", "gpt2", "x", NULL},
    };
    static const char *const bad[] = {"",
                                      "/",
                                      "org/",
                                      "org//x",
                                      "../repo",
                                      "org/..",
                                      "org/repo@",
                                      "org/repo@../x",
                                      "org/repo/../x",
                                      "org/repo/a//b",
                                      "org/re po",
                                      "org/repo/a\\b",
                                      "o?g/repo",
                                      "org/repo/./x",
                                      "org/repo@a/b\n"};
    sft__remote_hub_url u;
    (void)state;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(sft__remote_hub_url_parse(&u, good[i].text));
        assert_string_equal(u.kind, good[i].kind);
        assert_int_equal(u.repo_len, strlen(good[i].repo));
        assert_memory_equal(u.repo, good[i].repo, u.repo_len);
        assert_int_equal(u.revision_len, strlen(good[i].revision));
        assert_memory_equal(u.revision, good[i].revision, u.revision_len);
        assert_true((u.file == NULL) == (good[i].file == NULL));
        if (u.file != NULL) {
            assert_string_equal(u.file, good[i].file);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(sft__remote_hub_url_parse(&u, bad[i]));
    }
}

static void test_cache(void **state) {
    static uint8_t block[SFT__BLOCK];
    static uint8_t out[SFT__BLOCK];
    const uint64_t a[2] = {1, 2};
    const uint64_t b[2] = {1, 3};
    counting count;
    sft__remote_cache *c;
    sft_error err;
    size_t there = 0;
    (void)state;

    counting_init(&count);
    assert_int_equal(sft__remote_cache_create(&c, 64 * SFT__BLOCK, &count.allocator, &err), SFT_OK);
    for (uint64_t i = 0; i < 64; i++) {
        memset(block, (int)i, sizeof block);
        sft__remote_cache_put(c, a, i, block, sizeof block);
    }
    for (uint64_t i = 0; i < 64; i++) {
        assert_true(sft__remote_cache_get(c, a, i, out, sizeof out) && out[0] == i &&
                    out[SFT__BLOCK - 1] == i);
        assert_false(sft__remote_cache_get(c, b, i, out, sizeof out));
    }
    assert_false(sft__remote_cache_get(c, a, 0, out, 5));         /* another length */
    assert_true(sft__remote_cache_get(c, a, 0, out, sizeof out)); /* the newest now */
    for (uint64_t i = 0; i < 63; i++) {
        sft__remote_cache_put(c, b, i, block, sizeof block);
    }
    assert_true(sft__remote_cache_get(c, a, 0, out, sizeof out) && out[0] == 0);
    for (uint64_t i = 1; i < 64; i++) {
        there += sft__remote_cache_get(c, a, i, out, sizeof out);
    }
    assert_int_equal(there, 0);
    assert_true(count.peak <= 64 * SFT__BLOCK + 64 * 128);
    sft__remote_cache_free(c);
    assert_all_given_back(&count);
}

static sft_status creating(const void *options, sft_error *err) {
    sft_remote *remote;
    const sft_status status = sft_remote_create(&remote, options, err);
    sft_remote_free(remote);
    return status;
}

/* The row is obeyed at every size: with none that says how a remote is found, there is none. */
static sft_status finding(const void *options, sft_error *err) {
    const sft_opener_row row = {sft_remote_opener(), options};
    sft_door_options door;
    sft_catalog *c;

    SFT_INIT(&door);
    door.rows = &row;
    door.row_count = 1;
    const sft_status status = sft_open(&c, "https://h/x", NULL, &door, err);
    return strstr(err->message, "remote is NULL") != NULL ? SFT_OK : status;
}

static void test_options(void **state) {
    sft_remote_options o;
    sft_remote *remote;
    sft_error err;
    (void)state;

    SFT_INIT(&o);
    o.hf_endpoint = "file:///x";
    assert_int_equal(sft_remote_create(&remote, &o, &err), SFT_E_ARG);
    assert_null(remote);
    SFT_INIT(&o);
    o.s3_access_key = "only";
    assert_int_equal(sft_remote_create(&remote, &o, &err), SFT_E_ARG);
    SFT_INIT(&o);
    o.s3_endpoint = "http://h/?x";
    assert_int_equal(sft_remote_create(&remote, &o, &err), SFT_E_ARG);
    SFT_INIT(&o);
    o.struct_size = 0;
    assert_int_equal(sft_remote_create(&remote, &o, &err), SFT_E_ARG);
    assert_int_equal(sft_remote_create(NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_remote_create(&remote, NULL, &err), SFT_OK);
    sft_catalog *c;
    older_check(&(older_row)OLDER_ROW(sft_remote_options, struct_size, creating));
    assert_int_equal(open_url(&c, NULL, "https://h/x", NULL, &err), SFT_E_ARG);
    assert_null(c);
    sft_remote_free(remote);
    sft_remote_free(NULL);
    older_check(&(older_row)OLDER_ROW(sft_remote_opening, remote, finding));
}

/* Feeds a body in steps of `step` bytes; a part is always expected where the last one ended, or at
 * the next of the offsets. Writes what came to `got` as "offset:bytes;". */
static const char *feed(const char *body, size_t step, const uint64_t *expected, size_t most,
                        char *got, size_t room, bool *ended) {
    const size_t len = strlen(body);
    sft__remote_multipart p;
    sft__remote_slice s;
    size_t next = 0;
    size_t used = 0;
    uint64_t at = expected[0];

    sft__remote_multipart_init(&p, "B", 100, 60, most);
    got[0] = '\0';
    for (size_t i = 0; i < len; i += step) {
        const uint8_t *data = (const uint8_t *)body + i;
        size_t n = len - i < step ? len - i : step;
        while (sft__remote_multipart_next(&p, at, &data, &n, &s)) {
            assert_true(s.size > 0 && s.offset == at && s.offset + s.size <= 60);
            used += (size_t)snprintf(got + used, room - used, "%.*s", (int)s.size,
                                     (const char *)s.data);
            at += s.size;
            if (p.left == 0) {
                at = expected[++next];
                used += (size_t)snprintf(got + used, room - used, ";");
            }
        }
    }
    *ended = sft__remote_multipart_ended(&p);
    return p.fault;
}

static void test_multipart(void **state) {
#define RANGE(a, b) "Content-Range: bytes " #a "-" #b "/100\r\n"
    static const uint64_t expected[] = {10, 20, 30, 60};
    static const struct {
        const char *body, *got, *fault;
        bool ended;
    } rows[] = {
        {"\r\n--B\r\n" RANGE(
             10, 12) "\r\nabc\r\n--B\r\ncontent-range:bytes 20-20/*\r\n\r\nx\r\n--B--\r\n",
         "abc;x;", NULL, true},
        {"--B\n" RANGE(10, 12) "\nabc\n--B  \nX: y\r\n" RANGE(20, 20) "\nx\n--B--\nmore --B",
         "abc;x;", NULL, true},
        {"--B\r\n" RANGE(10, 18) "\r\n0\r\n--B\r\n9\r\n--B--\r\n", "0\r\n--B\r\n9;", NULL, true},
        {"--B\r\n" RANGE(10, 11) "\r\nabc\r\n--B--\r\n", "ab;", "is longer", false},
        {"--B\r\n" RANGE(10, 12) "\r\nabc\r\n--B\r\n" RANGE(21, 22) "\r\n", "abc;",
         "asked for next", false},
        {"--B\r\n" RANGE(10, 60) "\r\n", "", "asked for next", false},
        {"--B\r\n" RANGE(10, 9) "\r\n", "", "makes no sense", false},
        {"--B\r\n" RANGE(10, 12) RANGE(10, 12) "\r\n", "", "two Content-Range", false},
        {"--B\r\nContent-Range: bytes 10-12/101\r\n\r\n", "", "another size", false},
        {"--B\r\nContent-Range: bytes */100\r\n\r\n", "", "makes no sense", false},
        {"--B\r\nContent-Type: x\r\n\r\nabc", "", "no Content-Range", false},
        {"--BB\r\n", "", "no boundary", false},
        {"hello\r\n--B\r\n", "", "no boundary", false},
        {"--B\r\n" RANGE(10, 10) "\r\na\r\n--B\r\n" RANGE(20, 20) "\r\na\r\n--B\r\n" RANGE(
             30, 30) "\r\na\r\n--B\r\n",
         "a;a;a;", "more parts", false},
        {"--B\r\n" RANGE(10, 12) "\r\nab", "ab", NULL, false},
        {"--B--\r\n", "", NULL, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t step = 1; step < 90; step++) {
            char got[200];
            bool ended;
            const char *fault = feed(rows[i].body, step, expected, 3, got, sizeof got, &ended);
            if (rows[i].fault == NULL) {
                assert_null(fault);
                assert_string_equal(got, rows[i].got);
            } else {
                assert_non_null(fault);
                assert_non_null(strstr(fault, rows[i].fault));
            }
            assert_int_equal(ended, rows[i].ended);
        }
    }
    char boundary[SFT__BOUNDARY_MAX + 1];
    static const struct {
        const char *value, *boundary;
    } types[] = {
        {"multipart/byteranges; boundary=0001", "0001"},
        {"Multipart/ByteRanges;charset=x; BOUNDARY=\"a b\"", ""},
        {"multipart/byteranges; boundary=\"a'b\"; x=y", "a'b"},
        {"multipart/byteranges;boundary=a;b=c", "a"},
        {"multipart/byteranges", ""},
        {"multipart/byteranges; boundary=", ""},
        {"multipart/byteranges; boundary=\"x", ""},
        {"multipart/byterangesx; boundary=x", ""},
        {"multipart/mixed; boundary=x", ""},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const bool good =
            sft__remote_multipart_boundary(types[i].value, strlen(types[i].value), boundary);
        assert_int_equal(good, types[i].boundary[0] != '\0');
        assert_string_equal(boundary, types[i].boundary);
    }
    char longest[200] = "multipart/byteranges; boundary=";
    memset(longest + strlen(longest), 'x', 71);
    assert_false(sft__remote_multipart_boundary(longest, strlen(longest), boundary));
    assert_true(sft__remote_multipart_boundary(longest, strlen(longest) - 1, boundary));
#undef RANGE
}

static void test_reach(void **state) {
    static const struct {
        const char *host;
        int literal;
        sft__remote_reach reach;
    } rows[] = {
        {"127.0.0.1", 1, SFT__REACH_SELF},
        {"127.255.255.254", 1, SFT__REACH_SELF},
        {"0", 1, SFT__REACH_SELF},
        {"0.0.0.0", 1, SFT__REACH_SELF},
        {"0x7f000001", 1, SFT__REACH_SELF},
        {"2130706433", 1, SFT__REACH_SELF},
        {"0177.1", 1, SFT__REACH_SELF},
        {"[::1]", 1, SFT__REACH_SELF},
        {"[::]", 1, SFT__REACH_SELF},
        {"[::ffff:127.0.0.1]", 1, SFT__REACH_SELF},
        {"[::127.0.0.1]", 1, SFT__REACH_SELF},
        {"[64:ff9b::7f00:1]", 1, SFT__REACH_SELF},
        {"[2002:7f00:1::]", 1, SFT__REACH_SELF},
        {"localhost", 1, SFT__REACH_SELF},
        {"LOCALHOST.", 1, SFT__REACH_SELF},
        {"a.localhost", 1, SFT__REACH_SELF},
        {"169.254.169.254", 1, SFT__REACH_LINK},
        {"[fe80::1]", 1, SFT__REACH_LINK},
        {"[::ffff:169.254.169.254]", 1, SFT__REACH_LINK},
        {"169.254.169.254.", 1, SFT__REACH_LINK},
        {"[fe80::1%25lo]", 1, SFT__REACH_LINK},
        {"[fe80::1%25no-such-interface]", 1, SFT__REACH_LINK},
        {"[fe80::1%eth7]", 1, SFT__REACH_LINK},
        {"[::1%25lo]", 1, SFT__REACH_SELF},
        {"127.0.0.1.", 1, SFT__REACH_SELF},
        {"0x7f.1.", 1, SFT__REACH_SELF},
        {"10.1.2.3", 1, SFT__REACH_PRIVATE},
        {"10.1.2.3..", 1, SFT__REACH_PRIVATE},
        {"172.16.0.1", 1, SFT__REACH_PRIVATE},
        {"172.31.255.255", 1, SFT__REACH_PRIVATE},
        {"192.168.0.1", 1, SFT__REACH_PRIVATE},
        {"100.64.0.1", 1, SFT__REACH_PRIVATE},
        {"[fc00::1]", 1, SFT__REACH_PRIVATE},
        {"[fd12::1]", 1, SFT__REACH_PRIVATE},
        {"[ff02::1]", 1, SFT__REACH_PRIVATE},
        {"224.0.0.1", 1, SFT__REACH_PRIVATE},
        {"255.255.255.255", 1, SFT__REACH_PRIVATE},
        {"172.32.0.1", 1, SFT__REACH_PUBLIC},
        {"100.128.0.1", 1, SFT__REACH_PUBLIC},
        {"8.8.8.8", 1, SFT__REACH_PUBLIC},
        {"[2606:4700::1111]", 1, SFT__REACH_PUBLIC},
        {"[::ffff:8.8.8.8]", 1, SFT__REACH_PUBLIC},
        {"example.org", 0, SFT__REACH_PUBLIC},
        {"127.0.0.1.example.org", 0, SFT__REACH_PUBLIC},
        {"notlocalhost", 0, SFT__REACH_PUBLIC},
        {"", 0, SFT__REACH_PUBLIC},
        {"[]", 0, SFT__REACH_PUBLIC},
        {"[%25lo]", 0, SFT__REACH_PUBLIC},
        {".", 0, SFT__REACH_PUBLIC},
        {"example.org.", 0, SFT__REACH_PUBLIC},
        {"8.8.8.8.example.org.", 0, SFT__REACH_PUBLIC},
        {"8.8.8.8.", 1, SFT__REACH_PUBLIC},
        {"[2606:4700::1111%25eth0]", 1, SFT__REACH_PUBLIC},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__remote_reach reach = SFT__REACH_PUBLIC;
        const bool literal = sft__remote_reach_literal(rows[i].host, strlen(rows[i].host), &reach);
        if (literal != (rows[i].literal != 0) || (literal && reach != rows[i].reach)) {
            fail_msg("%s: literal %d, reach %d", rows[i].host, (int)literal, (int)reach);
        }
    }
    for (int from = 0; from < 4; from++) {
        for (int to = 0; to < 4; to++) {
            static const int allowed[4][4] = {
                /* from, to: public, private, link-local, this machine */
                {1, 0, 0, 0},
                {1, 1, 0, 0},
                {1, 1, 1, 0},
                {1, 1, 1, 1}};
            assert_int_equal(
                sft__remote_reach_refusal((sft__remote_reach)from, (sft__remote_reach)to) == NULL,
                allowed[from][to]);
        }
    }
}

static void test_proxies(void **state) {
    static const struct {
        const char *no;
        const char *url;
        int direct;
    } rows[] = {
        {NULL, "https://a.org/", 0},
        {"*", "https://a.org/", 1},
        {"a.org", "https://a.org/", 1},
        {".a.org", "https://a.org/", 1},
        {"a.org", "https://b.a.org/", 1},
        {"a.org", "https://xa.org/", 0},
        {"A.ORG.", "https://a.org./", 1},
        {"b.org, a.org", "https://a.org:8443/x", 1},
        {"b.org a.org", "https://a.org/", 1},
        {"0.0.1", "https://10.0.0.1/", 0},
        {"10.0.0.1", "https://10.0.0.1/", 1},
        {"10.0.0.0/8", "https://10.9.9.9/", 1},
        {"10.0.0.0/8", "https://11.9.9.9/", 0},
        {"10.0.0.0/33", "https://10.0.0.0/", 0},
        {"10.0.0.0/", "https://10.0.0.0/", 0},
        {"::1", "https://[::1]/", 1},
        {",,", "https://a.org/", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sft__remote_proxies p = {NULL, "http://h", "http://s", rows[i].no, true};
        sft__remote_url u;
        assert_true(sft__remote_url_parse(&u, rows[i].url));
        if ((sft__remote_proxy_for(&p, &u) == NULL) != (rows[i].direct != 0)) {
            fail_msg("no_proxy %s, %s", rows[i].no != NULL ? rows[i].no : "-", rows[i].url);
        }
    }
    const sft__remote_proxies p = {NULL, "http://h", NULL, NULL, false};
    sft__remote_url u;
    assert_true(sft__remote_url_parse(&u, "http://a/"));
    assert_string_equal(sft__remote_proxy_for(&p, &u), "http://h");
    assert_true(sft__remote_url_parse(&u, "https://a/"));
    assert_null(sft__remote_proxy_for(&p, &u));
}

/* http:// to this machine is not asked of another one. */
static void test_proxies_of_this_machine(void **state) {
    static const struct {
        const char *proxy;
        const char *url;
        int direct;
        int direct_plain; /* http to other machines is allowed */
    } rows[] = {
        {"http://proxy.example:3128", "http://127.0.0.1:8/x", 1, 0},
        {"http://proxy.example:3128", "http://localhost/x", 1, 0},
        {"http://proxy.example:3128", "http://[::1]:8/x", 1, 0},
        {"http://user:127.0.0.1@10.0.0.1:3128/", "http://127.0.0.1/x", 1, 0},
        {"socks5h://10.0.0.1", "http://127.0.0.1/x", 1, 0},
        {"proxy", "http://127.0.0.1/x", 1, 0},
        {"127.0.0.1.example.org:1", "http://127.0.0.1/x", 1, 0},
        {"http://[::bad", "http://127.0.0.1/x", 1, 0},
        {"@", "http://127.0.0.1/x", 1, 0},
        {"[", "http://127.0.0.1/x", 1, 0},
        {"http://", "http://127.0.0.1/x", 1, 0},
        {"http://proxy.example:3128", "https://127.0.0.1/x", 0, 0},
        {"http://proxy.example:3128", "http://other.example/x", 0, 0},
        {"127.0.0.1:3128", "http://127.0.0.1/x", 0, 0},
        {"http://user:p@ss@localhost:3128/", "http://127.0.0.1/x", 0, 0},
        {"http://[::1]:3128", "http://localhost/x", 0, 0},
        {"socks5://127.1", "http://[::1]/x", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int plain = 0; plain < 2; plain++) {
            const sft__remote_proxies p = {NULL, rows[i].proxy, rows[i].proxy, NULL, plain != 0};
            const int wanted = plain != 0 ? rows[i].direct_plain : rows[i].direct;
            sft__remote_url u;
            assert_true(sft__remote_url_parse(&u, rows[i].url));
            if ((sft__remote_proxy_for(&p, &u) == NULL) != (wanted != 0)) {
                fail_msg("%s through %s, plain %d", rows[i].url, rows[i].proxy, plain);
            }
        }
    }
}

static void test_shown(void **state) {
    static const char *const rows[][2] = {
        {"https://user:pw@host/p?sig=1", "https://host/p"},
        {"http://u@x@host/p#f", "http://host/p"},
        {"https://host/p@q?x", "https://host/p@q"},
        {"https://host?x@y", "https://host"},
        {"hf://org/repo@main/f?x", "hf://org/repo@main/f"},
        {"hf://gpt2@main/f", "hf://gpt2@main/f"},
        {"s3://b/k?x", "s3://b/k"},
        {"https://h/f%3Fsig%3D1", "https://h/f"},
        {"https://h/f%3fsig%3D1", "https://h/f"},
        {"https://h/f%3Csig%", "https://h/f%3Csig%"},
        {"https://h/%3", "https://h/%3"},
        {"https//h/f?sig=1&u=http://x", "https//h/f"}, /* a scheme mistyped, another in the query */
        {"https://h/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "https://h/aaaaaaaaaaaaaaaaa..."},
    };
    static const char *const stable[][2] = {
        {"https://h/p", "https://h/p"},
        {"https://h/p?X-Amz-Signature=1&v=2&Expires=3&Signature=x", "https://h/p?v=2"},
        {"https://h/p?sig=1&se=2", "https://h/p"},
        {"https://h/p?a=1&b=2", "https://h/p?a=1&b=2"},
        {"https://h/p?X-Goog-Date=1&versionId=7", "https://h/p?versionId=7"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char shown[31];
        sft__remote_url_show(shown, sizeof shown, rows[i][0]);
        assert_string_equal(shown, rows[i][1]);
    }
    for (size_t i = 0; i < sizeof stable / sizeof stable[0]; i++) {
        sft__base_buf b;
        sft__base_buf_init(&b, sft__base_allocator(NULL));
        sft__remote_url_stable(&b, stable[i][0]);
        sft__base_buf_add(&b, "", 1);
        assert_string_equal(b.data, stable[i][1]);
        sft__base_buf_reset(&b);
    }
}

static void test_reasons(void **state) {
    static const char *const rows[][2] = {
        {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Request has "
         "expired</Message></Error>",
         "AccessDenied: Request has expired"},
        {" {\"error\": \"Repository not found\"}", "Repository not found"},
        {"{\"error\":{\"code\":3,\"message\":\"deep\"}}", "deep"},
        {"{\"detail\" : \"cut of", "cut of"},
        {"{\"message\":\"a\\\"b\"}", "a\\\"b"},
        {"{\"message\":\"line\nbreak\x1b\"}", "line break "},
        {"<html><Message>x</Message></html>", ""},
        {"<Error><Code>", ""},
        {"<Error><Code></Code><Message>m</Message>", "m"},
        {"{\"error\":", ""},
        {"{\"error\":\"\\", "\\"},
        {"text", ""},
        {"", ""},
    };
    char dst[64];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t len = strlen(rows[i][0]);
        char *exact = malloc(len + 1); /* nothing behind it is to be read */
        memcpy(exact, rows[i][0], len);
        sft__remote_reason(dst, sizeof dst, exact, len);
        assert_string_equal(dst, rows[i][1]);
        for (size_t n = 0; n < len; n++) {
            sft__remote_reason(dst, 8, exact, n);
            assert_true(strlen(dst) < 8);
        }
        free(exact);
    }
    assert_true(sft__remote_mentions("signature ab%2Fcdef is wrong", "ab/cdef", 7));
    assert_true(sft__remote_mentions("ab/cdef", "ab%2Fcdef", 9));
    assert_false(sft__remote_mentions("ab/cd", "ab/cdef", 7));
    assert_false(sft__remote_mentions("abc", "abc", 3)); /* too short to be told from words */
    assert_true(sft__remote_mentions_query("no s3cr3t!", "https://h/p?a=1&sig=s3cr3t!"));
    assert_true(sft__remote_mentions_query("for user:pass", "https://user:pass@h/p"));
    assert_false(sft__remote_mentions_query("for h and p?a", "https://h/p?a=b&c"));
}

/* Servers that do not repeat a secret letter by letter. */
static void test_disguises(void **state) {
    static const char secret[] = "hf_S3cretToken0123456789";
    static const char *const shown[] = {
        "no HF_S3CRETTOKEN0123456789",
        "no hf_s3crettoken0123456789",
        "no hf_S3cretToken0123456", /* most of it */
        "no S3cretToken0123456789",
        "no hf\\u005fS3cret\\u0054oken0123456789",
        "no hf&#95;S3cret&#x54;oken0123456789",
        "no hf%5FS3cret%54oken0123456789",
        "no aGZfUzNjcmV0VG9rZW4wMTIzNDU2Nzg5 here", /* base64, at each of its four beginnings */
        "no AGhmX1MzY3JldFRva2VuMDEyMzQ1Njc4OQ==",
        "no=AABoZl9TM2NyZXRUb2tlbjAxMjM0NTY3ODk",
        "Basic dXNlcjpoZl9TM2NyZXRUb2tlbjAxMjM0NTY3ODk="};
    static const char *const harmless[] = {
        "AuthorizationHeaderMalformed: the region 'us-east-1' is wrong; expecting 'eu-west-1'",
        "AccessDenied: Request has expired",
        "Repository not found",
        "Invalid token hf_S3cret",
        "",
        "\\",
        "\\u",
        "&#",
        "&#x",
        "%",
        "no bm90aGluZyBzZWNyZXQgaXMgaW4gaGVyZSBhdCBhbGw="};
    (void)state;
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        assert_true(sft__remote_mentions(shown[i], secret, strlen(secret)));
    }
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        assert_false(sft__remote_mentions(harmless[i], secret, strlen(secret)));
        assert_false(sft__remote_mentions_query(
            harmless[i],
            "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
            "AKIAIOSFODNN7EXAMPLE%2F20261123%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date="
            "20261123T000000Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host"));
    }
    char long_secret[6000];
    memset(long_secret, 'x', sizeof long_secret);
    long_secret[5999] = '\0';
    assert_true(sft__remote_mentions("it was xxxxxxxxxxxxxxxx", long_secret,
                                     5999)); /* cut: a piece is enough */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content_range),
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_etags),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_joining),
        cmocka_unit_test(test_hub_urls),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_multipart),
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_proxies),
        cmocka_unit_test(test_proxies_of_this_machine),
        cmocka_unit_test(test_shown),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_disguises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
