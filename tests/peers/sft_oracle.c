/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/peers/sft_oracle.c - lets the Python comparisons ask the library thousands of questions a
 * second. Reads frames on stdin (4 bytes little-endian length, then that many bytes), answers each
 * with one frame on stdout. The records of each mode stand above the function that writes them;
 * tests/peers/oracle.py is the other end. Uses the public headers alone. Every input lies in a
 * block of exactly its size, so that a sanitizer sees the first byte read too many.
 */
#include <sft/sft.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- frames */

typedef struct out_buf {
    unsigned char *data;
    size_t len, cap;
} out_buf;

typedef struct in_buf {
    const unsigned char *data;
    size_t len, pos;
} in_buf;

static void die(const char *why) {
    fprintf(stderr, "sft_oracle: %s\n", why);
    exit(2);
}

static void *take(size_t size) {
    void *p = malloc(size != 0 ? size : 1);
    if (p == NULL) {
        die("out of memory");
    }
    return p;
}

static void put(out_buf *o, const void *data, size_t size) {
    if (o->cap - o->len < size) {
        size_t cap = (o->cap + size) * 2;
        unsigned char *grown = realloc(o->data, cap);
        if (grown == NULL) {
            die("out of memory");
        }
        o->data = grown;
        o->cap = cap;
    }
    if (size != 0) {
        memcpy(o->data + o->len, data, size);
    }
    o->len += size;
}

static void store32(unsigned char *b, uint32_t v) {
    for (int i = 0; i < 4; i++) {
        b[i] = (unsigned char)(v >> (8 * i));
    }
}

static void put32(out_buf *o, uint32_t v) {
    unsigned char b[4];
    store32(b, v);
    put(o, b, 4);
}

static void put64(out_buf *o, uint64_t v) {
    put32(o, (uint32_t)v);
    put32(o, (uint32_t)(v >> 32));
}

static void put_text(out_buf *o, const void *s, size_t len) {
    put32(o, (uint32_t)len);
    put(o, s, len);
}

static const unsigned char *get(in_buf *in, size_t size) {
    if (in->len - in->pos < size) {
        die("short frame");
    }
    in->pos += size;
    return in->data + in->pos - size;
}

