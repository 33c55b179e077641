/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/layout/layout_ffi.c - what the comparisons with PyTorch, JAX, transformers and MindSpore call by
 * ctypes: the private functions of layouts under names of their own, in a shared library with the whole of
 * libsafetensors-checkpoint.
 */
#include "layout/layout.h"

SFT_API sft_status test_layout_parse_placements(sft_layout **out, const char *text,
                                                const sft__layout_mesh *mesh, size_t dims,
                                                const sft_allocator *allocator, sft_error *err);
SFT_API sft_status test_layout_parse_spec(sft_layout **out, const char *text,
                                          const char *const *names, const sft__layout_mesh *mesh,
                                          size_t dims, sft_error *err);
SFT_API sft_status test_layout_shard_count(const sft_layout *layout, const uint64_t *shape,
                                           size_t dims, uint64_t rank, uint64_t *count,
                                           sft_error *err);
SFT_API sft_status test_layout_shard_at(const sft_layout *layout, const uint64_t *shape,
                                        size_t dims, uint64_t rank, uint64_t index,
                                        const sft__layout_shard *out, sft_error *err);
SFT_API void test_layout_free(sft_layout *layout);

sft_status test_layout_parse_placements(sft_layout **out, const char *text,
                                        const sft__layout_mesh *mesh, size_t dims,
                                        const sft_allocator *allocator, sft_error *err) {
    return sft__layout_parse_placements(out, text, mesh, dims, allocator, err);
}

sft_status test_layout_parse_spec(sft_layout **out, const char *text, const char *const *names,
                                  const sft__layout_mesh *mesh, size_t dims, sft_error *err) {
    sft__layout_mesh named = *mesh;
    named.axis_names = names;
    return sft__layout_parse_spec(out, text, &named, dims, NULL, err);
}

sft_status test_layout_shard_count(const sft_layout *layout, const uint64_t *shape, size_t dims,
                                   uint64_t rank, uint64_t *count, sft_error *err) {
    return sft__layout_shard_count(&(sft__layout_local){layout, shape, dims, rank}, count, err);
}

sft_status test_layout_shard_at(const sft_layout *layout, const uint64_t *shape, size_t dims,
                                uint64_t rank, uint64_t index, const sft__layout_shard *out,
                                sft_error *err) {
    return sft__layout_shard_at(&(sft__layout_local){layout, shape, dims, rank}, index, out, err);
}

void test_layout_free(sft_layout *layout) {
    sft__layout_free(layout);
}
