/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of jobs: every file that a job writes is compared with what sft_save makes of the same
 * tensors read one by one through the catalog, which shares no code with the job's runs and bands.
 */
#include "job_model.h"

#include "checkpoint/job/job.h"
#include "checkpoint/stage/journal.h"
#include "checkpoint/stage/stage.h"

#include <errno.h>
#include <sft/checkpoint.h>
#include <sft/digest.h>
#include <sft/extend.h>
#include <sft/job.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---------------------------------------------------------------- any number to any other */

/* How the bytes went, over all jobs: that every way is taken. */
static struct {
    size_t whole, clusters, several_bands, inner_levels, by_rows, runs;
} ways;

static void count_ways(const sft_job *job) {
    ways.whole += job->whole_count;
    ways.clusters += job->cluster_count;
    ways.runs += job->run_count;
    for (size_t i = 0; i < job->cluster_count; i++) {
        ways.several_bands += job->clusters[i].bands > 1;
        ways.inner_levels += job->clusters[i].level > 0;
    }
    for (size_t i = 0; i < job->node_count; i++) {
        ways.by_rows += job->nodes[i].rows;
    }
}

static void reshard(const sft_catalog *whole, uint64_t ranks, const char *folder,
                    const sft_pool *pool, bool compare) {
    cuts c;
    parts p;
    cuts_init(&c, ranks);
    parts_init(&p, whole, &c);
    sft_job *const job = make(&p);
    count_ways(job);
    run(job, folder, pool, 0);
    for (size_t r = 0; r < p.count && compare; r++) {
        assert_file_is(in_folder(folder, p.names[r]), p.list[r]);
    }
    sft_job_free(job);
    parts_reset(&p);
    cuts_reset(&c);
}

static void every_n_becomes_every_m_and_back(void **state) {
    sft_catalog *whole;
    sft_pool *pool;
    (void)state;
    assert_int_equal(sft_pool_create(&pool, 3, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_open(&whole, in_folder(base, "whole.safetensors"), NULL, NULL),
                     SFT_OK);
    for (uint64_t n = 1; n <= MOST; n++) {
        char from[128];
        char to[128];
        char back[128];
        cuts c;
        joined j;
        (void)snprintf(from, sizeof from, "%s/from", base);
        (void)snprintf(to, sizeof to, "%s/to", base);
        (void)snprintf(back, sizeof back, "%s/back", base);
        reshard(whole, n, from, pool, true);
        cuts_init(&c, n);
        joined_open(&j, from, &c);
        for (uint64_t m = 1; m <= MOST; m++) {
            joined again;
            cuts d;
            reshard(j.whole, m, to, m % 2 == 0 ? pool : NULL, m <= 3 || m == n + 1);
            cuts_init(&d, m);
            joined_open(&again, to, &d);
            reshard(again.whole, n, back, NULL, false);
            for (size_t r = 0; r < n; r++) {
                char name[32];
                (void)snprintf(name, sizeof name, "rank_%u/m.safetensors", (unsigned)r);
                assert_equal_files(in_folder(from, name), in_folder(back, name));
            }
            joined_close(&again);
            cuts_reset(&d);
            folder_remove(to);
            folder_remove(back);
        }
        joined_close(&j);
        cuts_reset(&c);
        folder_remove(from);
    }
    assert_int_equal(ways.whole, 0);
    assert_true(ways.clusters > 0 && ways.several_bands > 0 && ways.runs > 0 &&
                ways.inner_levels > 0);
    sft_catalog_close(whole);
    sft_pool_free(pool);
}

/* ---------------------------------------------------------------- runs that end early */

typedef struct stopping {
    uint64_t at;
} stopping;

static int stop_at(void *ctx, const sft_progress *progress) {
    return progress->bytes_done >= ((const stopping *)ctx)->at;
}

/* What was written before is neither written again nor left out. */
static void a_cancelled_run_goes_on(void **state) {
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    (void)state;
    scene_open(&s, 5);
    for (int durable = 0; durable < 2; durable++) {
        stopping stop = {0};
        const sft_control control = {sizeof control, stop_at, &stop};
        uint64_t kept = 0;
        SFT_INIT(&o);
        o.durability = durable != 0 ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
        o.control = &control;
        for (unsigned part = 1; part < 8; part++) {
            stop.at = s.bytes / 8;
            assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
            assert_int_equal(result.published, 0);
            assert_true(result.bytes_kept >= kept);
            kept = result.bytes_kept;
            assert_false(is_there(s.target));
        }
        assert_true(kept > s.bytes / 4);
        o.control = NULL;
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_true(result.bytes_kept >= kept);
        assert_int_equal(result.bytes_kept + result.bytes_written, s.bytes);
        assert_complete(&s);
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_EXISTS);
        o.flags = SFT_JOB_REPLACE;
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_complete(&s);
        folder_remove(s.target);
    }
    scene_close(&s);
}

