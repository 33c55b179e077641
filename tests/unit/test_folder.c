/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of catalogs over several files: folders, index files, what they disagree about, and
 * hostile names and links.
 */
#include "unit/cm.h"
#include "unit/counting.h"
#include "unit/folder.h"

#include "base/thread/thread.h"
#include "fs/below.h"
#include <errno.h>
#include <sft/extend.h>
#include <sft/sft.h>
#include <unistd.h>

static char tmp[64];

static int setup(void **state) {
    (void)state;
    folder_make(tmp);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    folder_remove(tmp);
    return 0;
}

static const char *at(const char *name) {
    return in_folder(tmp, name);
}

static void put(const char *name, const char *text) {
    write_file(at(name), text, strlen(text));
}

static void dir(const char *name) {
    assert_int_equal(mkdir(at(name), 0700), 0);
}

/* A file with U8 tensors: "a:3 bb:1" is a of shape [3] and bb of shape [1], in this order. */
static void shard(const char *name, const char *tensors) {
    char header[4096] = "{";
    size_t len = 1;
    size_t begin = 0;
    for (const char *p = tensors; *p != '\0';) {
        const size_t n = strcspn(p, ":");
        char *end;
        const size_t size = (size_t)strtoul(p + n + 1, &end, 10);
        len += (size_t)snprintf(header + len, sizeof header - len,
                                "%s\"%.*s\":{\"dtype\":\"U8\",\"shape\":[%zu],"
                                "\"data_offsets\":[%zu,%zu]}",
                                len > 1 ? "," : "", (int)n, p, size, begin, begin + size);
        begin += size;
        p = *end == ' ' ? end + 1 : end;
    }
    (void)snprintf(header + len, sizeof header - len, "}");
    write_tensors(at(name), header, begin);
}

static sft_status open_flags(sft_catalog **c, const char *name, uint32_t flags, sft_error *err) {
    sft_open_options o;
    SFT_INIT(&o);
    o.flags = flags;
    return sft_catalog_open(c, name[0] != '\0' ? at(name) : tmp, &o, err);
}

/* "name@path ..." of all tensors in order, each with its bytes proven to be those of its file. */
static void describe(const sft_catalog *c, char *text, size_t cap) {
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sft_catalog_count(c); i++) {
        const sft_tensor *t = sft_catalog_at(c, i);
        const sft_file *f = sft_catalog_file_at(c, t->file);
        const sft_source *s = sft_catalog_source_at(c, t->pieces[0].source);
        uint8_t bytes[64];
        assert_int_equal(f->source, t->pieces[0].source);
        assert_string_equal(sft_source_name(s), f->path);
        assert_true(t->pieces[0].offset >= f->data_offset);
        assert_ptr_equal(sft_catalog_find(c, t->name, t->name_len), t);
        assert_int_equal(sft_catalog_index_of(c, t), i);
        assert_int_equal(sft_source_read(s, t->pieces[0].offset, bytes, (size_t)t->nbytes, NULL),
                         SFT_OK);
        for (uint64_t b = 0; b < t->nbytes; b++) {
            assert_int_equal(bytes[b],
                             (uint8_t)((t->pieces[0].offset - f->data_offset + b) * 7 + 1));
        }
        const char *base = strstr(f->path, tmp) == f->path ? f->path + strlen(tmp) + 1 : f->path;
        len += (size_t)snprintf(text + len, cap - len, "%s%s@%s", i > 0 ? " " : "", t->name, base);
    }
}

static void assert_opens_as(const char *name, uint32_t flags, const char *expected) {
    sft_catalog *c;
    sft_error err;
    char text[2048];
    const sft_status st = open_flags(&c, name, flags, &err);
    if (st != SFT_OK) {
        fail_msg("%s: %s", sft_status_name(st), err.message);
    }
    describe(c, text, sizeof text);
    assert_string_equal(text, expected);
    sft_catalog_close(c);
}

static void assert_refused(const char *name, uint32_t flags, sft_status status, const char *said) {
    sft_catalog *c = (sft_catalog *)1;
    sft_error err;
    const sft_status st = open_flags(&c, name, flags, &err);
    if (st != status || (said != NULL && strstr(err.message, said) == NULL)) {
        fail_msg("%s: %s, expected %s: %s", sft_status_name(st), st != SFT_OK ? err.message : "",
                 sft_status_name(status), said != NULL ? said : "");
    }
    assert_null(c);
}

/* ---------------------------------------------------------------- folders without an index */

static void a_folder_is_all_its_files(void **state) {
    (void)state;
    dir("plain");
    shard("plain/b.safetensors", "b2:2 b1:3");
    shard("plain/a.safetensors", "a:5");
    shard("plain/B.safetensors", "big:1");
    shard("plain/.hidden.safetensors", "hidden:1");
    shard("plain/other.bin", "other:1");
    put("plain/README.md", "x");
    assert_opens_as("plain", 0,
                    "big@plain/B.safetensors a@plain/a.safetensors b2@plain/b.safetensors "
                    "b1@plain/b.safetensors");
    assert_opens_as("plain/", 0,
                    "big@plain/B.safetensors a@plain/a.safetensors b2@plain/b.safetensors "
                    "b1@plain/b.safetensors");
    assert_int_equal(symlink("plain", at("to_plain")), 0);
    assert_opens_as("to_plain", 0,
                    "big@to_plain/B.safetensors a@to_plain/a.safetensors b2@to_plain/b.safetensors "
                    "b1@to_plain/b.safetensors");
}