static uint32_t load32(const unsigned char *b) {
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t get32(in_buf *in) {
    return load32(get(in, 4));
}

static uint64_t get64(in_buf *in) {
    uint64_t low = get32(in);
    return low | (uint64_t)get32(in) << 32;
}

/* A copy of the next `size` bytes in a block of their own. */
static void *get_block(in_buf *in, size_t size) {
    void *p = take(size);
    memcpy(p, get(in, size), size);
    return p;
}

/* status, system error, offset, tensor text, message text */
static void put_error(out_buf *o, sft_status status, const sft_error *err) {
    put32(o, (uint32_t)status);
    if (status == SFT_OK) {
        put32(o, 0);
        put64(o, SFT_NO_OFFSET);
        put32(o, 0);
        put32(o, 0);
        return;
    }
    if (err->status != (int32_t)status) {
        die("status returned and status recorded differ");
    }
    put32(o, (uint32_t)err->sys);
    put64(o, err->offset);
    put_text(o, err->tensor, strlen(err->tensor));
    put_text(o, err->message, strlen(err->message));
}

/* ---------------------------------------------------------------- verdict */

static void put_metadata(out_buf *o, const sft_catalog *c) {
    size_t count = sft_catalog_metadata_count(c, 0);
    put32(o, sft_catalog_file_at(c, 0)->has_metadata);
    put32(o, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const char *key, *value;
        size_t key_len, value_len;
        if (sft_catalog_metadata_at(c, 0, i, &key, &key_len, &value, &value_len) != SFT_OK) {
            die("metadata entry not readable");
        }
        size_t found_len;
        const char *found = sft_catalog_metadata_find(c, 0, key, key_len, &found_len);
        if (found != value || found_len != value_len || key[key_len] != '\0' ||
            value[value_len] != '\0') {
            die("metadata entry not found by its key");
        }
        put_text(o, key, key_len);
        put_text(o, value, value_len);
    }
}

static void put_tensor(out_buf *o, const sft_catalog *c, size_t i, const void *base) {
    const sft_tensor *t = sft_catalog_at(c, i);
    if (sft_catalog_find(c, t->name, t->name_len) != t || sft_catalog_index_of(c, t) != i ||
        t->name[t->name_len] != '\0' || t->piece_count != 1) {
        die("tensor not found by its name");
    }
    const void *data;
    size_t size;
    sft_error err;
    if (sft_tensor_borrow(c, t, &data, &size, &err) != SFT_OK) {
        die(err.message);
    }
    put_text(o, t->name, t->name_len);
    put_text(o, t->dtype->name, strlen(t->dtype->name));
    put32(o, t->rank);
    for (uint32_t d = 0; d < t->rank; d++) {
        put64(o, t->shape[d]);
    }
    put64(o, t->pieces[0].offset);
    put64(o, t->nbytes);
    const unsigned char *first = size != 0 ? data : base; /* nothing borrowed may lie anywhere */
    put64(o, (uint64_t)(first - (const unsigned char *)base));
    put64(o, size);
}

/* in: the file. out: error record; if accepted: header bytes, has_metadata, count, (key, value)...,
 * count, (name, dtype, rank, shape..., absolute offset, nbytes, offset and size of the borrow)...
 */
static void answer_verdict(out_buf *o, in_buf *in, uint32_t flags) {
    size_t size = in->len - in->pos;
    void *file = get_block(in, size);
    sft_catalog *c = NULL;
    sft_error err;
    sft_open_options options;
    SFT_INIT(&options);
    options.flags = flags;
    sft_status status = sft_catalog_open_memory(&c, file, size, &options, &err);
    if ((status == SFT_OK) != (c != NULL)) {
        die("catalog and status disagree");
    }
    put_error(o, status, &err);
    if (c != NULL) {
        put64(o, sft_catalog_file_at(c, 0)->header_bytes);
        put_metadata(o, c);
        put32(o, (uint32_t)sft_catalog_count(c));
        for (size_t i = 0; i < sft_catalog_count(c); i++) {
            put_tensor(o, c, i, file);
        }
        sft_catalog_close(c);
    }
    free(file);
}

/* ---------------------------------------------------------------- write */

typedef struct write_set {
    sft_save_tensor *tensors;
    sft_metadata_entry *metadata;
    uint32_t count, metadata_count;
    bool has_metadata;
} write_set;

static char *get_name(in_buf *in, size_t *len) {
    *len = get32(in);
    return get_block(in, *len);
}

static void get_write_set(write_set *set, in_buf *in) {
    set->has_metadata = get32(in) != 0;
    set->metadata_count = get32(in);
    set->metadata = take(sizeof(sft_metadata_entry) * (set->metadata_count + 1u));
    for (uint32_t i = 0; i < set->metadata_count; i++) {
        sft_metadata_entry *e = &set->metadata[i];
        e->key = get_name(in, &e->key_len);
        e->value = get_name(in, &e->value_len);
    }
    set->count = get32(in);
    set->tensors = take(sizeof(sft_save_tensor) * (set->count + 1u));
    for (uint32_t i = 0; i < set->count; i++) {
        sft_save_tensor *t = &set->tensors[i];
        memset(t, 0, sizeof *t);
        t->name = get_name(in, &t->name_len);
        size_t dtype_len = get32(in);
        t->dtype = sft_dtype_find((const char *)get(in, dtype_len), dtype_len);
        if (t->dtype == NULL) {
            die("unknown element type in a write frame");
        }
        t->rank = get32(in);
        uint64_t *shape = take(sizeof(uint64_t) * (t->rank + 1u));
        for (uint32_t d = 0; d < t->rank; d++) {
            shape[d] = get64(in);
        }
        t->shape = shape;
        t->nbytes = get64(in);
        t->data = get_block(in, (size_t)t->nbytes);
    }
}

static void drop(const void *p) {
    void *q;
    memcpy(&q, &p, sizeof q);
    free(q);
}

static void reset_write_set(write_set *set) {
    for (uint32_t i = 0; i < set->metadata_count; i++) {
        drop(set->metadata[i].key);
        drop(set->metadata[i].value);
    }
    for (uint32_t i = 0; i < set->count; i++) {
        drop(set->tensors[i].name);
        drop(set->tensors[i].shape);
        drop(set->tensors[i].data);
    }
    free(set->metadata);
    free(set->tensors);
}

/* in: has_metadata, count, (key, value)..., count, (name, dtype, rank, shape..., nbytes, data)...
 * out: error record; if written: the file. */
static void answer_write(out_buf *o, in_buf *in) {
    write_set set;
    get_write_set(&set, in);
    const sft_metadata_entry *metadata = set.has_metadata ? set.metadata : NULL;
    sft_error err;
    size_t size = 0, written = 0;
    sft_status status = sft_save_memory(NULL, 0, &size, set.tensors, set.count, metadata,
                                        set.metadata_count, NULL, &err);
    unsigned char *file = take(size);
    if (status == SFT_OK) {
        status = sft_save_memory(file, size, &written, set.tensors, set.count, metadata,
                                 set.metadata_count, NULL, &err);
        if (status == SFT_OK && written != size) {
            die("size foretold and size written differ");
        }
    }
    put_error(o, status, &err);
    if (status == SFT_OK) {
        put(o, file, size);
    }
    free(file);
    reset_write_set(&set);
}

/* ---------------------------------------------------------------- slice */

enum { VIA_MEMORY = 0, VIA_READ = 1, VIA_MAP = 2 };

typedef struct slice_case {
    sft_catalog *catalog;
    void *file;
    sft_slice slices[80];
    int64_t strides[80];
    sft_read_options options;
    size_t before; /* bytes of the destination in front of element 0 */
    size_t room;   /* the size told to the library */
    size_t total;  /* bytes of the destination */
} slice_case;

/* The file's bytes in memory, or in a temporary file when they should come through a descriptor. */
static sft_status open_case(slice_case *s, uint32_t via, size_t size, sft_error *err) {
    if (via == VIA_MEMORY) {
        return sft_catalog_open_memory(&s->catalog, s->file, size, NULL, err);
    }
    FILE *temp = tmpfile();
    if (temp == NULL || fwrite(s->file, 1, size, temp) != size || fflush(temp) != 0) {
        die("cannot write a temporary file");
    }
    sft_open_options options;
    SFT_INIT(&options);
    options.access = via == VIA_READ ? SFT_ACCESS_READ : SFT_ACCESS_MAP;
    sft_source *source;
    sft_status status = sft_source_open_fd(&source, fileno(temp), options.access, NULL, err);
    fclose(temp);
    if (status == SFT_OK) {
        status = sft_catalog_open_source(&s->catalog, source, &options, err);
    }
    return status;
}

/* in: via, file, slice text, stride count (0xffffffff: packed) and strides, bytes of the
 * destination before element 0, size told to the library, bytes of the destination in all. */
static sft_status get_case(slice_case *s, in_buf *in, sft_error *err) {
    uint32_t via = get32(in);
    size_t size = get32(in);
    s->file = get_block(in, size);
    size_t text_len = get32(in);
    char *text = get_block(in, text_len);
    SFT_INIT(&s->options);
    uint32_t strides = get32(in);
    if (strides != UINT32_MAX) {
        for (uint32_t i = 0; i < strides && i < 80; i++) {
            s->strides[i] = (int64_t)get64(in);
        }
        s->options.dst_strides = s->strides;
    }
    s->before = (size_t)get64(in);
    s->room = (size_t)get64(in);
    s->total = (size_t)get64(in);
    s->options.slices = s->slices;
    sft_status status =
        sft_slice_parse(text, text_len, s->slices, 80, &s->options.slice_count, err);
    free(text);
    return status != SFT_OK ? status : open_case(s, via, size, err);
}

/* out: error record; if read: rank, shape..., nbytes, the whole destination (0xEE where nothing was
 * written). The tensor is the first of the file. */
static void answer_slice(out_buf *o, in_buf *in) {
    static slice_case s; /* some kilobytes: not for the stack */
    memset(&s, 0, sizeof s);
    sft_error err;
    sft_status status = get_case(&s, in, &err);
    uint64_t shape[80], nbytes = 0;
    uint32_t rank = 0;
    unsigned char *dst = take(s.total);
    memset(dst, 0xEE, s.total);
    if (status == SFT_OK) {
        const sft_tensor *t = sft_catalog_at(s.catalog, 0);
        status = sft_tensor_result(t, &s.options, shape, &rank, &nbytes, &err);
        if (status == SFT_OK) {
            status = sft_tensor_read(s.catalog, t, &s.options, dst + s.before, s.room, &err);
        }
    }
    put_error(o, status, &err);
    if (status == SFT_OK) {
        put32(o, rank);
        for (uint32_t d = 0; d < rank; d++) {
            put64(o, shape[d]);
        }
        put64(o, nbytes);
        put(o, dst, s.total);
    }
    free(dst);
    sft_catalog_close(s.catalog);
    free(s.file);
}

/* ---------------------------------------------------------------- loop */

static in_buf read_stdin(void) {
    in_buf in = {NULL, 0, 0};
    unsigned char *data = NULL;
    size_t cap = 0;
    for (;;) {
        if (cap == in.len) {
            cap = cap == 0 ? 1u << 20 : cap * 2;
            data = realloc(data, cap);
            if (data == NULL) {
                die("out of memory");
            }
        }
        size_t n = fread(data + in.len, 1, cap - in.len, stdin);
        if (n == 0) {
            break;
        }
        in.len += n;
    }
    in.data = data;
    return in;
}

int main(int argc, char **argv) {
    const char *mode = argc == 2 ? argv[1] : "";
    bool verdict = strcmp(mode, "verdict") == 0, strict = strcmp(mode, "strict") == 0;
    bool write = strcmp(mode, "write") == 0, slice = strcmp(mode, "slice") == 0;
    if (!verdict && !strict && !write && !slice) {
        die("usage: sft_oracle verdict|strict|write|slice < frames > frames");
    }
    in_buf in = read_stdin();
    out_buf out = {NULL, 0, 0};
    while (in.pos < in.len) {
        in_buf frame = {NULL, get32(&in), 0};
        frame.data = get(&in, frame.len);
        size_t start = out.len;
        put32(&out, 0);
        if (verdict || strict) {
            answer_verdict(&out, &frame, strict ? SFT_OPEN_STRICT : 0);
        } else if (write) {
            answer_write(&out, &frame);
        } else {
            answer_slice(&out, &frame);
        }
        store32(out.data + start, (uint32_t)(out.len - start - 4));
    }
    if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
        die("cannot write the answers");
    }
    drop(in.data);
    free(out.data);
    return 0;
}