/* What the files say of their own tensors is so. */
static void assert_digests(const scene *s, uint32_t digests) {
    for (size_t r = 0; r < s->p.count; r++) {
        sft_verify_options o;
        sft_verify_result result;
        sft_catalog *c;
        sft_error err;
        assert_int_equal(sft_catalog_open(&c, in_folder(s->target, s->p.names[r]), NULL, &err),
                         SFT_OK);
        for (uint32_t kind = SFT_DIGEST_CRC32C; kind <= SFT_DIGEST_SHA256; kind <<= 1) {
            SFT_INIT(&o);
            memset(&result, 0, sizeof result);
            o.digests = kind;
            assert_int_equal(sft_catalog_verify(c, &o, &result, &err),
                             (digests & kind) != 0 ? SFT_OK : SFT_E_NOT_FOUND);
            assert_int_equal(result.checked, (digests & kind) != 0 ? sft_catalog_count(c) : 0);
        }
        sft_catalog_close(c);
    }
}

static sft_job *make_recording(const parts *p, uint32_t digests, sft_status wanted) {
    sft_job_options o;
    sft_job *job;
    sft_error err;
    SFT_INIT(&o);
    o.digests = digests;
    assert_int_equal(sft_job_create(&job, p->files, p->count, &text, 1, &o, &err), wanted);
    return job;
}

static void digests_of_what_was_written(void **state) {
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    sft_pool *pool;
    stopping stop;
    const sft_control control = {sizeof control, stop_at, &stop};
    (void)state;
    scene_open(&s, 6);
    assert_int_equal(sft_pool_create(&pool, 3, NULL, NULL), SFT_OK);
    sft_job_free(make_recording(&s.p, 4, SFT_E_ARG));
    for (uint32_t digests = 0; digests <= (SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256); digests++) {
        sft_job_free(s.job);
        s.job = make_recording(&s.p, digests, SFT_OK);
        SFT_INIT(&o);
        o.durability = SFT_DURABLE_NONE;
        o.pool = digests % 2 != 0 ? pool : NULL;
        o.control = &control;
        stop.at = s.bytes / 4; /* of a run */
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
        }
        o.control = NULL;
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_true(result.bytes_kept > 0);
        assert_digests(&s, digests);
        folder_remove(s.target);
        for (o.tasks = 3, o.task = 3; o.task > 0; o.task--) {
            assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        }
        assert_digests(&s, digests);
        folder_remove(s.target);
    }
    /* units that were written without being looked at are no match for --verify */
    o.tasks = 0;
    o.task = 0;
    o.control = &control;
    stop.at = s.bytes / 2;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
    o.control = NULL;
    o.flags = SFT_JOB_VERIFY;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
    assert_true(result.bytes_kept > 0);
    assert_int_equal(result.bytes_kept + result.bytes_written, s.bytes);
    sft_pool_free(pool);
    scene_close(&s);
}

/* CRC32C of the headers of all files of the target. */
static uint32_t sum_headers(const scene *s) {
    uint32_t crc = 0;
    for (size_t i = 0; i < s->job->count; i++) {
        const size_t size = (size_t)s->job->files[i].header;
        uint8_t *const bytes = malloc(size);
        FILE *const f = fopen(in_folder(s->target, s->job->files[i].given.name), "rb");
        assert_non_null(f);
        assert_int_equal(fread(bytes, 1, size, f), size);
        assert_int_equal(fclose(f), 0);
        crc = sft_crc32c(crc, bytes, size);
        free(bytes);
    }
    return crc;
}