static void a_folder_of_one_file(void **state) {
    (void)state;
    dir("single");
    shard("single/model.safetensors", "x:1 y:2");
    assert_opens_as("single", 0, "x@single/model.safetensors y@single/model.safetensors");
}

static void a_folder_without_weights(void **state) {
    (void)state;
    dir("none");
    put("none/pytorch_model.bin", "x");
    assert_refused("none", 0, SFT_E_FORMAT, "no *.safetensors");
}

static void names_in_two_files(void **state) {
    (void)state;
    dir("twice");
    shard("twice/one.safetensors", "x:1 y:2");
    shard("twice/two.safetensors", "z:1 y:2");
    sft_catalog *c;
    sft_error err;
    assert_int_equal(open_flags(&c, "twice", 0, &err), SFT_E_DUPLICATE);
    assert_string_equal(err.tensor, "y");
    assert_non_null(strstr(err.message, "one.safetensors"));
    assert_non_null(strstr(err.message, "two.safetensors"));
}

static void a_bad_file_in_a_folder_is_named(void **state) {
    (void)state;
    dir("badone");
    shard("badone/a.safetensors", "x:1 y:2");
    put("badone/b\x1b[31m.safetensors", "12345678901234567890");
    assert_refused("badone", 0, SFT_E_HEADER_TOO_LARGE, "b\\x1b[31m.safetensors: header length");
    put("badone/b\x1b[31m.safetensors", "\2");
    assert_refused("badone", 0, SFT_E_TOO_SMALL, "b\\x1b[31m.safetensors: ");
    assert_int_equal(unlink(at("badone/b\x1b[31m.safetensors")), 0);
    write_tensors(at("badone/c.safetensors"),
                  "{\"t\\u202e\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", 4);
    sft_catalog *c;
    sft_error err;
    assert_int_equal(open_flags(&c, "badone", 0, &err), SFT_E_HOLE);
    assert_true(strstr(err.message, "c.safetensors: ") == err.message);
    assert_string_equal(err.tensor, "t\\u202e"); /* escaped once, not twice */
    assert_true(err.offset != SFT_NO_OFFSET);
}

static void special_files_in_a_folder(void **state) {
    (void)state;
    dir("special");
    shard("special/a.safetensors", "x:1");
    assert_int_equal(mkfifo(at("special/f.safetensors"), 0600), 0);
    assert_refused("special", 0, SFT_E_NOT_REGULAR, "f.safetensors");
    assert_int_equal(unlink(at("special/f.safetensors")), 0);
    dir("special/d.safetensors");
    assert_refused("special", 0, SFT_E_NOT_REGULAR, "d.safetensors");
}

/* ---------------------------------------------------------------- with an index */

#define MAP(entries)     "{\"metadata\":{\"total_size\":6},\"weight_map\":{" entries "}}"
#define IN(tensor, file) "\"" tensor "\":\"" file "\""

static void make_pair(const char *folder) {
    char name[64];
    dir(folder);
    (void)snprintf(name, sizeof name, "%s/m-1.safetensors", folder);
    shard(name, "a:1 b:2");
    (void)snprintf(name, sizeof name, "%s/m-2.safetensors", folder);
    shard(name, "c:3");
    (void)snprintf(name, sizeof name, "%s/model.safetensors.index.json", folder);
    put(name, MAP(IN("c", "m-2.safetensors") "," IN("b", "m-1.safetensors") "," IN(
                  "a", "m-1.safetensors")));
}

static void an_index_opens_by_folder_by_path_and_by_content(void **state) {
    (void)state;
    make_pair("pair");
    assert_opens_as("pair", 0,
                    "a@pair/m-1.safetensors b@pair/m-1.safetensors c@pair/m-2.safetensors");
    assert_opens_as("pair/model.safetensors.index.json", 0,
                    "a@pair/m-1.safetensors b@pair/m-1.safetensors c@pair/m-2.safetensors");
    static const char *const names[] = {"pair/foo.json", "pair/noextension", "pair/x.index.json"};
    for (size_t i = 0; i < 3; i++) {
        put(names[i], "\n {\"x\":[1,{}],\"weight_map\":{\"b\":\"m-1.safetensors\"}}");
        assert_opens_as(names[i], 0, "b@pair/m-1.safetensors");
        assert_int_equal(unlink(at(names[i])), 0);
    }
    put("pair/foo.json", "{\"weight\":{\"b\":\"m-1.safetensors\"}}");
    assert_refused("pair/foo.json", 0, SFT_E_HEADER_TOO_LARGE, NULL);
    put("pair/foo.index.json", "{\"weight\":{\"b\":\"m-1.safetensors\"}}");
    assert_refused("pair/foo.index.json", 0, SFT_E_INDEX, "foo.index.json: ");
    assert_int_equal(unlink(at("pair/foo.json")), 0);
    assert_int_equal(unlink(at("pair/foo.index.json")), 0);

    char here[4096];
    sft_catalog *c;
    sft_error err;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(at("pair")), 0);
    assert_int_equal(sft_catalog_open(&c, "model.safetensors.index.json", NULL, &err), SFT_OK);
    assert_string_equal(sft_catalog_file_at(c, 0)->path, "m-1.safetensors");
    sft_catalog_close(c);
    assert_int_equal(sft_catalog_open(&c, ".", NULL, &err), SFT_OK);
    assert_string_equal(sft_catalog_file_at(c, 0)->path, "./m-1.safetensors");
    assert_int_equal(sft_catalog_count(c), 3);
    sft_catalog_close(c);
    assert_int_equal(chdir(here), 0);
}

