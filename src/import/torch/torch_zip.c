/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_zip.c - PyTorch's zip archives, 1.6 to today: <directory>/data.pkl,
 * <directory>/data/<key>, version, byteorder. TorchScript archives are told by constants.pkl or code;
 * their code is never looked at. Source: caffe2/serialize/inline_container.cc,
 * torch/serialization.py. Read first: torch.h, zip.h.
 */
#include "import/archive/zip.h"
#include "import/pt2/pt2.h"
#include "import/torch/torch.h"
#include <stdio.h>

enum { SMALL_MAX = 4096, PICKLES_MAX = 64, PICKLE_RATIO = 16, PICKLE_MOST = 256 << 20 };

typedef struct archive {
    sft__import_zip zip;
    const char *directory;
    size_t directory_len; /* with its slash */
} archive;

static bool probe(const sft__import_probe *p) {
    return sft__import_zip_probe(p);
}

/* The member DIRECTORY/name. */
static const sft__import_zip_entry *member(const archive *a, const char *name, size_t name_len) {
    char path[2 * SMALL_MAX];
    if (a->directory_len + name_len > sizeof path) {
        return NULL;
    }
    memcpy(path, a->directory, a->directory_len);
    memcpy(path + a->directory_len, name, name_len);
    return sft__import_zip_find(&a->zip, path, a->directory_len + name_len);
}

static const sft__import_zip_entry *member_text(const archive *a, const char *name) {
    return member(a, name, strlen(name));
}

static bool is_inside(const archive *a, const sft__import_zip_entry *e, const char *below) {
    const size_t n = strlen(below);
    return e->name_len > a->directory_len + n &&
           memcmp(e->name, a->directory, a->directory_len) == 0 &&
           memcmp(e->name + a->directory_len, below, n) == 0;
}

/* ---------------------------------------------------------------- what is in the archive */

static sft_status find_directory(archive *a, sft__import *job, sft_error *err) {
    if (a->zip.count == 0) {
        return sft__base_fail_at(err, SFT_E_FORMAT, 0, "this is an empty zip archive");
    }
    const sft__import_zip_entry *first = &a->zip.entries[0];
    const char *slash = memchr(first->name, '/', first->name_len);
    if (slash == NULL || (size_t)(slash - first->name) >= SMALL_MAX) {
        return sft__base_fail_at(
            err, SFT_E_FORMAT, 0,
            "this is a zip archive, but no PyTorch file (its first member is %.100s)", first->name);
    }
    a->directory = first->name;
    a->directory_len = (size_t)(slash - first->name) + 1;
    for (size_t i = 0; i < a->zip.count && member_text(a, "data.pkl") != NULL; i++) {
        const sft__import_zip_entry *e = &a->zip.entries[i];
        if (e->name_len < a->directory_len ||
            memcmp(e->name, a->directory, a->directory_len) != 0) {
            SFT_TRY(
                sft__import_trick(job, SFT__RULE(CONTAINER, DANGEROUS, "torch-folder"),
                                  sft__import_text_at(e->name, e->header), err,
                                  "the archive has a second top directory, which PyTorch does not "
                                  "look at: %.100s",
                                  e->name));
        }
    }
    return SFT_OK;
}

static sft_status check_script(const archive *a, sft__import *job, sft_error *err) {
    bool script = member_text(a, "constants.pkl") != NULL;

    for (size_t i = 0; i < a->zip.count && !script; i++) {
        script = is_inside(a, &a->zip.entries[i], "code/");
    }
    if (!script) {
        return SFT_OK;
    }
    if (job->scanning) {
        sft__import_find(
            job, SFT__RULE(CONTAINER, UNKNOWN, "torchscript"),
            SFT__AT(a->directory, a->directory_len - 1, 0),
            "a TorchScript archive: a program with weights; torch.load before 2.6 runs "
            "it even with weights_only (CVE-2025-32434)");
        return SFT_OK;
    }
    for (size_t i = 0; i < a->zip.count; i++) {
        const sft__import_zip_entry *e = &a->zip.entries[i];
        if (is_inside(a, e, "constants/") && (job->options.flags & SFT_IMPORT_ALLOW_OPAQUE) != 0) {
            sft__import_left(job, e->name, e->name_len, 1,
                             "a constant of the program, which is never read");
        }
    }
    return sft__import_opaque(
        job, SFT__AT(a->directory, a->directory_len - 1, 0), err,
        "torchscript: this is a TorchScript archive, a program with weights; its "
        "code is never read, its weights can be had by leaving out what is not "
        "understood");
}

