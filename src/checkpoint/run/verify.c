/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/verify.c - the files of a step compared with their manifest, by the common loop: CRC32C
 * in blocks that are combined afterwards, SHA-256 file by file. Read steps.h first.
 */
#include "checkpoint/run/steps.h"
#include "move/loop.h"
#include <sft/digest.h>

enum { PIECE = 1 << 20, BLOCK = 8 << 20 };

typedef struct one_file {
    const sft__checkpoint_run_fact *fact;
    sft__fs_handle disk;
    size_t first; /* of its blocks */
    size_t count;
    uint8_t sha[32];
} one_file;

/* Blocks first, then one unit of work for each file that has a SHA-256. */
typedef struct checking {
    const sft__checkpoint_run_verify *options;
    sft__move_loop loop;
    one_file *files;
    size_t count;
    uint32_t *crcs; /* by block */
    size_t *of;     /* by block: the file */
    size_t blocks;
    uint64_t bytes;
} checking;

static sft_status digest_block(checking *c, size_t block, uint8_t *buffer, sft_error *err) {
    const one_file *const f = &c->files[c->of[block]];
    const uint64_t begin = (uint64_t)(block - f->first) * BLOCK;
    const uint64_t end = begin + BLOCK < f->fact->size ? begin + BLOCK : f->fact->size;
    for (uint64_t at = begin; at < end; at += PIECE) {
        const size_t n = end - at < PIECE ? (size_t)(end - at) : PIECE;
        SFT_TRY(sft__fs_read_at(f->disk, f->fact->name, at, buffer, n, err));
        c->crcs[block] = sft_crc32c(c->crcs[block], buffer, n);
        SFT_TRY(sft__move_loop_add(&c->loop, n, err));
    }
    return SFT_OK;
}

static sft_status digest_whole(checking *c, one_file *f, uint8_t *buffer, sft_error *err) {
    sft_sha256 sha;
    sft_sha256_init(&sha);
    for (uint64_t at = 0; f->fact->hashed && at < f->fact->size; at += PIECE) {
        const size_t n = f->fact->size - at < PIECE ? (size_t)(f->fact->size - at) : PIECE;
        SFT_TRY(sft__fs_read_at(f->disk, f->fact->name, at, buffer, n, err));
        sft_sha256_update(&sha, buffer, n);
        SFT_TRY(sft__move_loop_add(&c->loop, 0, err));
    }
    sft_sha256_final(&sha, f->sha);
    return SFT_OK;
}

static sft_status block(void *ctx, size_t index, sft_error *err) {
    checking *const c = ctx;
    uint8_t *const buffer = sft__move_loop_take(&c->loop, err);
    if (buffer == NULL) {
        return SFT_E_NOMEM;
    }
    const sft_status status = index < c->blocks
                                  ? digest_block(c, index, buffer, err)
                                  : digest_whole(c, &c->files[index - c->blocks], buffer, err);
    sft__move_loop_give(&c->loop, buffer);
    return status;
}

/* ---------------------------------------------------------------- what is to be read */

static bool is_mine(const checking *c, size_t file) {
    const uint32_t shares = c->options->shares > 0 ? c->options->shares : 1;
    return file % shares == c->options->share;
}