static void several_indexes(void **state) {
    (void)state;
    make_pair("several");
    put("several/a.safetensors.index.json", MAP(IN("a", "m-1.safetensors")));
    assert_opens_as(
        "several", 0,
        "a@several/m-1.safetensors b@several/m-1.safetensors c@several/m-2.safetensors");
    assert_int_equal(
        rename(at("several/model.safetensors.index.json"), at("several/b.safetensors.index.json")),
        0);
    assert_refused("several", 0, SFT_E_INDEX, "a.safetensors.index.json, b.safetensors.index.json");
    assert_int_equal(unlink(at("several/b.safetensors.index.json")), 0);
    assert_opens_as("several", 0, "a@several/m-1.safetensors");
}

/* What index and files disagree about, one row each: the index's map, what comes of it, strictly
 * and with SFT_OPEN_INCOMPLETE. m-1 has a:1 b:2, m-2 has c:3 d:4, m-3 has b:9 d:1 e:1. */
static void disagreements(void **state) {
    (void)state;
    enum {
        ORPHAN = 1 << SFT_PROBLEM_ORPHAN_TENSOR,
        OTHER = 1 << SFT_PROBLEM_OTHER_SHARD,
        NO_FILE = 1 << SFT_PROBLEM_MISSING_FILE,
        NO_TENSOR = 1 << SFT_PROBLEM_MISSING_TENSOR,
        LONELY = 1 << SFT_PROBLEM_ORPHAN_FILE,
        TOTAL = 1 << SFT_PROBLEM_TOTAL_SIZE
    };
    static const struct {
        const char *map;
        sft_status status;   /* without INCOMPLETE */
        const char *said;    /* in its message, or NULL */
        const char *tensors; /* with INCOMPLETE; NULL: refused with the same status */
        unsigned problems;   /* kinds, with INCOMPLETE */
        size_t count;        /* of them */
    } rows[] = {
        /* all is well, but m-3 is not named: alone it is an orphan */
        {IN("a", "m-1") "," IN("b", "m-1") "," IN("c", "m-2") "," IN("d", "m-2"), SFT_OK, NULL,
         "abcd", LONELY | TOTAL, 2},
        {IN("a", "m-1"), SFT_OK, NULL, "a", LONELY | TOTAL | ORPHAN, 4},
        {IN("a", "m-1") "," IN("b", "m-1") "," IN("c", "m-2"), SFT_OK, NULL, "abc", LONELY | ORPHAN,
         2},
        {"", SFT_OK, NULL, "", LONELY | TOTAL, 4},
        /* a missing file */
        {IN("a", "m-1") "," IN("x", "m-9"), SFT_E_SHARD_MISSING, "m-9.safetensors", "a",
         NO_FILE | ORPHAN | LONELY, 4},
        {IN("x", "m-9") "," IN("y", "m-9") "," IN("z", "m-8"), SFT_E_SHARD_MISSING,
         "m-8.safetensors", "", NO_FILE | LONELY, 5},
        {IN("x", "sub/m-1"), SFT_E_SHARD_MISSING, "sub/m-1.safetensors", "", NO_FILE | LONELY, 4},
        {IN("x", "m-1.safetensors/m-1"), SFT_E_SHARD_MISSING, "m-1.safetensors/m-1", "",
         NO_FILE | LONELY, 4},
        /* a missing tensor */
        {IN("a", "m-1") "," IN("x", "m-1"), SFT_E_SHARD_DISAGREES, "m-1.safetensors", "a",
         NO_TENSOR | ORPHAN | LONELY, 4},
        /* it lies in another file */
        {IN("a", "m-1") "," IN("b", "m-1") "," IN("c", "m-1"), SFT_E_SHARD_DISAGREES,
         "m-1.safetensors", "ab", NO_TENSOR | LONELY,
         3}, /* m-2, which has c, is not named at all */
        {IN("a", "m-2") "," IN("c", "m-2") "," IN("b", "m-1"), SFT_OK, NULL, "abc",
         OTHER | ORPHAN | LONELY, 3},
        /* it lies in two, one of them right */
        {IN("b", "m-1") "," IN("e", "m-3"), SFT_OK, NULL, "be", OTHER | ORPHAN | LONELY | TOTAL, 5},
        {IN("b", "m-3") "," IN("a", "m-1"), SFT_OK, NULL, "ab", OTHER | ORPHAN | LONELY | TOTAL, 5},
        /* it lies in two, both wrong: in m-1 and m-3, the index says m-2 */
        {IN("b", "m-2") "," IN("a", "m-1") "," IN("e", "m-3"), SFT_E_DUPLICATE, "m-2.safetensors",
         NULL, 0, 0},
        /* the file that should have it is missing, another has it */
        {IN("a", "m-9") "," IN("b", "m-1"), SFT_E_SHARD_MISSING, NULL, "ab",
         NO_FILE | OTHER | LONELY | TOTAL, 5},
        /* the index says nothing that can be trusted */
        {IN("a", "m-1") "," IN("a", "m-2"), SFT_E_DUPLICATE, "index.json", NULL, 0, 0},
        {"\"a\":1", SFT_E_INDEX, "index.json", NULL, 0, 0},
        {"\"a\":null", SFT_E_INDEX, "index.json", NULL, 0, 0},
        {"\"a\":", SFT_E_INDEX, "index.json", NULL, 0, 0},
        {IN("a", ""), SFT_E_PATH, "index.json", NULL, 0, 0},
    };
    dir("dis");
    shard("dis/m-1.safetensors", "a:1 b:2");
    shard("dis/m-2.safetensors", "c:3 d:4");
    shard("dis/m-3.safetensors", "b:9 d:1 e:1");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        char map[512] = "";
        size_t len = 0;
        for (const char *p = rows[i].map; *p != '\0';
             p++) { /* "m-1" stands for "m-1.safetensors" */
            if (p[0] == '"' && p > rows[i].map + 3 && p[-2] == '-') {
                len += (size_t)snprintf(map + len, sizeof map - len, ".safetensors");
            }
            map[len++] = *p;
            map[len] = '\0';
        }
        (void)snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":6},\"weight_map\":{%s}}",
                       map);
        put("dis/model.safetensors.index.json", text);
        if (rows[i].status != SFT_OK) {
            assert_refused("dis", 0, rows[i].status, rows[i].said);
        }
        if (rows[i].tensors == NULL) {
            assert_refused("dis", SFT_OPEN_INCOMPLETE, rows[i].status, rows[i].said);
            continue;
        }
        sft_catalog *c;
        sft_error err = {.status = 77}; /* written only on failure, whatever was missing */
        assert_int_equal(open_flags(&c, "dis", SFT_OPEN_INCOMPLETE, &err), SFT_OK);
        assert_int_equal(err.status, 77);
        assert_int_equal(sft_catalog_count(c), strlen(rows[i].tensors));
        for (const char *p = rows[i].tensors; *p != '\0'; p++) {
            assert_non_null(sft_catalog_find(c, p, 1));
        }
        describe(c, text, sizeof text);
        unsigned kinds = 0;
        for (size_t k = 0; k < sft_catalog_problem_count(c); k++) {
            const sft_problem *p = sft_catalog_problem_at(c, k);
            kinds |= 1u << p->kind;
            assert_int_equal(p->fatal, p->kind == SFT_PROBLEM_MISSING_FILE ||
                                           p->kind == SFT_PROBLEM_MISSING_TENSOR);
            assert_true(p->subject_len > 0);
            assert_true(strlen(p->message) > 10);
        }
        if (kinds != rows[i].problems || sft_catalog_problem_count(c) != rows[i].count) {
            for (size_t k = 0; k < sft_catalog_problem_count(c); k++) {
                print_message("row %zu: %s\n", i, sft_catalog_problem_at(c, k)->message);
            }
        }
        assert_int_equal(kinds, rows[i].problems);
        assert_int_equal(sft_catalog_problem_count(c), rows[i].count);
        sft_catalog_close(c);
    }
}