/* Whoever is killed between two of these removals must be seen to have published. Something that
 * cannot be removed stops them at any place among the names, whose order is the file system's. */
static void a_committed_journal_goes_last(void **state) {
    scene s;
    sft__checkpoint_stage stage;
    sft__base_buf journal;
    sft_error err;
    (void)state;
    scene_open(&s, 3);
    run(s.job, s.target, NULL, 0);
    sft__base_buf_init(&journal, NULL);
    sft__checkpoint_journal_begin(s.job, &journal);
    assert_int_equal(sft__checkpoint_stage_init(&stage, s.job, s.target, false, &err), SFT_OK);
    for (unsigned round = 1; round <= 9; round++) {
        char name[40];
        const size_t plain = journal.len;
        for (unsigned i = 1; i <= 9; i++) {
            (void)snprintf(name, sizeof name, ".sft-journal-%u-of-9", i);
            if (i == round) {
                sft__checkpoint_journal_commit(&journal, sum_headers(&s));
            }
            write_file(in_folder(s.target, name), journal.data, journal.len);
            journal.len = plain;
        }
        assert_int_equal(mkdir(in_folder(s.target, ".sft-journal-stays"), 0755), 0);
        assert_true(sft__checkpoint_stage_clean(&stage, s.target, &err) != SFT_OK);
        (void)snprintf(name, sizeof name, ".sft-journal-%u-of-9", round);
        assert_true(is_there(in_folder(s.target, name)));
        assert_int_equal(rmdir(in_folder(s.target, ".sft-journal-stays")), 0);
        run(s.job, s.target, NULL, 0); /* finds it, and removes the rest */
        assert_complete(&s);
    }
    sft__base_buf_reset(&journal);
    sft__checkpoint_stage_reset(&stage);
    scene_close(&s);
}

/* Journals that are torn, of other plans, or speak of sources that have changed. */
static void a_journal_is_believed_only_if_it_fits(void **state) {
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    stopping stop;
    const sft_control control = {sizeof control, stop_at, &stop};
    (void)state;
    scene_open(&s, 4);
    stop.at = s.bytes / 2;
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.control = &control;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
    const char *const journal = in_folder(s.stage, ".sft-journal-1-of-1");
    size_t size;
    char *const whole = slurp(journal, &size);
    o.control = NULL;
    /* cut anywhere: the rest is done again */
    for (size_t cut = 0; cut <= size; cut += cut < 200 ? 40 : 311) {
        write_file(in_folder(s.stage, ".sft-journal-1-of-1"), whole, cut);
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_int_equal(result.bytes_kept + result.bytes_written, s.bytes);
        assert_complete(&s);
        o.control = &control;
        folder_remove(s.target);
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
        o.control = NULL;
    }
    /* a staged file was damaged meanwhile: only --verify sees it */
    o.control = &control;
    o.flags = SFT_JOB_RESTART | SFT_JOB_VERIFY;
    stop.at = s.bytes;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
    const int fd = open(in_folder(s.stage, "rank_1/m.safetensors"), O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = 4096; at < (1 << 20); at += 4096) {
        assert_int_equal(pwrite(fd, "damage", 6, at), 6);
    }
    (void)close(fd);
    o.control = NULL;
    o.flags = SFT_JOB_VERIFY;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
    assert_true(result.bytes_kept > 0 && result.bytes_written > 0);
    assert_complete(&s);
    folder_remove(s.target);
    /* another plan's */
    scene other;
    scene_open(&other, 3);
    o.flags = 0;
    o.control = &control;
    stop.at = s.bytes / 2;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
    o.control = NULL;
    assert_int_equal(try_run(&other, &o, &result, &err), SFT_E_MISMATCH);
    assert_true(is_there(s.stage));
    o.flags = SFT_JOB_RESTART;
    assert_int_equal(try_run(&other, &o, &result, &err), SFT_OK);
    assert_complete(&other);
    free(whole);
    scene_close(&other);
    scene_close(&s);
}

