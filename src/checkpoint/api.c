/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/api.c - the table of <sft/checkpoint_api.h>: for programs that open this library on
 * first use.
 */
#include <sft/checkpoint_api.h>

const sft_checkpoint_api *sft_checkpoint_api_get(void) {
    static const sft_checkpoint_api api = {
        .struct_size = sizeof api,
        .version = SFT_VERSION_STRING,
        .layout_rank_count = sft_layout_rank_count,
        .layout_rank_at = sft_layout_rank_at,
        .layout_holds = sft_layout_holds,
        .layout_is_flat = sft_layout_is_flat,
        .layout_local_shape = sft_layout_local_shape,
        .ms_strategy_write = sft_ms_strategy_write,
        .checkpoint_join = sft_checkpoint_join,
        .checkpoint_part = sft_checkpoint_part,
        .layout_set_open = sft_layout_set_open,
        .layout_set_free = sft_layout_set_free,
        .layout_set_form = sft_layout_set_form,
        .layout_set_ranks = sft_layout_set_ranks,
        .layout_set_strategy = sft_layout_set_strategy,
        .layout_set_learn = sft_layout_set_learn,
        .layout_set_find_part = sft_layout_set_find_part,
        .layout_set_find_whole = sft_layout_set_find_whole,
        .layout_set_count = sft_layout_set_count,
        .layout_set_at = sft_layout_set_at,
        .layout_set_write = sft_layout_set_write,
        .job_create = sft_job_create,
        .job_free = sft_job_free,
        .job_plan = sft_job_plan,
        .job_total = sft_job_total,
        .job_key = sft_job_key,
        .job_run = sft_job_run,
        .checkpoint_kind_name = sft_checkpoint_kind_name,
        .checkpoint_kind_title = sft_checkpoint_kind_title,
        .checkpoint_detect = sft_checkpoint_detect,
        .checkpoint_open = sft_checkpoint_open,
        .checkpoint_close = sft_checkpoint_close,
        .checkpoint_kind_of = sft_checkpoint_kind_of,
        .checkpoint_ranks = sft_checkpoint_ranks,
        .checkpoint_find_part = sft_checkpoint_find_part,
        .checkpoint_layout_path = sft_checkpoint_layout_path,
        .checkpoint_join_ranks = sft_checkpoint_join_ranks,
        .checkpoint_take_whole = sft_checkpoint_take_whole,
        .checkpoint_verify = sft_checkpoint_verify,
        .resume_find = sft_resume_find,
        .resume_at = sft_resume_at,
        .resume_chosen = sft_resume_chosen,
        .resume_free = sft_resume_free,
        .checkpoint_layouts = sft_checkpoint_layouts,
        .names_parse = sft_names_parse,
        .names_shipped = sft_names_shipped,
        .names_shipped_text = sft_names_shipped_text,
        .names_free = sft_names_free,
        .names_apply = sft_names_apply,
        .job_run_group = sft_job_run_group,
        .checkpoint_save_group = sft_checkpoint_save_group,
        .checkpoint_load_group = sft_checkpoint_load_group,
    };
    return &api;
}
