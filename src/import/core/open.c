/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/open.c - from a path or source to a catalog and a report: options, detection, the job
 * that a reader works with. Opening and scanning are the same run: a scan throws the catalog away.
 * Read first: import.h.
 */
#include "base/checked.h"
#include "import/core/import.h"
#include "import/core/shards.h"
#include "import/dcp/dcp.h"
#include "import/pickle/joblib.h"
#include "import/tensorflow/tf.h"

/* ---------------------------------------------------------------- detection */

static bool is_safetensors(const sft__import_probe *p) {
    if (p->head_len < 10) {
        return false;
    }
    const uint64_t n = sft__base_load_le64(p->head);
    return n >= 2 && n <= p->size - 8 && p->head[8] == '{';
}

/* Some lengths of a header begin as other formats do ("80 02" as a pickle): what is a safetensors
 * file to its last byte is one. */
static bool is_whole_safetensors(const sft__import_probe *p) {
    sft_catalog *catalog = NULL;
    sft_source *part;
    sft_error ignored;

    if (!is_safetensors(p) ||
        sft__import_source_part(&part, p->source, (sft__import_extent){0, p->size}, "",
                                p->allocator, &ignored) != SFT_OK) {
        return false;
    }
    const bool whole = sft_catalog_open_source(&catalog, part, NULL, &ignored) == SFT_OK;
    sft_catalog_close(catalog);
    return whole;
}

sft_status sft_import_detect(const sft_source *source, uint32_t *format, sft_error *err) {
    uint8_t head[SFT__IMPORT_HEAD];
    sft__import_probe p;

    if (source == NULL || format == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "source or format is NULL");
    }
    *format = SFT_IMPORT_UNKNOWN;
    SFT_TRY(sft__import_probe_read(&p, head, source, sft__base_allocator(NULL), err));
    const sft__import_reader *reader = sft__import_reader_for(&p);
    if (reader != NULL && is_whole_safetensors(&p)) {
        *format = SFT_IMPORT_SAFETENSORS;
    } else if (reader != NULL) {
        *format = reader->format;
    } else if (is_safetensors(&p)) {
        *format = SFT_IMPORT_SAFETENSORS;
    } else if (sft__import_refusal(&p, format) == NULL && p.head_len > 8 && p.head[8] != '{' &&
               sft__import_joblib_is_packed(&p)) {
        *format = SFT_IMPORT_OTHER;
    }
    return SFT_OK;
}

static sft_status refuse(sft__import *job, const sft__import_probe *p, sft_error *err) {
    const char *sentence = sft__import_refusal(p, &job->format);

    if (sentence != NULL) {
        return sft__base_fail_at(err, SFT_E_FORMAT, 0, "this is %s", sentence);
    }
    return p->size == 0
               ? sft__base_fail_at(err, SFT_E_FORMAT, 0, "the file is empty")
               : sft__base_fail_at(err, SFT_E_FORMAT, 0, "not a file of a known weight format");
}

/* ---------------------------------------------------------------- the job */

static void open_options(const sft__import *job, sft_open_options *o) {
    SFT_INIT(o);
    o->allocator = job->options.allocator;
    o->limits = &job->limits;
    o->access = job->options.access;
}

static sft_status job_start(sft__import *job, sft_source *source, sft_error *err) {
    sft_open_options o;

    open_options(job, &o);
    job->file = source;
    sft__base_arena_init(&job->arena, job->allocator, job->options.memory_bytes / 2);
    job->inflate_left = job->options.inflate_bytes;
    if (job->inflate_left == 0 &&
        !sft__base_mul64(sft_source_size(source), 1032, &job->inflate_left)) {
        job->inflate_left = UINT64_MAX;
    }
    sft_status status =
        job->report != NULL ? SFT_OK : sft__import_report_create(&job->report, job->allocator, err);
    SFT_THEN(status, sft_builder_create(&job->builder, &o, err));
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    SFT_TRY(sft_builder_add_source(job->builder, source, NULL, err));
    const sft_file file = {.path = job->path != NULL ? job->path : sft_source_name(source),
                           .size = sft_source_size(source),
                           .data_bytes = sft_source_size(source),
                           .has_metadata = 1};
    return sft_builder_add_file(job->builder, &file, NULL, err);
}