static void sources_may_not_change(void **state) {
    const char *const path = in_folder(base, "whole.safetensors");
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    stopping stop;
    const sft_control control = {sizeof control, stop_at, &stop};
    struct timespec times[2] = {{0, UTIME_OMIT}, {1000000000, 1}};
    uint8_t before[32];
    uint8_t after[32];
    (void)state;
    scene_open(&s, 2);
    sft_job_key(s.job, before);
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.control = &control;
    stop.at = s.bytes / 2;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CANCELLED);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    o.control = NULL;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CHANGED); /* since the job was made */
    assert_non_null(strstr(err.message, "since the job was planned"));
    sft_job_free(s.job);
    s.job = make(&s.p); /* of sources that were opened before */
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CHANGED);
    assert_non_null(strstr(err.message, "was written to while it was read"));
    sft_job_free(s.job);
    parts_reset(&s.p);
    sft_catalog_close(s.whole);
    assert_int_equal(sft_catalog_open(&s.whole, path, NULL, NULL), SFT_OK);
    parts_init(&s.p, s.whole, &s.c);
    s.job = make(&s.p);
    sft_job_key(s.job, after);
    assert_memory_not_equal(before, after, 32);
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CHANGED); /* since the earlier run */
    assert_non_null(strstr(err.message, "since an earlier run"));
    assert_false(is_there(s.target));
    o.flags = SFT_JOB_RESTART;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
    assert_complete(&s);
    scene_close(&s);
}

static void copy_with_times(const char *from, const char *to) {
    struct stat st;
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    char block[65536];
    size_t n;
    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(block, 1, sizeof block, in)) > 0) {
        assert_int_equal(fwrite(block, 1, n, out), n);
    }
    (void)fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(stat(from, &st), 0);
    const struct timespec times[2] = {st.st_mtim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, to, times, 0), 0);
}

/* Begins a job of two ranks, and ends it in the middle. */
static void open_and_stop(scene *s, sft_job_run_options *o) {
    sft_job_result result;
    sft_error err;
    stopping stop = {0};
    const sft_control control = {sizeof control, stop_at, &stop};
    scene_open(s, 2);
    SFT_INIT(o);
    o->durability = SFT_DURABLE_NONE;
    o->control = &control;
    stop.at = s->bytes / 2;
    assert_int_equal(try_run(s, o, &result, &err), SFT_E_CANCELLED);
    o->control = NULL;
}

/* Begins it anew, to the end. */
static void restart(scene *s, sft_job_run_options *o) {
    sft_job_result result;
    sft_error err;
    o->flags = SFT_JOB_RESTART;
    assert_int_equal(try_run(s, o, &result, &err), SFT_OK);
    assert_complete(s);
}

/* A file of the same size and time in the place of a source is another one all the same. */
static void sources_are_files(void **state) {
    char path[PATH_MAX];
    char copy[PATH_MAX];
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/whole.safetensors", base);
    (void)snprintf(copy, sizeof copy, "%s/copy", base);
    copy_with_times(path, copy);
    open_and_stop(&s, &o);
    sft_job_free(s.job);
    parts_reset(&s.p);
    sft_catalog_close(s.whole);
    assert_int_equal(rename(copy, path), 0);
    assert_int_equal(sft_catalog_open(&s.whole, path, NULL, NULL), SFT_OK);
    parts_init(&s.p, s.whole, &s.c);
    s.job = make(&s.p);
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_CHANGED);
    assert_non_null(strstr(err.message, "another file"));
    restart(&s, &o);
    scene_close(&s);
}

/* What is staged may be a link that somebody made: the file behind it stays as it is. */
static void staged_files_have_one_name(void **state) {
    char staged[PATH_MAX];
    char other[PATH_MAX];
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    (void)state;
    open_and_stop(&s, &o);
    (void)snprintf(staged, sizeof staged, "%.200s/.sft-journal-1-of-1", s.stage);
    (void)snprintf(other, sizeof other, "%.200s/precious", base);
    assert_int_equal(link(staged, other), 0);
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_EXISTS);
    assert_non_null(strstr(err.message, "another name"));
    restart(&s, &o);
    assert_true(is_there(other));
    assert_int_equal(unlink(other), 0);
    scene_close(&s);
}