static void a_short_shard_says_what_it_should_have(void **state) {
    (void)state;
    sft_catalog *c;
    sft_error err;
    struct stat st;
    dir("short");
    shard("short/m.safetensors", "a:1");
    assert_int_equal(stat(at("short/m.safetensors"), &st), 0);
    assert_int_equal(truncate(at("short/m.safetensors"), --st.st_size), 0);
    assert_int_equal(sft_catalog_open(&c, at("short"), NULL, &err), SFT_E_COVERAGE);
    assert_int_equal(err.expected, st.st_size + 1);
}

static void disagreement_errors_are_places(void **state) {
    (void)state;
    static const char index[] = MAP(IN("a", "m-1.safetensors") "," IN("zz\\n", "m-1.safetensors"));
    sft_catalog *c;
    sft_error err;
    dir("places");
    shard("places/m-1.safetensors", "a:1");
    put("places/model.safetensors.index.json", index);
    assert_int_equal(open_flags(&c, "places", 0, &err), SFT_E_SHARD_DISAGREES);
    assert_string_equal(err.tensor, "zz\\n");
    assert_int_equal(err.offset, (uint64_t)(strstr(index, "\"zz") - index));
    put("places/model.safetensors.index.json", MAP(IN("a", "m-1.safetensors") "," IN("b", "gone")));
    assert_int_equal(open_flags(&c, "places", 0, &err), SFT_E_SHARD_MISSING);
    assert_non_null(strstr(err.message, "gone"));
    assert_true(err.offset != SFT_NO_OFFSET);
    /* the taken tensor's own bytes decide the total */
    put("places/model.safetensors.index.json",
        "{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":\"m-1.safetensors\"}}");
    assert_int_equal(open_flags(&c, "places", 0, &err), SFT_OK);
    assert_int_equal(sft_catalog_problem_count(c), 1);
    assert_string_equal(sft_catalog_problem_at(c, 0)->message,
                        "the index says total_size 7, its tensors have 1 bytes");
    sft_catalog_close(c);
}