/* Files of other formats are one part: a key leads to nothing in them. */
static sft_status has_parts(const sft__import *job, sft_error *err) {
    static const uint32_t nested[] = {
        SFT_IMPORT_TORCH_ZIP, SFT_IMPORT_TORCH_LEGACY, SFT_IMPORT_TORCH_TAR,
        SFT_IMPORT_PICKLE,    SFT_IMPORT_JOBLIB,       SFT_IMPORT_DCP,
        SFT_IMPORT_FLAX,      SFT_IMPORT_HDF5,         SFT_IMPORT_KERAS,
    };
    const char *key = job->options.key;
    bool has = job->scanning || key == NULL || strcmp(key, ".") == 0;

    for (size_t i = 0; i < sizeof nested / sizeof nested[0] && !has; i++) {
        has = nested[i] == job->format;
    }
    return has ? SFT_OK
               : sft__base_fail(
                     err, SFT_E_NOT_FOUND,
                     "the file has no part \"%.100s\" (key): a file of this format is one", key);
}

static sft_status job_read(sft__import *job, sft_catalog **out, sft_error *err) {
    uint8_t head[SFT__IMPORT_HEAD];
    sft__import_probe p;

    SFT_TRY(sft__import_probe_read(&p, head, job->file, job->allocator, err));
    const sft__import_reader *reader = sft__import_reader_for(&p);
    if (reader != NULL) {
        job->format = reader->format;
        SFT_TRY(has_parts(job, err));
        SFT_TRY(reader->open(job, err));
    } else if (!job->scanning && sft__import_joblib_is_packed(&p)) {
        SFT_TRY(sft__import_joblib_open_packed(job, &p, err));
    } else {
        return refuse(job, &p, err);
    }
    return sft_builder_finish(out, job->builder, err);
}

/* Safetensors as such: the core's own reader over the same source. */
static sft_status read_safetensors(sft__import *job, sft_catalog **out, sft_source *source,
                                   sft_error *err) {
    sft_open_options o;

    job->format = SFT_IMPORT_SAFETENSORS;
    job->limits.memory_bytes = 0;
    open_options(job, &o);
    const sft_status status =
        job->report != NULL ? SFT_OK : sft__import_report_create(&job->report, job->allocator, err);
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    return sft_catalog_open_source(out, source, &o, err);
}

sft_status sft__import_job_read(sft__import *job, sft_catalog **out, sft_source *source,
                                sft_error *err) {
    uint32_t format;
    sft_status status = sft_import_detect(source, &format, err);

    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    if (format == SFT_IMPORT_SAFETENSORS) {
        status = read_safetensors(job, out, source, err);
    } else {
        status = job_start(job, source, err);
        SFT_THEN(status, job_read(job, out, err));
    }
    if (job->report != NULL && !job->named) { /* else it is a part's: the file's is known */
        sft__import_report_format(job->report, job->format);
    }
    return status;
}

static void report_out(sft__import *job, sft_import_report **report) {
    if (report != NULL) {
        *report = job->report;
        job->report = NULL;
    }
}

static sft_status open_source(sft_catalog **out, sft_source *source, const char *path,
                              const sft_import_options *options, sft_import_report **report,
                              sft_error *err) {
    sft__import job;

    memset(&job, 0, sizeof job);
    job.path = path;
    sft_status status = sft__import_job_options(&job, options, err);
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    status = sft__import_job_read(&job, out, source, err);
    if (status == SFT_OK) {
        report_out(&job, report);
    }
    sft__import_job_reset(&job);
    return status;
}

static sft_status out_args(sft_catalog **out, sft_import_report **report, sft_error *err) {
    if (report != NULL) {
        *report = NULL;
    }
    SFT_OUT(out, err);
    return SFT_OK;
}

sft_status sft_import_open_source(sft_catalog **out, sft_source *source,
                                  const sft_import_options *options, sft_import_report **report,
                                  sft_error *err) {
    if (source == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "source is NULL");
    }
    const sft_status status = out_args(out, report, err);
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    return open_source(out, source, NULL, options, report, err);
}

static sft_status file_source(sft_source **out, const char *path, const sft_import_options *options,
                              sft_error *err) {
    sft__import probe;

    *out = NULL;
    if (path == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "path is NULL");
    }
    memset(&probe, 0, sizeof probe);
    SFT_TRY(sft__import_job_options(&probe, options, err));
    return sft_source_open(out, path, probe.options.access, probe.options.allocator, err);
}

/* Where a path names no file: the index of TensorFlow's, or the .metadata of a distributed
 * checkpoint, that it stands for, in `found` (SFT__TF_PATH bytes) and *path; else `status`, why the
 * path cannot be opened, with its record in err. */
