/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/fault/scenario.c - see scenario.h. Small on purpose: every scenario is run hundreds of
 * times.
 */
#include "scenario.h"

char scratch[256];

enum { BIG = 300000, SMALL = 1000 };

static uint8_t *data;
static uint64_t big_shape[] = {BIG};
static uint64_t small_shape[] = {SMALL / 4};
static sft_save_tensor tensors[3];
static const sft_metadata_entry meta[] = {{"format", 6, "pt", 2}, {"k", 1, "value", 5}};

static int make_data(void) {
    data = malloc(BIG + SMALL);
    if (data == NULL) {
        return -1;
    }
    for (size_t i = 0; i < BIG + SMALL; i++) {
        data[i] = (uint8_t)(i * 7 + i / 253);
    }
    tensors[0] = (sft_save_tensor){"big", 3, sft_dtype_get(SFT_U8), big_shape, 1, 0, data, BIG};
    tensors[1] =
        (sft_save_tensor){"small", 5, sft_dtype_get(SFT_F32), small_shape, 1, 0, data + BIG, SMALL};
    tensors[2] = (sft_save_tensor){"scalar", 6, sft_dtype_get(SFT_I16), NULL, 0, 0, data, 2};
    return 0;
}

int scenarios_open(void **state) {
    return scratch_make(state) != 0 ? -1 : make_data();
}

int scenarios_open_quick(void **state) {
    return scratch_make_in("/dev/shm") != 0 ? scenarios_open(state) : make_data();
}

int scenarios_close(void **state) {
    free(data);
    return scratch_drop(state);
}

/* ---------------------------------------------------------------- saves */

static void empty(void) {
}

static void old_file(void) {
    file_put(in_scratch("f"), "the old content", 15);
    assert_int_equal(chmod(in_scratch("f"), 0640), 0);
}

static void old_file_behind_link(void) {
    old_file();
    assert_int_equal(symlink("f", in_scratch("link")), 0);
}

static sft_status save_to(const char *name, size_t count, const sft_allocator *a, uint32_t digests,
                          uint32_t flags, sft_error *err) {
    sft_write_options o;
    SFT_INIT(&o);
    o.allocator = a;
    o.digests = digests;
    o.flags = flags;
    return sft_save(in_scratch(name), tensors, count, meta, 2, &o, err);
}

static sft_status save_plain(const sft_allocator *a, sft_error *err) {
    return save_to("f", 3, a, 0, 0, err);
}

static sft_status save_through_link(const sft_allocator *a, sft_error *err) {
    return save_to("link", 3, a, SFT_DIGEST_CRC32C, 0, err);
}

static sft_status save_digests(const sft_allocator *a, sft_error *err) {
    return save_to("f", 3, a, SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256, 0, err);
}

static sft_status save_sidecar(const sft_allocator *a, sft_error *err) {
    return save_to("f", 3, a, SFT_DIGEST_CRC32C, SFT_WRITE_DIGESTS_SIDECAR, err);
}

static sft_status save_new_only(const sft_allocator *a, sft_error *err) {
    return save_to("f", 3, a, 0, SFT_WRITE_NEW_ONLY, err);
}

static sft_status put_all(sft_writer *w, sft_error *err) {
    uint32_t index;
    sft_status st = sft_writer_metadata(w, "k", 1, "v", 1, err);
    for (size_t i = 0; i < 3 && st == SFT_OK; i++) {
        const sft_save_tensor *t = &tensors[i];
        st = sft_writer_declare(w, t->name, t->name_len, t->dtype, t->shape, t->rank, &index, err);
    }
    /* out of order, in pieces */
    for (uint64_t at = 0; at < BIG && st == SFT_OK; at += BIG / 3) {
        const uint64_t from = at == 0 ? BIG / 3 : at == BIG / 3 ? 0 : at;
        st = sft_writer_put(w, 0, from, data + from, BIG / 3, err);
    }
    for (uint32_t i = 1; i < 3 && st == SFT_OK; i++) {
        st = sft_writer_put(w, i, 0, tensors[i].data, (size_t)tensors[i].nbytes, err);
    }
    return st == SFT_OK ? sft_writer_commit(w, err) : st;
}

static sft_status stream_file(const sft_allocator *a, sft_error *err) {
    sft_write_options o;
    sft_writer *w;
    SFT_INIT(&o);
    o.allocator = a;
    o.digests = SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256;
    sft_status st = sft_writer_create(&w, in_scratch("f"), &o, err);
    if (st == SFT_OK) {
        st = put_all(w, err);
        sft_writer_free(w);
    }
    return st;
}