/* version, byteorder: short texts. */
static sft_status check_texts(const archive *a, sft__import *job, bool *big_endian,
                              sft_error *err) {
    const sft__import_zip_entry *version = member_text(a, "version");
    const sft__import_zip_entry *order = member_text(a, "byteorder");
    size_t size;
    char *text;

    version = version != NULL ? version : member_text(a, ".data/version");
    if (version == NULL) {
        SFT_TRY(sft__import_trick(job, SFT__RULE(CONTAINER, UNKNOWN, "torch-version"),
                                  sft__import_text_at("version", 0), err,
                                  "the archive has no member version"));
    } else {
        SFT_TRY(sft__import_zip_read(job, version, SMALL_MAX, &text, &size, err));
        size -= size > 0 && text[size - 1] == '\n';
        bool number = size > 0 && size <= 9;
        for (size_t i = 0; i < size; i++) {
            number = number && text[i] >= '0' && text[i] <= '9';
        }
        if (!number) {
            SFT_TRY(sft__import_trick(job, SFT__RULE(CONTAINER, UNKNOWN, "torch-version"),
                                      sft__import_text_at("version", version->data), err,
                                      "the archive's version is no number"));
        }
    }
    *big_endian = false;
    if (order != NULL) {
        SFT_TRY(sft__import_zip_read(job, order, SMALL_MAX, &text, &size, err));
        *big_endian = size == 3 && memcmp(text, "big", 3) == 0;
        if (!*big_endian && !(size == 6 && memcmp(text, "little", 6) == 0)) {
            return sft__base_fail_at(
                err, SFT_E_SCHEMA, order->data,
                "torch-byteorder: the byte order is neither \"little\" nor \"big\"");
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- storages */

static sft_status place(sft__import_torch *t, sft__import_storage *s, sft_error *err) {
    const archive *a = t->ctx;
    char name[SMALL_MAX];
    const sft__import_zip_entry *e = NULL;

    if (s->key_len < sizeof name - 8) {
        memcpy(name, "data/", 5);
        memcpy(name + 5, s->key, s->key_len);
        e = member(a, name, s->key_len + 5);
    }
    if (e == NULL) {
        return sft__base_fail(err, SFT_E_SCHEMA,
                              "torch-storage: the archive has no storage \"%.64s\"", s->key);
    }
    if (e->usize < s->bytes) {
        return sft__base_fail_at(
            err, SFT_E_SIZE, e->data,
            "torch-storage: storage \"%.64s\" has %llu bytes, its description needs "
            "%llu (PyTorch before 2.10 would read past its end)",
            s->key, (unsigned long long)e->usize, (unsigned long long)s->bytes);
    }
    if (e->usize > s->bytes) {
        sft__import_find(t->job, SFT__RULE(NOTE, HARMLESS, "storage-longer"),
                         SFT__NAMED(e, e->data), "%llu bytes, of which %llu are described",
                         (unsigned long long)e->usize, (unsigned long long)s->bytes);
    }
    s->placed = true;
    return sft__import_zip_place(t->job, e, &s->source, &s->data, &s->offset, err);
}

/* ---------------------------------------------------------------- pickles */

/* A pickle is inflated when the file is opened, all of it, whatever it then says: the budget of
 * tensors, which are inflated when they are read, is not for that. */
static sft_status check_deflated(sft__import *job, const sft__import_zip_entry *e, sft_error *err) {
    const uint64_t size = sft_source_size(job->file);
    const uint64_t most = size > UINT64_MAX / PICKLE_RATIO    ? UINT64_MAX
                          : size * PICKLE_RATIO < PICKLE_MOST ? (uint64_t)PICKLE_MOST
                                                              : size * PICKLE_RATIO;

    if (e->method == 0) {
        return SFT_OK;
    }
    if (e->usize > most || job->pickle_bytes > most - e->usize) {
        return sft__base_fail_at(
            err, SFT_E_LIMIT, e->data,
            "zip-inflate: member %.100s: pickles inflate to more than %llu bytes", e->name,
            (unsigned long long)most);
    }
    job->pickle_bytes += e->usize;
    return SFT_OK;
}

/* Everything in one member: the pickle, and in a scan the ones that hide behind it. */
static sft_status run_member(sft__import_pickle *p, sft__import *job,
                             const sft__import_zip_entry *e, sft_error *err) {
    const sft_source *bytes;
    uint32_t source;
    uint64_t offset;

    SFT_TRY(check_deflated(job, e, err));
    SFT_TRY(sft__import_zip_check(job, e, err));
    SFT_TRY(sft__import_zip_place(job, e, &source, &bytes, &offset, err));
    SFT_TRY(sft__import_pickle_init(p, job, bytes, source, e->name, err));
    const uint64_t end = offset + e->usize;
    SFT_TRY(sft__import_pickle_run(p, offset, end, err));
    const uint32_t root = p->root;
    for (int i = 0; p->end < end; i++) {
        SFT_TRY(
            sft__import_trick(job, SFT__RULE(PICKLE, DANGEROUS, "pickle-trailing"),
                              sft__import_text_at(e->name, p->end), err,
                              "bytes follow the end of the pickle: a second one, that loaders or "
                              "scanners do not see"));
        if (i >= PICKLES_MAX || sft__import_pickle_run(p, p->end, end, NULL) != SFT_OK) {
            break;
        }
    }
    p->root = root;
    return SFT_OK;
}

/* torch.serialization.set_crc32_options(False): every member stored, every CRC 0. PyTorch never
 * compares them. */
static void allow_no_crc(const archive *a, sft__import *job) {
    bool some = false;

    for (size_t i = 0; i < a->zip.count; i++) {
        const sft__import_zip_entry *e = &a->zip.entries[i];
        if (e->crc32 != 0 || e->method != 0) {
            return;
        }
        some = some || e->usize != 0;
    }
    if (some && (job->options.flags & SFT_IMPORT_NO_CRC) == 0) {
        job->options.flags |= SFT_IMPORT_NO_CRC;
        sft__import_find(job, SFT__RULE(NOTE, HARMLESS, "zip-no-crc"),
                         SFT__AT(a->directory, a->directory_len - 1, 0),
                         "written without checksums (set_crc32_options(False)): damage cannot be "
                         "found");
    }
}

static sft_status read_archive(archive *a, sft__import *job, sft__import_torch *t,
                               sft__import_pickle *p, sft_error *err) {
    SFT_TRY(find_directory(a, job, err));
    const sft__import_zip_entry *data = member_text(a, "data.pkl");
    if (data != NULL) {
        allow_no_crc(a, job);
    }
    if (data == NULL) {
        return sft__base_fail_at(err, SFT_E_FORMAT, 0,
                                 "this is a zip archive, but no PyTorch file (it has no data.pkl)");
    }
    SFT_TRY(check_script(a, job, err));
    for (size_t i = 0; i < a->zip.count; i++) {
        if (is_inside(a, &a->zip.entries[i], "data/")) {
            t->storage_bytes += a->zip.entries[i].usize;
        }
    }
    SFT_TRY(check_texts(a, job, &t->big_endian, err));
    SFT_TRY(run_member(p, job, data, err));
    return sft__import_torch_tree(t, err);
}

/* The CRCs of the members that reading does not read. */
static sft_status check_all(const archive *a, sft__import *job, sft_error *err) {
    for (size_t i = 0; i < a->zip.count; i++) {
        SFT_TRY(sft__import_zip_check(job, &a->zip.entries[i], err));
    }
    return SFT_OK;
}

static void begin(archive *a, sft__import *job, sft__import_torch *t, sft__import_pickle *p) {
    memset(p, 0, sizeof *p);
    memset(t, 0, sizeof *t);
    memset(a, 0, sizeof *a);
    p->job = job;
    t->job = job;
    t->p = p;
    t->place = place;
    t->ctx = a;
}

/* The root as one view, if it is a tensor of one. */
static sft_status root_view(sft__import_torch *t, sft__import_view *view, bool *tensor,
                            sft_error *err) {
    sft__import_parts parts;

    *tensor = false;
    if (!sft__import_torch_is_tensor(t, t->p->root)) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_torch_eval(t, t->p->root, "", 0, &parts, err));
    *tensor = parts.count == 1;
    *view = parts.at[0].view;
    return SFT_OK;
}

sft_status sft__import_torch_zip_item(sft__import *job, sft__import_view *view, bool *tensor,
                                      bool *storages, sft_error *err) {
    sft__import_pickle p;
    sft__import_torch t;
    archive a;

    begin(&a, job, &t, &p);
    *tensor = false;
    *storages = false;
    sft_status status = sft__import_zip_open(&a.zip, job, err);
    SFT_THEN(status, find_directory(&a, job, err));
    const sft__import_zip_entry *data = status == SFT_OK ? member_text(&a, "data.pkl") : NULL;
    for (size_t i = 0; i < a.zip.count && status == SFT_OK; i++) {
        *storages = *storages || is_inside(&a, &a.zip.entries[i], "data/");
    }
    if (status == SFT_OK && data == NULL) {
        status = sft__base_fail_at(err, SFT_E_FORMAT, 0, "dcp-item: an archive without data.pkl");
    }
    if (status == SFT_OK) {
        allow_no_crc(&a, job);
        status = check_texts(&a, job, &t.big_endian, err);
    }
    SFT_THEN(status, run_member(&p, job, data, err));
    SFT_THEN(status, root_view(&t, view, tensor, err));
    if (status == SFT_OK && (job->options.flags & SFT_IMPORT_CHECKSUMS) != 0) {
        status = check_all(&a, job, err);
    }
    sft__import_torch_reset(&t);
    sft__import_pickle_reset(&p);
    sft__import_zip_reset(&a.zip);
    return status;
}

static sft_status open_any(sft__import *job, const sft__import_pt2_inner *inner, sft_error *err) {
    sft__import_pickle p;
    sft__import_torch t;
    archive a;

    begin(&a, job, &t, &p);
    sft_status status = sft__import_zip_open(&a.zip, job, err);
    if (status == SFT_OK && inner != NULL && sft__import_pt2_is(&a.zip)) {
        status = sft__import_pt2_read(job, &a.zip, inner, err);
    } else if (status == SFT_OK) {
        status = read_archive(&a, job, &t, &p, err);
    }
    if (status == SFT_OK && (job->options.flags & SFT_IMPORT_CHECKSUMS) != 0) {
        status = check_all(&a, job, err);
    }
    sft__import_torch_reset(&t);
    sft__import_pickle_reset(&p);
    sft__import_zip_reset(&a.zip);
    return status;
}

static sft_status open_inside(sft__import *job, sft_error *err) {
    return open_any(job, NULL, err);
}

static sft_status open_zip(sft__import *job, sft_error *err) {
    static const sft__import_pt2_inner inner = {open_inside, sft__import_torch_zip_item};

    return open_any(job, &inner, err);
}

const sft__import_reader sft__import_reader_torch_zip = {SFT_IMPORT_TORCH_ZIP, probe, open_zip};