static void a_mixed_repository_uses_its_index(void **state) {
    (void)state;
    make_pair("mixed");
    shard("mixed/consolidated.safetensors", "a:1 b:2 c:3");
    sft_catalog *c;
    sft_error err;
    char text[512];
    assert_int_equal(open_flags(&c, "mixed", 0, &err), SFT_OK);
    describe(c, text, sizeof text);
    assert_string_equal(text,
                        "a@mixed/m-1.safetensors b@mixed/m-1.safetensors c@mixed/m-2.safetensors");
    assert_int_equal(sft_catalog_problem_count(c), 1);
    const sft_problem *p = sft_catalog_problem_at(c, 0);
    assert_int_equal(p->kind, SFT_PROBLEM_ORPHAN_FILE);
    assert_int_equal(p->subject_len, strlen("consolidated.safetensors"));
    assert_memory_equal(p->subject, "consolidated.safetensors", p->subject_len);
    assert_null(sft_catalog_problem_at(c, 1));
    sft_catalog_close(c);
}

/* ---------------------------------------------------------------- hostile names and links */

static void a_json_string(char *out, size_t cap, const char *s, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        n += (size_t)snprintf(out + n, cap - n, "\\u%04x", (unsigned)(uint8_t)s[i]);
    }
}

static void hostile_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t len;
    } names[] = {
#define NAME(s) {s, sizeof(s) - 1}
        NAME("/etc/passwd"),
        NAME("/"),
        NAME(".."),
        NAME("../secret.safetensors"),
        NAME("a/../../secret.safetensors"),
        NAME("a/.."),
        NAME("./in.safetensors"),
        NAME("."),
        NAME("a//in.safetensors"),
        NAME("a/"),
        NAME("//server/share/x"),
        NAME("C:in.safetensors"),
        NAME("C:\\x.safetensors"),
        NAME("C:/x.safetensors"),
        NAME("\\\\server\\share\\x"),
        NAME("..\\secret.safetensors"),
        NAME("a\\in.safetensors"),
        NAME("in.safetensors\0.txt"),
        NAME("\0"),
        NAME("in.safetensors:stream"),
        NAME("CON"),
        NAME("nul.safetensors"),
        NAME("COM1.safetensors"),
        NAME("a/lpt9"),
        NAME("in.safetensors."),
        NAME("in.safetensors "),
        NAME("in\n.safetensors"),
        NAME("in\x7f.safetensors"),
        NAME("a/../in.safetensors"),
        NAME("file:///etc/passwd"),
        NAME("https://x/in.safetensors"),
        NAME("....//x/../.."),
#undef NAME
    };
    dir("hostile");
    dir("hostile/in");
    dir("hostile/in/a");
    shard("hostile/secret.safetensors", "t:1");
    shard("hostile/in/in.safetensors", "t:1");
    shard("hostile/in/a/in.safetensors", "t:1");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char json[1024];
        char text[2048];
        a_json_string(json, sizeof json, names[i].name, names[i].len);
        (void)snprintf(text, sizeof text, "{\"weight_map\":{\"t\":\"%s\"}}", json);
        put("hostile/in/model.safetensors.index.json", text);
        assert_refused("hostile/in", SFT_OPEN_INCOMPLETE, SFT_E_PATH,
                       "model.safetensors.index.json: ");
    }
    put("hostile/in/model.safetensors.index.json", "{\"weight_map\":{\"t\":\"a/in.safetensors\"}}");
    assert_opens_as("hostile/in", 0, "t@hostile/in/a/in.safetensors");
}

/* Links, one row each; `ok` tells whether t opens. Every row is tried with the kernel's help and
 * without. */