/* Into a pipe that holds it all: what arrived is compared here. */
static sft_status save_pipe(const sft_allocator *a, sft_error *err) {
    char want[2048];
    char got[2048];
    size_t size = 0;
    int fds[2];
    sft_write_options o;
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C;
    assert_int_equal(sft_save_memory(want, sizeof want, &size, tensors + 1, 2, meta, 2, &o, NULL),
                     SFT_OK);
    o.allocator = a;
    assert_int_equal(pipe(fds), 0);
    /* our own ends by stdio: its system calls are not among those that fail */
    FILE *in = fdopen(fds[0], "r");
    FILE *out = fdopen(fds[1], "w");
    assert_true(in != NULL && out != NULL);
    const sft_status st = sft_save_stream(fds[1], tensors + 1, 2, meta, 2, &o, err);
    (void)fclose(out);
    if (st == SFT_OK) {
        assert_int_equal(fread(got, 1, sizeof got, in), size);
        assert_memory_equal(got, want, size);
    }
    (void)fclose(in);
    return st;
}

static sft_status save_memory(const sft_allocator *a, sft_error *err) {
    char got[2048];
    size_t size;
    sft_write_options o;
    SFT_INIT(&o);
    o.allocator = a;
    o.digests = SFT_DIGEST_SHA256;
    return sft_save_memory(got, sizeof got, &size, tensors + 1, 2, meta, 2, &o, err);
}

/* ---------------------------------------------------------------- edits */

/* Preparations are not what is tested: they wait for no disk. */
static void make_file(const char *name, const sft_save_tensor *set, size_t count,
                      const sft_metadata_entry *metadata, size_t metadata_count, uint32_t digests,
                      uint64_t reserve) {
    sft_write_options o;
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.digests = digests;
    o.reserve_bytes = reserve;
    assert_int_equal(sft_save(in_scratch(name), set, count, metadata, metadata_count, &o, NULL),
                     SFT_OK);
}

static void tight_file(void) {
    make_file("f", tensors, 3, meta, 2, SFT_DIGEST_CRC32C, 0);
}

static void roomy_file(void) {
    make_file("f", tensors, 3, meta, 2, 0, 200);
}

static void file_with_sidecar(void) {
    assert_int_equal(save_to("f", 3, NULL, SFT_DIGEST_CRC32C, SFT_WRITE_DIGESTS_SIDECAR, NULL),
                     SFT_OK);
}

static void tight_file_behind_link(void) {
    tight_file();
    assert_int_equal(symlink("f", in_scratch("link")), 0);
}

static sft_status edit(const char *name, const sft_allocator *a, const sft_metadata_entry *e,
                       size_t count, uint32_t flags, sft_error *err) {
    sft_edit_options o;
    SFT_INIT(&o);
    o.allocator = a;
    o.flags = flags;
    return sft_edit_metadata(in_scratch(name), e, count, &o, NULL, err);
}

static sft_status edit_in_place(const sft_allocator *a, sft_error *err) {
    const sft_metadata_entry e[] = {
        {"k", 1, "another", 7}, {"new", 3, "one", 3}, {"format", 6, NULL, 0}};
    return edit("f", a, e, 3, 0, err);
}

static sft_status edit_new_file(const sft_allocator *a, sft_error *err) {
    const sft_metadata_entry e = {"added", 5, "a longer value than there is room for", 37};
    return edit("link", a, &e, 1, 0, err);
}

static sft_status edit_same_size(const sft_allocator *a, sft_error *err) {
    const sft_metadata_entry e = {"k", 1, "eulav", 5};
    return edit("f", a, &e, 1, SFT_EDIT_NEW_FILE, err);
}

static sft_status edit_with_sidecar(const sft_allocator *a, sft_error *err) {
    const sft_metadata_entry e = {"added", 5, "a longer value than there is room for", 37};
    return edit("f", a, &e, 1, 0, err);
}

/* ---------------------------------------------------------------- reads */

static sft_status read_all(sft_access access, const sft_allocator *a, sft_error *err) {
    static uint8_t got[BIG];
    sft_open_options o;
    sft_catalog *c;
    SFT_INIT(&o);
    o.allocator = a;
    o.access = access;
    sft_status st = sft_catalog_open(&c, in_scratch("f"), &o, err);
    if (st != SFT_OK) {
        assert_null(c);
        return st;
    }
    assert_int_equal(sft_catalog_count(c), 3);
    for (size_t i = 0; i < 3 && st == SFT_OK; i++) {
        const sft_tensor *t = sft_catalog_find(c, tensors[i].name, tensors[i].name_len);
        assert_non_null(t);
        st = sft_tensor_read(c, t, NULL, got, sizeof got, err);
        if (st == SFT_OK) {
            assert_memory_equal(got, tensors[i].data, (size_t)t->nbytes);
        }
    }
    if (st == SFT_OK && access == SFT_ACCESS_MAP) {
        const void *lent;
        size_t size;
        st = sft_tensor_borrow(c, sft_catalog_find(c, "big", 3), &lent, &size, err);
        if (st == SFT_OK) {
            assert_memory_equal(lent, data, BIG);
        }
    }
    sft_catalog_close(c);
    return st;
}

