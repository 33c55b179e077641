/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of folders without an index whose files count themselves (model-00002-of-00004).
 */
#include "unit/cm.h"
#include "unit/folder.h"

#include <sft/sft.h>

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

static sft_status open_flags(sft_catalog **c, const char *name, uint32_t flags, sft_error *err) {
    sft_open_options o;
    SFT_INIT(&o);
    o.flags = flags;
    return sft_catalog_open(c, in_folder(tmp, name), &o, err);
}

/* Names that count: what they count is there, or the first that is not is named. */
static void files_that_count_themselves(void **state) {
    static const struct {
        const char *files;   /* without .safetensors */
        const char *missing; /* NULL: none */
    } rows[] = {
        {"m-00001-of-00002 m-00002-of-00002", NULL},
        {"m-00001-of-00001", NULL},
        {"m-00000-of-00002 m-00001-of-00002", NULL},
        {"m-00002-of-00003 m-00003-of-00003", "m-00001-of-00003"},
        {"m-00001-of-00003 m-00003-of-00003", "m-00002-of-00003"},
        {"m-00001-of-00003 m-00002-of-00003", "m-00003-of-00003"},
        {"m-00000-of-00003 m-00002-of-00003", "m-00001-of-00003"},
        {"m-00001-of-00002", "m-00002-of-00002"},
        {"m-1-of-2 m-2-of-2", NULL},
        {"m-9-of-11 m-1-of-11 m-2-of-11", "m-3-of-11"},
        {"m-1-of-999999999999999999", "m-2-of-999999999999999999"},
        {"m_1_of_2", "m_2_of_2"},
        {"m-1_of_2", "m-2_of_2"},
        {"00001-of-00002", "00002-of-00002"},
        {"m-00001-of-00002.fp16 m-00002-of-00002.fp16", NULL},
        {"m-00001-of-00002 m-00002-of-00002 m-00001-of-00002.fp16", "m-00002-of-00002.fp16"},
        {"a-00001-of-00002 b-00002-of-00002", "a-00002-of-00002"},
        {"m-00001-of-00002 m-00002-of-00002 m-00003-of-00004", "m-00001-of-00004"},
        {"part-2-of-it 3-of-a-kind m-3-of-2 m-of-2 m-1-of- v1-of-2 m-1-of-2x", NULL},
        {"m-1-of-0 m-1-of-9999999999999999999", NULL},
        {"shard-00002-model-00001-of-00004 shard-", NULL}, /* PyTorch's */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char folder[32];
        char path[160];
        char header[80];
        size_t files = 0;
        sft_catalog *c;
        sft_error err;
        (void)snprintf(folder, sizeof folder, "counted%zu", i);
        assert_int_equal(mkdir(in_folder(tmp, folder), 0700), 0);
        for (const char *p = rows[i].files; *p != '\0';) {
            const size_t n = strcspn(p, " ");
            (void)snprintf(path, sizeof path, "%s/%.*s.safetensors", folder, (int)n, p);
            (void)snprintf(header, sizeof header,
                           "{\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                           files++);
            write_tensors(in_folder(tmp, path), header, 1);
            p += n + (p[n] == ' ');
        }
        if (rows[i].missing != NULL) {
            (void)snprintf(path, sizeof path, "%s.safetensors is not there", rows[i].missing);
            assert_int_equal(open_flags(&c, folder, 0, &err), SFT_E_SHARD_MISSING);
            assert_true(strstr(err.message, path) == err.message);
        }
        assert_int_equal(open_flags(&c, folder, SFT_OPEN_INCOMPLETE, &err), SFT_OK);
        assert_int_equal(sft_catalog_count(c), files);
        assert_int_equal(sft_catalog_problem_count(c) != 0, rows[i].missing != NULL);
        if (rows[i].missing != NULL) {
            const sft_problem *p = sft_catalog_problem_at(c, 0);
            assert_int_equal(p->kind, SFT_PROBLEM_MISSING_FILE);
            assert_int_equal(p->fatal, 1);
            assert_memory_equal(p->subject, rows[i].missing, strlen(rows[i].missing));
        }
        sft_catalog_close(c);
        if (rows[i].missing == NULL) {
            assert_int_equal(open_flags(&c, folder, 0, &err), SFT_OK);
            sft_catalog_close(c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_count_themselves),
    };
    return cmocka_run_group_tests_name("counted", tests, setup, teardown);
}