static sft_status located_source(sft_source **out, const char **path, char *found,
                                 sft_status status, const sft_import_options *options,
                                 sft_error *err) {
    sft__import probe;
    sft_error why;

    if (status == SFT_E_ARG || status == SFT_E_NOMEM) {
        return status;
    }
    memset(&probe, 0, sizeof probe);
    memset(&why, 0, sizeof why);
    SFT_TRY(sft__import_job_options(&probe, options, err));
    const sft_import_options *o = &probe.options;
    sft_status there = sft__import_tf_locate(*path, o, found, &why);
    if (there == SFT_E_NOT_FOUND && sft__import_dcp_locate(*path, o, found, SFT__TF_PATH)) {
        there = SFT_OK;
    }
    if (there == SFT_OK) {
        *path = found;
        return sft_source_open(out, found, o->access, o->allocator, err);
    }
    if (there == SFT_E_NOT_FOUND) {
        return status; /* as if it had not been looked for */
    }
    if (err != NULL) {
        *err = why;
    }
    return there;
}

sft_status sft__import_open_path(sft_source **out, const char **path, char *found,
                                 const sft_import_options *options, sft_error *err) {
    const sft_status status = file_source(out, *path, options, err);
    return status == SFT_OK ? status : located_source(out, path, found, status, options, err);
}

sft_status sft_import_locate(char *found, size_t size, const char *path, sft_error *err) {
    char at[SFT__TF_PATH];
    sft_source *source;

    if (found == NULL || size == 0) {
        return sft__base_fail(err, SFT_E_ARG, "found is NULL");
    }
    SFT_TRY(sft__import_open_path(&source, &path, at, NULL, err));
    sft_source_close(source);
    const size_t n = strlen(path);
    if (n >= size) {
        return sft__base_fail(err, SFT_E_LIMIT, "a path of %zu bytes, there is room for %zu", n + 1,
                              size);
    }
    memcpy(found, path, n + 1);
    return SFT_OK;
}

sft_status sft__import_open_file(sft_catalog **out, const char *path,
                                 const sft_import_options *options, sft_import_report **report,
                                 sft_error *err) {
    char found[SFT__TF_PATH];
    sft_source *source;

    SFT_TRY(out_args(out, report, err));
    SFT_TRY(sft__import_open_path(&source, &path, found, options, err));
    return open_source(out, source, path, options, report, err);
}

/* A directory, or the index of shards, with the options complete; *is: it was one. */
static sft_status open_several(sft_catalog **out, const char *path, const sft_source *source,
                               bool *is, const sft_import_options *options,
                               sft_import_report **report, sft_error *err) {
    uint8_t head[SFT__IMPORT_HEAD];
    sft__import job;
    sft__import_probe p;

    *is = false;
    memset(&job, 0, sizeof job);
    SFT_TRY(sft__import_job_options(&job, options, err));
    if (source == NULL) {
        return sft__import_directory_open(out, path, is, &job.options, report, err);
    }
    SFT_TRY(sft__import_probe_read(&p, head, source, job.allocator, err));
    if (sft__import_gguf_set_likely(path, head, p.head_len)) {
        *is = true;
        return sft__import_gguf_set_open(out, path, &job.options, report, err);
    }
    *is = sft__import_shard_index_likely(head, p.head_len) && sft__import_reader_for(&p) == NULL;
    return *is ? sft__import_shards_open(out, path, source, &job.options, report, err) : SFT_OK;
}

sft_status sft__import_open_over(sft_catalog **out, sft_source *source, const char *path,
                                 const sft_import_options *options, sft_import_report **report,
                                 sft_error *err) {
    bool several = false;
    const sft_status status =
        path != NULL ? open_several(out, path, source, &several, options, report, err) : SFT_OK;

    if (status != SFT_OK || several) {
        sft_source_close(source);
        return status;
    }
    return open_source(out, source, path, options, report, err);
}

sft_status sft_import_open(sft_catalog **out, const char *path, const sft_import_options *options,
                           sft_import_report **report, sft_error *err) {
    char found[SFT__TF_PATH];
    sft_source *source;
    bool several = false;

    SFT_TRY(out_args(out, report, err));
    sft_status status = file_source(&source, path, options, err);
    if (status == SFT_OK) {
        return sft__import_open_over(out, source, path, options, report, err);
    }
    sft_status of_directory = SFT_OK;
    if (status == SFT_E_NOT_REGULAR || status == SFT_E_IO) {
        of_directory = open_several(out, path, NULL, &several, options, report, err);
    }
    if (several && of_directory != SFT_E_IO) { /* nothing of that name: perhaps a prefix */
        return of_directory;
    }
    status = of_directory != SFT_OK ? of_directory : status;
    SFT_TRY(located_source(&source, &path, found, status, options, err));
    return open_source(out, source, path, options, report, err);
}