static void links_that_stay_and_links_that_leave(void **state) {
    (void)state;
    static const struct {
        const char
            *target; /* of the link links/in/t.safetensors; "%" stands for the test's folder */
        sft_status status;
    } rows[] = {
        {"real.safetensors", SFT_OK},
        {"a/real.safetensors", SFT_OK},
        {"./a/../real.safetensors", SFT_OK},
        {"second_link", SFT_OK},
        {"to_a/real.safetensors", SFT_OK},
        {"%/links/in/real.safetensors", SFT_OK},
        {"../in/real.safetensors", SFT_OK},
        {"../out.safetensors", SFT_E_PATH},
        {"%/links/out.safetensors", SFT_E_PATH},
        {"a/../../out.safetensors", SFT_E_PATH},
        {"to_outside/out.safetensors", SFT_E_PATH},
        {"leaving_link", SFT_E_PATH},
        {"/etc/passwd", SFT_E_PATH},
        {"/dev/zero", SFT_E_PATH},
        {"../../in2/real.safetensors", SFT_E_SHARD_MISSING},
        {"%/links/in-evil/real.safetensors", SFT_E_PATH},
        {"../blobs/real.safetensors", SFT_E_PATH},
        {"/", SFT_E_PATH},
        {"..", SFT_E_PATH},
        {".", SFT_E_NOT_REGULAR},
        {"a", SFT_E_NOT_REGULAR},
        {"fifo", SFT_E_NOT_REGULAR},
        {"nowhere", SFT_E_SHARD_MISSING},
        {"t.safetensors", SFT_E_PATH}, /* to itself */
        {"loop_a", SFT_E_PATH},
        {"/proc/self/cwd", SFT_E_PATH},
        {"/proc/self/root/etc/passwd", SFT_E_PATH},
    };
    dir("links");
    dir("links/in");
    dir("links/in/a");
    dir("links/in-evil");
    dir("links/blobs");
    shard("links/in/real.safetensors", "t:2");
    shard("links/in/a/real.safetensors", "t:2");
    shard("links/in-evil/real.safetensors", "t:2");
    shard("links/blobs/real.safetensors", "t:2");
    shard("links/out.safetensors", "t:2");
    assert_int_equal(symlink("real.safetensors", at("links/in/second_link")), 0);
    assert_int_equal(symlink("../out.safetensors", at("links/in/leaving_link")), 0);
    assert_int_equal(symlink("a", at("links/in/to_a")), 0);
    assert_int_equal(symlink("..", at("links/in/to_outside")), 0);
    assert_int_equal(symlink("loop_b", at("links/in/loop_a")), 0);
    assert_int_equal(symlink("loop_a", at("links/in/loop_b")), 0);
    assert_int_equal(mkfifo(at("links/in/fifo"), 0600), 0);
    put("links/in/model.safetensors.index.json", "{\"weight_map\":{\"t\":\"t.safetensors\"}}");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[256];
        const char *percent = strchr(rows[i].target, '%');
        (void)snprintf(target, sizeof target, "%s%s", percent != NULL ? tmp : "",
                       percent != NULL ? percent + 1 : rows[i].target);
        assert_int_equal(symlink(target, at("links/in/t.safetensors")), 0);
        if (rows[i].status == SFT_OK) {
            assert_opens_as("links/in", 0, "t@links/in/t.safetensors");
        } else {
            assert_refused("links/in", 0, rows[i].status, "t.safetensors");
        }
        int fd;
        bool missing;
        sft_error err;
        const sft__fs_root root = {SFT__FS_NO_HANDLE, at("links/in"), SFT__FS_LINKS_INSIDE};
        const sft_status st =
            sft__fs_open_below_resolved(&root, "t.safetensors", &fd, &missing, &err);
        if (fd >= 0) {
            (void)close(fd);
        }
        if (rows[i].status != st) {
            print_message("without help: %s -> %s\n", rows[i].target, sft_status_name(st));
        }
        assert_int_equal(st, rows[i].status);
        assert_int_equal(unlink(at("links/in/t.safetensors")), 0);
    }
}

/* The layout of the Hugging Face cache, good and bad. */
static void the_hugging_face_cache(void **state) {
    (void)state;
    static const struct {
        const char *link;
        const char *target;
        sft_status status;
    } rows[] = {
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs/sha1", SFT_OK},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "%/hub/models--o--n/blobs/sha1", SFT_OK},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs/../blobs/sha1", SFT_OK},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../secret.safetensors", SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs/../secret.safetensors",
         SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs/leaving", SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs2/sha1", SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../../models--o--m/blobs/sha1",
         SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../r2/other.safetensors", SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs/not-downloaded",
         SFT_E_SHARD_MISSING},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs", SFT_E_PATH},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "../../blobs/fifo", SFT_E_NOT_REGULAR},
        {"hub/models--o--n/snapshots/r1/w.safetensors", "/etc/passwd", SFT_E_PATH},
    };
    dir("hub");
    dir("hub/models--o--n");
    dir("hub/models--o--n/blobs");
    dir("hub/models--o--n/blobs2");
    dir("hub/models--o--n/snapshots");
    dir("hub/models--o--n/snapshots/r1");
    dir("hub/models--o--n/snapshots/r1/te");
    dir("hub/models--o--n/snapshots/r2");
    dir("hub/models--o--m");
    dir("hub/models--o--m/blobs");
    shard("hub/models--o--n/blobs/sha1", "t:2");
    shard("hub/models--o--n/blobs2/sha1", "t:2");
    shard("hub/models--o--m/blobs/sha1", "t:2");
    shard("hub/models--o--n/secret.safetensors", "t:2");
    shard("hub/models--o--n/snapshots/r2/other.safetensors", "t:2");
    assert_int_equal(mkfifo(at("hub/models--o--n/blobs/fifo"), 0600), 0);
    assert_int_equal(symlink("../secret.safetensors", at("hub/models--o--n/blobs/leaving")), 0);
    put("hub/models--o--n/blobs/sha-index", "{\"weight_map\":{\"t\":\"w.safetensors\"}}");
    assert_int_equal(symlink("../../blobs/sha-index",
                             at("hub/models--o--n/snapshots/r1/model.safetensors.index.json")),
                     0);
    assert_int_equal(symlink("hub/models--o--n/snapshots/r1", at("my_model")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[256];
        const char *percent = strchr(rows[i].target, '%');
        (void)snprintf(target, sizeof target, "%s%s", percent != NULL ? tmp : "",
                       percent != NULL ? percent + 1 : rows[i].target);
        assert_int_equal(symlink(target, at(rows[i].link)), 0);
        if (rows[i].status == SFT_OK) {
            assert_opens_as("hub/models--o--n/snapshots/r1", 0,
                            "t@hub/models--o--n/snapshots/r1/w.safetensors");
            assert_opens_as("hub/models--o--n/snapshots/r1/model.safetensors.index.json", 0,
                            "t@hub/models--o--n/snapshots/r1/w.safetensors");
            assert_opens_as("my_model", 0, "t@my_model/w.safetensors");
        } else {
            assert_refused("hub/models--o--n/snapshots/r1", 0, rows[i].status, "w.safetensors");
            assert_refused("my_model", 0, rows[i].status, "w.safetensors");
        }
        assert_int_equal(unlink(at(rows[i].link)), 0);
    }
    /* a component in a folder below, and a folder without an index */
    assert_int_equal(
        symlink("../../../blobs/sha1", at("hub/models--o--n/snapshots/r1/te/x.safetensors")), 0);
    assert_opens_as("hub/models--o--n/snapshots/r1/te", 0,
                    "t@hub/models--o--n/snapshots/r1/te/x.safetensors");
    /* the file itself, as an operand: any link may be followed */
    assert_int_equal(symlink("hub/models--o--n/secret.safetensors", at("operand.safetensors")), 0);
    assert_opens_as("operand.safetensors", 0, "t@operand.safetensors");
    /* the same links outside of such a cache lead out */
    dir("fake");
    dir("fake/blobs");
    dir("fake/snapshots");
    dir("fake/snapshots/r1");
    shard("fake/blobs/sha1", "t:2");
    assert_int_equal(symlink("../../blobs/sha1", at("fake/snapshots/r1/x.safetensors")), 0);
    assert_refused("fake/snapshots/r1", 0, SFT_E_PATH, "x.safetensors");
    /* blobs that is itself a link elsewhere is not the repository's */
    dir("hub/models--o--q");
    dir("hub/models--o--q/snapshots");
    dir("hub/models--o--q/snapshots/r1");
    assert_int_equal(symlink("../models--o--n", at("hub/models--o--q/blobs")), 0);
    assert_int_equal(symlink("../../blobs/secret.safetensors",
                             at("hub/models--o--q/snapshots/r1/x.safetensors")),
                     0);
    assert_refused("hub/models--o--q/snapshots/r1", 0, SFT_E_PATH, "x.safetensors");
}