/* Shares of work in any order; whoever is last publishes, or a step of its own. */
static void tasks_add_up(void **state) {
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    (void)state;
    scene_open(&s, 6);
    for (uint32_t tasks = 1; tasks <= 7; tasks += 2) {
        uint64_t written = 0;
        SFT_INIT(&o);
        o.durability = SFT_DURABLE_NONE;
        o.tasks = tasks;
        for (uint32_t i = 0; i < tasks; i++) {
            o.task =
                (i * 3 + 1) % tasks + 1; /* 3 and 7 tasks: i * 3 visits all but for tasks == 3 */
            if (tasks == 3) {
                o.task = 3 - i;
            }
            assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
            assert_int_equal(result.published, i + 1 == tasks);
            written += result.bytes_written;
        }
        assert_int_equal(written, s.bytes);
        assert_complete(&s);
        folder_remove(s.target);
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.flags = SFT_JOB_NO_FINISH;
    o.tasks = 2;
    o.task = 1;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
    sft_job_run_options finish;
    SFT_INIT(&finish);
    finish.durability = SFT_DURABLE_NONE;
    finish.flags = SFT_JOB_FINISH;
    assert_int_equal(try_run(&s, &finish, &result, &err), SFT_E_STATE);
    assert_false(is_there(s.target));
    o.task = 2;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
    assert_int_equal(result.published, 0);
    assert_int_equal(try_run(&s, &finish, &result, &err), SFT_OK);
    assert_complete(&s);
    scene_close(&s);
}

/* While a task is at work, something else happens to the staging folder. */
typedef struct meddling {
    const scene *s;
    uint32_t flags; /* of another run; none of them: the folder is removed */
    sft_status status;
    bool done;
} meddling;

static int meddle(void *ctx, const sft_progress *progress) {
    meddling *const m = ctx;
    sft_job_run_options o;
    sft_job_result result;
    if (m->done || progress->bytes_done < (m->flags != 0 ? 1 : progress->bytes_total)) {
        return 0;
    }
    m->done = true;
    if (m->flags == 0) {
        folder_remove(m->s->stage);
        return 0;
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.flags = m->flags;
    m->status = try_run(m->s, &o, &result, NULL);
    return 0;
}

/* Nobody removes what a task is writing; and if it is done nevertheless, the task says so. */
static void tasks_keep_what_they_write(void **state) {
    const uint32_t flags[] = {SFT_JOB_FINISH, SFT_JOB_RESTART};
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    meddling m = {&s, 0, SFT_OK, false};
    const sft_control control = {sizeof control, meddle, &m};
    (void)state;
    scene_open(&s, 4);
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.tasks = 2;
    for (size_t i = 0; i < 2; i++) {
        m.flags = flags[i];
        m.done = false;
        o.task = 1;
        o.control = &control;
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_true(m.done);
        assert_int_equal(m.status, SFT_E_STATE);
        assert_true(is_there(s.stage));
        o.task = 2;
        o.control = NULL;
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_int_equal(result.published, 1);
        assert_int_equal(result.bytes_kept, 0); /* its own share: the other was kept */
        assert_complete(&s);
        folder_remove(s.target);
    }
    m.flags = 0;
    m.done = false;
    o.control = &control;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_STATE);
    assert_true(m.done && !is_there(s.target));
    assert_non_null(strstr(err.message, "was removed while this task wrote"));
    scene_close(&s);
}

/* A task that restarts does its own share anew, and leaves those of others alone. */
static void tasks_restart(void **state) {
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    uint64_t written = 0;
    (void)state;
    scene_open(&s, 4);
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.flags = SFT_JOB_RESTART;
    o.tasks = 3;
    for (unsigned i = 0; i < 4; i++) { /* the first one twice */
        o.task = i < 2 ? 1 : i;
        assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
        assert_int_equal(result.published, i == 3);
        assert_int_equal(result.bytes_kept, 0);
        written += i > 0 ? result.bytes_written : 0;
    }
    assert_int_equal(written, s.bytes);
    assert_complete(&s);
    scene_close(&s);
}

/* ---------------------------------------------------------------- kills */

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int run_in_child(const scene *s, uint32_t flags) {
    sft_job_run_options o;
    sft_job_result result;
    sft_pool *pool = NULL;
    sft_error err;
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.flags = flags;
    if (sft_pool_create(&pool, 2, NULL, NULL) != SFT_OK) {
        return 2;
    }
    o.pool = pool;
    if (try_run(s, &o, &result, &err) != SFT_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return result.published == 1 ? 0 : 3;
}

/* 200 kills at random times; each run goes on where the one before was. Into a folder that is not
 * there, which appears at once, and over old files, of which the index goes first. */
static void kills_leave_nothing_half(void **state) {
    enum { KILLS = 200 };
    scene s;
    uint32_t seed = 7;
    int killed = 0;
    int finished = 0;
    (void)state;
    scene_open(&s, 5);
    const double began = seconds();
    run(s.job, s.target, NULL, 0);
    const double took = seconds() - began;
    folder_remove(s.target);
    for (int rounds = 0; killed < KILLS && rounds < 50 * KILLS; rounds++) {
        const bool over = finished % 2 == 1; /* what the last one has left is replaced */
        int status = 0;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(run_in_child(&s, over ? SFT_JOB_REPLACE : 0));
        }
        seed = seed * 1664525 + 1013904223;
        (void)usleep((useconds_t)(took * 1.1e6 * (seed >> 8) / (1 << 24)));
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) {
            killed++;
            if (!over && is_there(s.target)) { /* killed after the rename: all is there */
                for (size_t r = 0; r < s.p.count; r++) {
                    assert_equal_files(in_folder(s.target, s.p.names[r]),
                                       in_folder(s.reference, s.p.names[r]));
                }
                if (!is_there(in_folder(s.target, ".sft-journal-1-of-1"))) {
                    assert_complete(&s);
                    finished++;
                }
            }
            if (over && !is_there(in_folder(s.target, text.name))) {
                assert_true(is_there(
                    in_folder(s.target, ".sft-part"))); /* renaming: the next run ends it */
            }
            continue;
        }
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_complete(&s);
        finished++;
        if (finished % 2 == 0) {
            folder_remove(s.target);
        }
    }
    assert_true(killed == KILLS && finished > 0);
    /* and to its end */
    run(s.job, s.target, NULL, SFT_JOB_REPLACE);
    assert_complete(&s);
    scene_close(&s);
}