static sft_status read_by_pread(const sft_allocator *a, sft_error *err) {
    return read_all(SFT_ACCESS_READ, a, err);
}

static sft_status read_mapped(const sft_allocator *a, sft_error *err) {
    return read_all(SFT_ACCESS_MAP, a, err);
}

static sft_status verify(const sft_allocator *a, sft_error *err) {
    sft_open_options o;
    sft_verify_options v;
    sft_catalog *c;
    SFT_INIT(&o);
    o.allocator = a;
    SFT_INIT(&v);
    v.allocator = a;
    sft_status st = sft_catalog_open(&c, in_scratch("f"), &o, err);
    if (st == SFT_OK) {
        st = sft_catalog_verify(c, &v, NULL, err);
        sft_catalog_close(c);
    }
    return st;
}

/* ---------------------------------------------------------------- models and streams */

/* Two files and their index; one of the files is a link with an absolute target inside the folder,
 * which the kernel's own check of links refuses, so that the path is resolved and walked instead.
 */
static void model(void) {
    static const char index[] = "{\"metadata\":{\"total_size\":300002},\"weight_map\":{"
                                "\"big\":\"1.safetensors\",\"scalar\":\"2.safetensors\"}}";
    make_file("1.safetensors", tensors, 1, NULL, 0, 0, 0);
    make_file("real", tensors + 2, 1, NULL, 0, 0, 0);
    assert_int_equal(symlink(in_scratch("real"), in_scratch("2.safetensors")), 0);
    file_put(in_scratch("model.safetensors.index.json"), index, sizeof index - 1);
}

static void model_without_index(void) {
    model();
    assert_int_equal(unlink(in_scratch("model.safetensors.index.json")), 0);
}

static sft_status open_model(const char *name, const sft_allocator *a, sft_error *err) {
    uint8_t got[2];
    sft_open_options o;
    sft_catalog *c = NULL;
    SFT_INIT(&o);
    o.allocator = a;
    sft_status st = sft_catalog_open(&c, name, &o, err);
    if (st != SFT_OK) {
        assert_null(c);
        return st;
    }
    assert_int_equal(sft_catalog_count(c), 2);
    assert_int_equal(sft_catalog_problem_count(c), 0);
    const sft_tensor *t = sft_catalog_find(c, "scalar", 6);
    assert_non_null(t);
    assert_int_equal(t->file, 1);
    st = sft_tensor_read(c, t, NULL, got, sizeof got, err);
    if (st == SFT_OK) {
        assert_memory_equal(got, data, 2);
    }
    sft_catalog_close(c);
    return st;
}

static sft_status open_folder(const sft_allocator *a, sft_error *err) {
    return open_model(scratch, a, err);
}

static sft_status open_index(const sft_allocator *a, sft_error *err) {
    return open_model(in_scratch("model.safetensors.index.json"), a, err);
}