static sft_status open_file(const checking *c, one_file *f, const char *directory, sft_error *err) {
    sft__base_buf path;
    sft__fs_stat st;
    sft__base_buf_init(&path, c->options->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, directory, f->fact->name, err);
    if (status == SFT_OK) {
        status = sft__fs_open(path.data, &f->disk, &st, err);
    }
    if (status == SFT_OK && st.size != f->fact->size) {
        status = sft__base_fail(err, SFT_E_MISMATCH, "%s has another size than its manifest says",
                                f->fact->name);
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status prepare(checking *c, const char *directory, const sft__checkpoint_run_manifest *m,
                          sft_error *err) {
    const sft_allocator *const a = c->options->allocator;
    c->files = sft__base_alloc_array(a, m->count + 1, sizeof *c->files);
    if (c->files == NULL) {
        return sft__base_fail_nomem(err, m->count * sizeof *c->files);
    }
    for (size_t i = 0; i < m->count; i++) {
        one_file *const f = &c->files[c->count];
        if (!is_mine(c, i) ||
            (c->options->loads && !m->files[i].hashed && /* no load compares that of a file */
             sft__checkpoint_run_has_tensors(m->files[i].name))) {
            continue;
        }
        memset(f, 0, sizeof *f);
        f->fact = &m->files[i];
        f->disk = SFT__FS_NO_HANDLE;
        f->first = c->blocks;
        f->count = (size_t)((f->fact->size + BLOCK - 1) / BLOCK);
        c->blocks += f->count;
        c->bytes += f->fact->size;
        c->count++;
        SFT_TRY(open_file(c, f, directory, err));
    }
    c->crcs = sft__base_alloc_zero(a, (c->blocks + 1) * sizeof *c->crcs);
    c->of = sft__base_alloc_array(a, c->blocks + 1, sizeof *c->of);
    if (c->crcs == NULL || c->of == NULL) {
        return sft__base_fail_nomem(err, (c->blocks + 1) * sizeof *c->of);
    }
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < c->files[i].count; k++) {
            c->of[c->files[i].first + k] = i;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what came out */

static sft_status compare(const checking *c, const one_file *f, sft_error *err) {
    uint32_t crc = 0;
    for (size_t k = 0; k < f->count; k++) {
        const uint64_t left = f->fact->size - (uint64_t)k * BLOCK;
        crc = sft_crc32c_combine(crc, c->crcs[f->first + k], left < BLOCK ? left : BLOCK);
    }
    if (crc != f->fact->crc) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "%s is damaged: its CRC32C is %08lx, its manifest says %08lx",
                              f->fact->name, (unsigned long)crc, (unsigned long)f->fact->crc);
    }
    if (f->fact->hashed && memcmp(f->sha, f->fact->sha, sizeof f->sha) != 0) {
        return sft__base_fail(err, SFT_E_MISMATCH, "%s is damaged: its SHA-256 is another one",
                              f->fact->name);
    }
    return SFT_OK;
}

static sft_status compare_told(const checking *c, const sft_catalog *catalog,
                               const sft__checkpoint_run_fact *fact, sft_error *err) {
    uint32_t crc = 0;
    SFT_TRY(sft__checkpoint_run_told_crc(catalog, &crc, c->options->allocator, err));
    return crc == fact->crc
               ? SFT_OK
               : sft__base_fail(err, SFT_E_MISMATCH,
                                "%s is damaged, or another file: by the digests in its header its "
                                "CRC32C is %08lx, its manifest says %08lx",
                                fact->name, (unsigned long)crc, (unsigned long)fact->crc);
}

/* A file of tensors has a good header; where its bytes were not read, the header and the digests in it are
 * those of the file that the manifest means. */
static sft_status look_at_header(const checking *c, const sft__checkpoint_run_fact *fact,
                                 const char *directory, sft_error *err) {
    sft_open_options o;
    sft_catalog *catalog;
    sft__base_buf path;
    SFT_INIT(&o);
    o.allocator = c->options->allocator;
    sft__base_buf_init(&path, c->options->allocator);
    sft_status status = sft__checkpoint_stage_path(&path, directory, fact->name, err);
    if (status == SFT_OK) {
        status = sft_catalog_open(&catalog, path.data, &o, err);
    }
    if (status == SFT_OK) {
        status = c->options->loads ? compare_told(c, catalog, fact, err) : SFT_OK;
        sft_catalog_close(catalog);
    }
    sft__base_buf_reset(&path);
    return status;
}

static sft_status look_at_headers(const checking *c, const char *directory,
                                  const sft__checkpoint_run_manifest *m, sft_error *err) {
    for (size_t i = 0; i < m->count; i++) {
        if (is_mine(c, i) && sft__checkpoint_run_has_tensors(m->files[i].name)) {
            SFT_TRY(look_at_header(c, &m->files[i], directory, err));
        }
    }
    return SFT_OK;
}

static sft_status run(checking *c, sft_error *err) {
    c->loop.pool = c->options->pool;
    c->loop.allocator = c->options->allocator;
    c->loop.room = PIECE;
    c->loop.block = block;
    c->loop.ctx = c;
    SFT_TRY(sft__move_loop_begin(&c->loop, c->options->control, c->bytes, err));
    sft_status status = sft__move_loop_run(&c->loop, c->blocks + c->count, err);
    const sft_status ended = sft__move_loop_end(&c->loop, status == SFT_OK ? err : NULL);
    status = status == SFT_OK ? ended : status;
    for (size_t i = 0; i < c->count && status == SFT_OK; i++) {
        status = compare(c, &c->files[i], err);
    }
    return status;
}

sft_status sft__checkpoint_run_verify_step(const sft__checkpoint_run_verify *verify,
                                           const char *directory,
                                           const sft__checkpoint_run_manifest *m, sft_error *err) {
    const sft_allocator *const a = verify->allocator;
    checking c;
    memset(&c, 0, sizeof c);
    c.options = verify;
    sft_status status = prepare(&c, directory, m, err);
    if (status == SFT_OK) {
        status = run(&c, err);
    }
    if (status == SFT_OK) {
        status = look_at_headers(&c, directory, m, err);
    }
    for (size_t i = 0; i < c.count; i++) {
        sft__fs_close(c.files[i].disk);
    }
    sft__base_free(a, c.files, (m->count + 1) * sizeof *c.files);
    sft__base_free(a, c.crcs, (c.blocks + 1) * sizeof *c.crcs);
    sft__base_free(a, c.of, (c.blocks + 1) * sizeof *c.of);
    return status;
}