/* ---------------------------------------------------------------- refusals */

static void what_makes_no_job(void **state) {
    static const char *const names[] = {"",   "/abs",    "../up", "a/../b", "a//b",
                                        "a/", ".hidden", "a/.b",  "a\\b",   "a\nb"};
    sft_catalog *whole;
    sft_job *job;
    sft_error err;
    (void)state;
    assert_int_equal(sft_catalog_open(&whole, in_folder(base, "whole.safetensors"), NULL, NULL),
                     SFT_OK);
    sft_job_file files[2];
    memset(files, 0, sizeof files);
    files[0].catalog = files[1].catalog = whole;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        files[0].name = names[i];
        assert_int_equal(sft_job_create(&job, files, 1, NULL, 0, NULL, &err), SFT_E_PATH);
        assert_null(job);
    }
    files[0].name = files[1].name = "a";
    assert_int_equal(sft_job_create(&job, files, 2, NULL, 0, NULL, &err), SFT_E_DUPLICATE);
    const uint32_t twice[] = {0, 0};
    files[0].tensors = twice;
    files[0].tensor_count = 2;
    assert_int_equal(sft_job_create(&job, files, 1, NULL, 0, NULL, &err), SFT_E_DUPLICATE);
    const uint32_t beyond[] = {99};
    files[0].tensors = beyond;
    files[0].tensor_count = 1;
    assert_int_equal(sft_job_create(&job, files, 1, NULL, 0, NULL, &err), SFT_E_RANGE);
    sft_catalog_close(whole);
}