static void a_folder_inside_that_is_a_link_out(void **state) {
    (void)state;
    dir("deep");
    dir("deep/in");
    dir("deep/outside");
    shard("deep/outside/x.safetensors", "t:1");
    assert_int_equal(symlink("../outside", at("deep/in/sub")), 0);
    put("deep/in/model.safetensors.index.json", "{\"weight_map\":{\"t\":\"sub/x.safetensors\"}}");
    assert_refused("deep/in", 0, SFT_E_PATH, "sub/x.safetensors");
}

/* ---------------------------------------------------------------- limits and faults */

static void limits_of_models(void **state) {
    (void)state;
    sft_catalog *c;
    sft_error err;
    sft_open_options o;
    sft_limits l;
    make_pair("limits");
    SFT_INIT(&o);
    SFT_INIT(&l);
    o.limits = &l;
    static const char *const ways[] = {"limits", "limits/model.safetensors.index.json"};
    for (int way = 0; way < 2; way++) {
        memset(&l, 0, sizeof l);
        SFT_INIT(&l);
        l.shards = 1;
        assert_int_equal(sft_catalog_open(&c, at(ways[way]), &o, &err), SFT_E_LIMIT);
        l.shards = 2;
        assert_int_equal(sft_catalog_open(&c, at(ways[way]), &o, &err), SFT_OK);
        sft_catalog_close(c);
        l.tensors = 2;
        assert_int_equal(sft_catalog_open(&c, at(ways[way]), &o, &err), SFT_E_LIMIT);
        l.tensors = 3;
        assert_int_equal(sft_catalog_open(&c, at(ways[way]), &o, &err), SFT_OK);
        sft_catalog_close(c);
        l.header_bytes = 20;
        assert_int_equal(sft_catalog_open(&c, at(ways[way]), &o, &err), SFT_E_LIMIT);
        l.header_bytes = 0;
        bool opened = false;
        for (l.memory_bytes = 1; l.memory_bytes < 100000; l.memory_bytes += 211) {
            counting count;
            counting_init(&count);
            o.allocator = &count.allocator;
            const sft_status st = sft_catalog_open(&c, at(ways[way]), &o, &err);
            assert_true(st == SFT_OK || st == SFT_E_LIMIT);
            assert_false(opened && st != SFT_OK);
            opened = st == SFT_OK;
            sft_catalog_close(c);
            assert_all_given_back(&count);
        }
        assert_true(opened);
        o.allocator = NULL;
    }
    assert_int_equal(unlink(at("limits/model.safetensors.index.json")), 0);
    memset(&l, 0, sizeof l);
    SFT_INIT(&l);
    l.shards = 1;
    assert_int_equal(sft_catalog_open(&c, at("limits"), &o, &err), SFT_E_LIMIT);
    l.shards = 0;
    l.tensors = 2;
    assert_int_equal(sft_catalog_open(&c, at("limits"), &o, &err), SFT_E_LIMIT);
}