/* A file that comes out of a pipe. */
static sft_status open_stream(const sft_allocator *a, sft_error *err) {
    char file[2048];
    size_t size = 0;
    int fds[2];
    sft_source *source = NULL;
    sft_catalog *c = NULL;
    sft_open_options o;
    SFT_INIT(&o);
    o.allocator = a;
    assert_int_equal(sft_save_memory(file, sizeof file, &size, tensors + 1, 2, meta, 2, NULL, NULL),
                     SFT_OK);
    assert_int_equal(pipe(fds), 0);
    FILE *in = fdopen(fds[0], "r");
    FILE *out = fdopen(fds[1], "w");
    assert_true(in != NULL && out != NULL);
    assert_int_equal(fwrite(file, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    sft_status st = sft_source_open_stream(&source, fds[0], 0, a, err);
    (void)fclose(in);
    if (st == SFT_OK) {
        st = sft_catalog_open_source(&c, source, &o, err);
    }
    if (st == SFT_OK) {
        assert_int_equal(sft_catalog_count(c), 2);
        sft_catalog_close(c);
    }
    return st;
}

static sft_status open_descriptor(const sft_allocator *a, sft_error *err) {
    FILE *f = fopen(in_scratch("f"), "rb");
    sft_catalog *c = NULL;
    sft_open_options o;
    SFT_INIT(&o);
    o.allocator = a;
    o.access = SFT_ACCESS_MAP;
    assert_non_null(f);
    sft_source *source;
    sft_status st = sft_source_open_fd(&source, fileno(f), o.access, a, err);
    st = st == SFT_OK ? sft_catalog_open_source(&c, source, &o, err) : st;
    (void)fclose(f);
    sft_catalog_close(c);
    return st;
}

const scenario scenarios[] = {
    {"save a new file", empty, save_plain, true, false, false, true},
    {"save over a file", old_file, save_plain, true, false, false, false},
    {"save through a link, CRC32C", old_file_behind_link, save_through_link, true, false, false,
     false},
    {"save with both digests", old_file, save_digests, true, false, false, false},
    {"save with a sidecar", old_file, save_sidecar, true, false, true, false},
    {"save, new only", empty, save_new_only, true, false, false, true},
    {"streaming writer, digests", old_file, stream_file, true, false, false, false},
    {"save into a pipe", empty, save_pipe, true, false, false, false},
    {"save into memory", empty, save_memory, true, false, false, false},
    {"edit metadata in place", roomy_file, edit_in_place, true, false, false, false},
    {"edit metadata by a new file", tight_file_behind_link, edit_new_file, true, false, false,
     false},
    {"edit metadata, new file of the same size", tight_file, edit_same_size, true, false, false,
     false},
    {"edit metadata beside a sidecar", file_with_sidecar, edit_with_sidecar, true, false, true,
     false},
    {"open and read by pread", tight_file, read_by_pread, false, false, false, false},
    {"open, read and borrow mapped", tight_file, read_mapped, false, false, false, false},
    {"verify digests", tight_file, verify, false, false, false, false},
    {"open a folder with an index", model, open_folder, false, false, false, false},
    {"open a folder without one", model_without_index, open_folder, false, false, false, false},
    {"open an index", model, open_index, false, false, false, false},
    {"open a stream", empty, open_stream, false, false, false, false},
    {"open a descriptor, mapped", tight_file, open_descriptor, false, false, false, false},
};
const size_t scenario_count = sizeof scenarios / sizeof scenarios[0];

/* ---------------------------------------------------------------- snapshots */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void append(snapshot *s, const void *bytes, size_t size) {
    s->bytes = realloc(s->bytes, s->size + size + 1);
    assert_non_null(s->bytes);
    memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
}

static void append_file(snapshot *s, const char *name) {
    struct stat st;
    char head[512];
    const char *path = in_scratch(name);
    assert_int_equal(lstat(path, &st), 0);
    const int n = snprintf(head, sizeof head, "%s %o %lld\n", name, (unsigned)st.st_mode,
                           S_ISREG(st.st_mode) ? (long long)st.st_size : 0LL);
    append(s, head, (size_t)n);
    if (S_ISREG(st.st_mode)) {
        size_t size = 0;
        char *bytes = file_get(path, &size);
        assert_non_null(bytes);
        append(s, bytes, size);
        free(bytes);
    }
}

void snapshot_take(snapshot *s, bool skip_temporary) {
    char *names[32];
    size_t count = 0;
    DIR *dir = opendir(scratch);
    memset(s, 0, sizeof *s);
    append(s, "", 0);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        const bool temporary = strstr(e->d_name, ".tmp.") != NULL;
        s->temporary += temporary ? 1 : 0;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            !(temporary && skip_temporary)) {
            assert_true(count < 32);
            names[count] = strdup(e->d_name);
            assert_non_null(names[count]);
            count++;
        }
    }
    closedir(dir);
    qsort(names, count, sizeof names[0], compare_names);
    for (size_t i = 0; i < count; i++) {
        append_file(s, names[i]);
        free(names[i]);
    }
}

bool snapshot_equal(const snapshot *a, const snapshot *b) {
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

void snapshot_drop(snapshot *s) {
    free(s->bytes);
    s->bytes = NULL;
}

sidecar sidecar_keep(void) {
    sidecar s = {NULL, 0};
    s.bytes = file_get(in_scratch("f.digests.json"), &s.size);
    return s;
}

void snapshot_between(snapshot *s, sidecar *old, bool skip_temporary) {
    if (old->bytes != NULL) {
        file_put(in_scratch("f.digests.json"), old->bytes, old->size);
    } else {
        assert_int_equal(unlink(in_scratch("f.digests.json")), 0);
    }
    snapshot_take(s, skip_temporary);
    free(old->bytes);
    old->bytes = NULL;
}