/* A tensor of two pieces on a small file in memory: a hole, an overlap, and pieces that tile. */
static void pieces_must_tile(void **state) {
    static const uint8_t bytes[64] = {1, 2, 3};
    static const struct {
        uint64_t start[4]; /* of two boxes of 2 x 2 in 4 x 2 */
        sft_status status;
    } cases[] = {{{0, 0, 2, 0}, SFT_OK}, {{0, 0, 1, 0}, SFT_E_OVERLAP}, {{2, 0, 0, 0}, SFT_OK}};
    const uint64_t shape[] = {4, 2};
    const uint64_t count[] = {2, 2};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sft_builder *builder;
        sft_source *source;
        sft_catalog *c;
        sft_job *job;
        sft_error err;
        sft_piece pieces[2];
        sft_tensor t;
        sft_file f;
        uint32_t index;
        assert_int_equal(sft_source_open_memory(&source, bytes, sizeof bytes, NULL, NULL), SFT_OK);
        assert_int_equal(sft_builder_create(&builder, NULL, NULL), SFT_OK);
        assert_int_equal(sft_builder_add_source(builder, source, &index, NULL), SFT_OK);
        sft_zero(&f, sizeof f);
        f.path = "memory";
        f.size = sizeof bytes;
        assert_int_equal(sft_builder_add_file(builder, &f, &index, NULL), SFT_OK);
        sft_zero(pieces, sizeof pieces);
        sft_zero(&t, sizeof t);
        for (size_t k = 0; k < 2; k++) {
            pieces[k].offset = 8 * k;
            pieces[k].start = &cases[i].start[2 * k];
            pieces[k].count = count;
        }
        t.name = "t";
        t.name_len = 1;
        t.dtype = sft_dtype_get(SFT_U8);
        t.shape = shape;
        t.rank = 2;
        t.pieces = pieces;
        t.piece_count = 2;
        assert_int_equal(sft_builder_add_tensor(builder, &t, NULL), SFT_OK);
        t.name = "u";
        t.piece_count = 1;
        if (i == 2) { /* and one with a hole */
            assert_int_equal(sft_builder_add_tensor(builder, &t, NULL), SFT_OK);
        }
        assert_int_equal(sft_builder_finish(&c, builder, NULL), SFT_OK);
        sft_builder_free(builder);
        sft_job_file file = {.name = "a.safetensors", .catalog = c};
        const sft_status status = sft_job_create(&job, &file, 1, NULL, 0, NULL, &err);
        assert_int_equal(status, i == 2 ? SFT_E_HOLE : cases[i].status);
        assert_string_equal(status == SFT_OK ? "" : err.tensor, i == 2 ? "u" : i == 1 ? "t" : "");
        sft_job_free(job);
        sft_catalog_close(c);
    }
}

/* A disk that takes no more: told before, or in the middle, and the target is not there. */
static void no_room_is_told(void **state) {
    scene s;
    sft_job_run_options o;
    sft_job_result result;
    sft_error err;
    struct rlimit old;
    (void)state;
    scene_open(&s, 2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit low = {1 << 20, old.rlim_max};
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_IO);
    assert_int_equal(err.sys, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(is_there(s.target));
    assert_false(is_there(s.stage)); /* nothing was done: nothing is left */
    o.memory_bytes = 1000;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_E_LIMIT);
    assert_false(is_there(s.stage));
    o.memory_bytes = 4 << 20;
    assert_int_equal(try_run(&s, &o, &result, &err), SFT_OK);
    assert_complete(&s);
    scene_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_n_becomes_every_m_and_back),
        cmocka_unit_test(a_cancelled_run_goes_on),
        cmocka_unit_test(digests_of_what_was_written),
        cmocka_unit_test(a_journal_is_believed_only_if_it_fits),
        cmocka_unit_test(a_committed_journal_goes_last),
        cmocka_unit_test(tasks_add_up),
        cmocka_unit_test(tasks_keep_what_they_write),
        cmocka_unit_test(tasks_restart),
        cmocka_unit_test(kills_leave_nothing_half),
        cmocka_unit_test(what_makes_no_job),
        cmocka_unit_test(pieces_must_tile),
        cmocka_unit_test(no_room_is_told),
        cmocka_unit_test(sources_are_files),
        cmocka_unit_test(staged_files_have_one_name),
        cmocka_unit_test(sources_may_not_change), /* last: it changes the model's time */
    };
    folder_make(base);
    save_model(in_folder(base, "whole.safetensors"));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(base);
    return failed;
}
