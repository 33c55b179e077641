/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/checkpoint_api.h - the library libsafetensors-checkpoint as a table, for programs that load it on first
 * use (dlopen, dlsym "sft_checkpoint_api_get"). Entries are added at the end only.
 */
#ifndef SFT_CHECKPOINT_API_H
#define SFT_CHECKPOINT_API_H

#include <sft/checkpoint_group.h>
#include <sft/dedupe.h>
#include <sft/names.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each entry is the function of that name, sft_ in front. */
typedef struct sft_checkpoint_api {
    size_t struct_size;
    const char *version; /* sft_version() that it was built with */
    /* sft/layout.h */
    uint64_t (*layout_rank_count)(const sft_layout *);
    sft_status (*layout_rank_at)(const sft_layout *, uint64_t, uint64_t *, sft_error *);
    int (*layout_holds)(const sft_layout *, uint64_t);
    int (*layout_is_flat)(const sft_layout *);
    sft_status (*layout_local_shape)(const sft_layout *, const uint64_t *, size_t, uint64_t,
                                     uint64_t *, sft_error *);
    /* sft/mindspore.h */
    sft_status (*ms_strategy_write)(const sft_ms_strategy *, sft_ms_form, void *, size_t, size_t *,
                                    sft_error *);
    sft_status (*checkpoint_part)(sft_catalog **, const sft_catalog *, uint64_t, sft_layout_find,
                                  void *, const sft_open_options *, sft_error *);
    /* sft/layout_set.h */
    sft_status (*layout_set_open)(sft_layout_set **, const char *, const sft_layout_set_options *,
                                  sft_error *);
    void (*layout_set_free)(sft_layout_set *);
    sft_layout_form (*layout_set_form)(const sft_layout_set *);
    uint64_t (*layout_set_ranks)(const sft_layout_set *);
    const sft_ms_strategy *(*layout_set_strategy)(const sft_layout_set *);
    sft_status (*layout_set_find_whole)(void *, const sft_tensor *, uint64_t, const sft_layout **,
                                        uint64_t *, size_t *, sft_error *);
    size_t (*layout_set_count)(const sft_layout_set *);
    sft_status (*layout_set_at)(const sft_layout_set *, size_t, sft_layout_entry *, sft_error *);
    sft_status (*layout_set_write)(const sft_layout_set *, void *, size_t, size_t *, sft_error *);
    /* sft/job.h */
    sft_status (*job_create)(sft_job **, const sft_job_file *, size_t, const sft_job_text *, size_t,
                             const sft_job_options *, sft_error *);
    void (*job_free)(sft_job *);
    sft_status (*job_plan)(const sft_job *, sft_job_visit, void *, sft_error *);
    void (*job_total)(const sft_job *, sft_job_cost *);
    void (*job_key)(const sft_job *, uint8_t[32]);
    sft_status (*job_run)(const sft_job *, const char *, const sft_job_run_options *,
                          sft_job_result *, sft_error *);
    const char *(*checkpoint_kind_title)(uint32_t);
    sft_status (*checkpoint_detect)(const char *, uint32_t *, sft_error *);
    sft_status (*checkpoint_open)(sft_checkpoint **, const char *, const sft_checkpoint_options *,
                                  sft_error *);
    void (*checkpoint_close)(sft_checkpoint *);
    uint32_t (*checkpoint_kind_of)(const sft_checkpoint *);
    const sft_rank_part *(*checkpoint_ranks)(const sft_checkpoint *, size_t *);
    const char *(*checkpoint_layout_path)(const sft_checkpoint *);
    sft_status (*checkpoint_join_ranks)(sft_catalog **, const sft_checkpoint *,
                                        const sft_open_options *, sft_error *);
    sft_status (*checkpoint_take_whole)(sft_catalog **, sft_checkpoint *, const sft_open_options *,
                                        sft_error *);
    sft_status (*checkpoint_verify)(const sft_checkpoint *, const sft_control *, uint64_t *,
                                    sft_error *);
    sft_status (*resume_find)(sft_resume **, const char *, const sft_checkpoint_options *,
                              sft_error *);
    const sft_resume_step *(*resume_at)(const sft_resume *, size_t);
    const sft_resume_step *(*resume_chosen)(const sft_resume *);
    void (*resume_free)(sft_resume *);
    const sft_layout_set *(*checkpoint_layouts)(const sft_checkpoint *);
    /* sft/names.h */
    sft_status (*names_parse)(sft_names **, const char *, size_t, const sft_allocator *,
                              sft_error *);
    const char *(*names_shipped_text)(const char *);
    void (*names_free)(sft_names *);
    sft_status (*names_apply)(sft_catalog **, const sft_catalog *, const sft_names *,
                              const sft_names_options *, sft_names_result *, sft_error *);
    /* sft/checkpoint_group.h */
    sft_status (*job_run_group)(const sft_job *, const char *, const sft_job_run_options *,
                                const sft_group *, sft_job_result *, sft_error *);
    sft_status (*checkpoint_save_group)(const sft_group *, const char *, const sft_group_tensor *,
                                        size_t, const sft_group_save_options *, sft_group_result *,
                                        sft_error *);
    sft_status (*checkpoint_load_group)(const sft_group *, const char *, const sft_group_tensor *,
                                        size_t, const sft_group_load_options *, sft_group_result *,
                                        sft_error *);
    sft_status (*layout_set_parse)(sft_layout_set **, const void *, size_t, const char *,
                                   const sft_layout_set_options *, sft_error *);
    /* sft/dedupe.h */
    sft_status (*dedupe_create)(sft_dedupe **, const sft_checkpoint *, const sft_dedupe_options *,
                                sft_error *);
    sft_status (*dedupe_expand)(sft_dedupe **, const sft_checkpoint *, const sft_dedupe_options *,
                                sft_error *);
    void (*dedupe_free)(sft_dedupe *);
    const sft_job_file *(*dedupe_files)(const sft_dedupe *, size_t *);
    const sft_job_text *(*dedupe_texts)(const sft_dedupe *, size_t *);
    sft_order (*dedupe_order)(const sft_dedupe *);
    void (*dedupe_total)(const sft_dedupe *, uint64_t *, uint64_t *);
    sft_status (*dedupe_compare)(const sft_dedupe *, const sft_pool *, const sft_control *,
                                 uint64_t *, sft_error *);
    /* sft/checkpoint_open.h */
    const char *(*checkpoint_absent)(const sft_checkpoint *);
    /* sft/layout_set.h */
    sft_status (*layout_set_fit)(const sft_layout_set *, const sft_catalog *, sft_layout_fit *,
                                 sft_error *);
    void (*layout_set_trim)(sft_layout_set *, const sft_catalog *);
    /* sft/mindspore.h */
    sft_status (*ms_crc_num)(const sft_catalog *, size_t, const sft_control *, uint32_t *,
                             sft_error *);
    /* sft/checkpoint_open.h */
    sft_status (*checkpoint_from_ranks)(sft_checkpoint **, const sft_rank_part *, size_t,
                                        sft_layout_set *, sft_error *);
} sft_checkpoint_api;

SFT_API const sft_checkpoint_api *sft_checkpoint_api_get(void);

#ifdef __cplusplus
}
#endif
#endif