static size_t open_descriptors(void) {
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char *const ways[] = {"alloc", "alloc/model.safetensors.index.json", "alloc2",
                                       "alloc/odd.json"};
    make_pair("alloc");
    shard("alloc/lonely.safetensors", "x:1");
    put("alloc/odd.json", "{\"metadata\":{\"total_size\":9},\"weight_map\":{"
                          "\"a\":\"m-1.safetensors\",\"gone\":\"m-1.safetensors\","
                          "\"q\":\"q.safetensors\",\"c\":\"m-1.safetensors\"}}");
    dir("alloc2");
    shard("alloc2/1.safetensors", "a:1");
    shard("alloc2/2.safetensors", "b:1");
    const size_t descriptors = open_descriptors();
    for (size_t way = 0; way < 4; way++) {
        for (int all = 0; all < 2; all++) { /* one fails, or one and every one after it */
            size_t failures = 0;
            for (size_t k = 1;; k++) {
                counting count;
                sft_catalog *c = (sft_catalog *)1;
                sft_error err;
                sft_open_options o;
                SFT_INIT(&o);
                counting_init(&count);
                count.fail_from = k;
                count.fail_count = all ? SIZE_MAX - k : 1;
                o.allocator = &count.allocator;
                o.flags = SFT_OPEN_INCOMPLETE;
                const sft_status st = sft_catalog_open(&c, at(ways[way]), &o, &err);
                if (st == SFT_OK) {
                    assert_true(count.calls < k);
                    sft_catalog_close(c);
                    assert_all_given_back(&count);
                    break;
                }
                assert_int_equal(st, SFT_E_NOMEM);
                assert_null(c);
                assert_all_given_back(&count);
                failures++;
            }
            assert_true(failures > 10);
        }
    }
    assert_int_equal(open_descriptors(), descriptors);
}

static void ask(void *arg) {
    const sft_catalog *c = arg;
    for (int i = 0; i < 100; i++) {
        char text[512];
        describe(c, text, sizeof text);
        assert_string_equal(text, "a@threads/m-1.safetensors b@threads/m-1.safetensors "
                                  "c@threads/m-2.safetensors");
    }
}

static void eight_threads_share_a_model(void **state) {
    (void)state;
    sft_catalog *c;
    sft__base_thread threads[8];
    make_pair("threads");
    assert_int_equal(sft_catalog_open(&c, at("threads"), NULL, NULL), SFT_OK);
    for (int i = 0; i < 8; i++) {
        assert_true(sft__base_thread_start(&threads[i], ask, c));
    }
    for (int i = 0; i < 8; i++) {
        sft__base_thread_join(&threads[i]);
    }
    sft_catalog_close(c);
}

/* Many shards and many tensors: positions, order and names still agree. */
static void a_model_of_many_shards(void **state) {
    (void)state;
    enum { SHARDS = 150, EACH = 20 };
    char *index = malloc(SHARDS * EACH * 60 + 100);
    size_t len = (size_t)sprintf(index, "{\"weight_map\":{");
    dir("many");
    for (int s = 0; s < SHARDS; s++) {
        char name[64];
        char tensors[1024];
        size_t n = 0;
        for (int t = 0; t < EACH; t++) {
            n += (size_t)snprintf(tensors + n, sizeof tensors - n, "%sL%d.%d:%d", t > 0 ? " " : "",
                                  s, t, t + 1);
            len += (size_t)sprintf(index + len, "%s\"L%d.%d\":\"s-%03d.safetensors\"",
                                   s + t > 0 ? "," : "", s, t, s);
        }
        (void)snprintf(name, sizeof name, "many/s-%03d.safetensors", s);
        shard(name, tensors);
    }
    (void)sprintf(index + len, "}}");
    for (int pass = 0; pass < 2; pass++) { /* without and with the index */
        sft_catalog *c;
        sft_error err;
        if (pass == 1) {
            put("many/model.safetensors.index.json", index);
        }
        assert_int_equal(open_flags(&c, "many", 0, &err), SFT_OK);
        assert_int_equal(sft_catalog_count(c), SHARDS * EACH);
        assert_int_equal(sft_catalog_file_count(c), SHARDS);
        assert_int_equal(sft_catalog_source_count(c), SHARDS);
        assert_int_equal(sft_catalog_problem_count(c), 0);
        for (size_t i = 0; i < SHARDS * EACH; i++) {
            char name[32];
            const int n = snprintf(name, sizeof name, "L%zu.%zu", i / EACH, i % EACH);
            const sft_tensor *t = sft_catalog_find(c, name, (size_t)n);
            assert_ptr_equal(t, sft_catalog_at(c, i));
            assert_int_equal(t->file, i / EACH);
            assert_int_equal(t->pieces[0].source, i / EACH);
            assert_int_equal(t->nbytes, i % EACH + 1);
        }
        sft_catalog_close(c);
    }
    free(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_all_its_files),
        cmocka_unit_test(a_folder_of_one_file),
        cmocka_unit_test(a_folder_without_weights),
        cmocka_unit_test(names_in_two_files),
        cmocka_unit_test(a_bad_file_in_a_folder_is_named),
        cmocka_unit_test(special_files_in_a_folder),
        cmocka_unit_test(an_index_opens_by_folder_by_path_and_by_content),
        cmocka_unit_test(several_indexes),
        cmocka_unit_test(disagreements),
        cmocka_unit_test(disagreement_errors_are_places),
        cmocka_unit_test(a_mixed_repository_uses_its_index),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(links_that_stay_and_links_that_leave),
        cmocka_unit_test(the_hugging_face_cache),
        cmocka_unit_test(a_folder_inside_that_is_a_link_out),
        cmocka_unit_test(limits_of_models),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(eight_threads_share_a_model),
        cmocka_unit_test(a_model_of_many_shards),
        cmocka_unit_test(a_short_shard_says_what_it_should_have),
    };
    return cmocka_run_group_tests_name("folder", tests, setup, teardown);
}
