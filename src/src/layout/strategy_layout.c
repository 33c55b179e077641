/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy_layout.c - what a MindSpore parameter's entry means. Axis m of a tensor map
 * counts from the right end of the device matrix. Optimizer sharding cuts dimension 0 further, by
 * axes that replicate, taken from the right until their product is the wanted number
 * (_construct_tensor_layout_for_opt_shard of mindspore/parallel/_tensor.py); it is then simply one
 * more factor of that dimension.
 */
#include "base/checked.h"
#include "base/error.h"
#include "layout/strategy.h"

#define MAX_FACTORS ((size_t)SFT__LAYOUT_AXES)

static sft_status refuse(const sft__layout_ms_param *p, sft_status status, const char *what,
                         sft_error *err) {
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, p->name, p->name_len, "%s", what);
}

static sft_status count_devices(const sft__layout_ms_param *p, uint64_t *devices, sft_error *err) {
    uint64_t n = 1;
    if (p->axis_count > SFT__LAYOUT_AXES || p->dims > SFT_LAYOUT_RANK) {
        return refuse(p, SFT_E_LIMIT, "more mesh axes or dimensions than a layout can have", err);
    }
    for (size_t i = 0; i < p->axis_count; i++) {
        if (p->dev_matrix[i] == 0 || !sft__base_mul64(n, p->dev_matrix[i], &n) ||
            n > UINT64_C(1) << 31) {
            return refuse(p, SFT_E_SCHEMA, "device matrix of no possible mesh", err);
        }
    }
    *devices = n;
    return SFT_OK;
}

/* ---------------------------------------------------------------- optimizer sharding */

typedef struct opt_shard {
    sft__layout_factor factors[SFT__LAYOUT_AXES]; /* left to right */
    size_t count;
} opt_shard;

static bool axis_is_used(const sft__layout_ms_param *p, size_t axis) {
    const uint32_t m = (uint32_t)(p->axis_count - 1 - axis);
    for (size_t i = 0; i < p->map_at[p->dims]; i++) {
        if (p->map[i] == m) {
            return true;
        }
    }
    return false;
}

/* How many ways dimension 0 is cut further. */
static sft_status opt_size(const sft__layout_ms_param *p, uint64_t devices, uint64_t *size,
                           sft_error *err) {
    const uint64_t step = p->opt_shard_step > 0 ? (uint64_t)p->opt_shard_step : 0;
    if (p->opt_shard_size < -1) {
        return refuse(p, SFT_E_SCHEMA, "optimizer shard size below -1", err);
    }
    if (step == 0 && p->opt_shard_size !=
                         0) { /* MindSpore does not shard then, and takes the shape for sharded */
        return refuse(p, SFT_E_SCHEMA, "optimizer shard size without a step", err);
    }
    if (p->opt_shard_size == -1) { /* all that the tensor map leaves */
        *size = devices;
        for (size_t i = 0; i < p->axis_count; i++) {
            *size /= axis_is_used(p, i) ? p->dev_matrix[i] : 1;
        }
        return SFT_OK;
    }
    *size = (uint64_t)p->opt_shard_size;
    return SFT_OK;
}

/* With one replicated axis the group's step is what lies to the right of it. */
static sft_status check_step(const sft__layout_ms_param *p, size_t replicated, size_t axis,
                             sft_error *err) {
    uint64_t right = 1;
    for (size_t i = axis + 1; i < p->axis_count; i++) {
        right *= p->dev_matrix[i];
    }
    if (replicated == 1 && (p->opt_shard_step < 0 || right != (uint64_t)p->opt_shard_step)) {
        return sft__base_fail_tensor(err, SFT_E_SCHEMA, SFT_NO_OFFSET, p->name, p->name_len,
                                     "optimizer shard step is %d, the mesh needs %llu",
                                     p->opt_shard_step, (unsigned long long)right);
    }
    return SFT_OK;
}

/* A tensor that no axis cuts is sharded by device numbers, whatever the axes: device / step % size.
 */
bool sft__layout_ms_ignores_axes(const sft__layout_ms_param *p) {
    for (size_t i = 0; i < p->axis_count; i++) {
        if (p->dev_matrix[i] == 1) {
            return false;
        }
    }
    return p->map_at[p->dims] == 0 && p->axis_count > 0 && p->opt_shard_step > 0 &&
           p->opt_shard_size != 0;
}

static sft_status shard_by_number(const sft__layout_ms_param *p, uint64_t devices, uint64_t wanted,
                                  opt_shard *out, sft_error *err) {
    uint64_t group;
    if (!sft__base_mul64((uint64_t)p->opt_shard_step, wanted, &group) || group == 0 ||
        devices % group != 0) {
        return refuse(p, SFT_E_SCHEMA, "optimizer shard size and step do not divide the devices",
                      err);
    }
    sft_zero(&out->factors[0], sizeof out->factors[0]);
    out->factors[0].divisor = (uint64_t)p->opt_shard_step;
    out->factors[0].size = wanted;
    out->count = 1;
    return SFT_OK;
}

static sft_status find_opt_shard(const sft__layout_ms_param *p, uint64_t devices, opt_shard *out,
                                 sft_error *err) {
    uint64_t wanted = 0;
    size_t replicated = 0;
    size_t last = 0;
    out->count = 0;
    SFT_TRY(opt_size(p, devices, &wanted, err));
    if (wanted <= 1) {
        return SFT_OK;
    }
    for (size_t i = 0; i < p->axis_count; i++) {
        if (p->dev_matrix[i] > 1 && !axis_is_used(p, i)) {
            replicated++;
            last = i;
        }
    }
    if (replicated == 0 || p->dims == 0) {
        return refuse(p, SFT_E_SCHEMA, "optimizer sharding without a replicated axis", err);
    }
    if (sft__layout_ms_ignores_axes(p)) {
        return shard_by_number(p, devices, wanted, out, err);
    }
    SFT_TRY(check_step(p, replicated, last, err));
    for (size_t i = p->axis_count; i-- > 0 && wanted > 1;) {
        if (p->dev_matrix[i] == 1 || axis_is_used(p, i)) {
            continue;
        }
        const uint64_t size = wanted < p->dev_matrix[i] ? wanted : p->dev_matrix[i];
        if (wanted % size != 0 || p->dev_matrix[i] % size != 0) {
            break;
        }
        sft__layout_factor *const f = &out->factors[SFT__LAYOUT_AXES - 1 - out->count++];
        f->axis = (uint32_t)i;
        f->reserved = 0;
        f->divisor = 1; /* the minor part of the axis */
        f->size = size;
        wanted /= size;
    }
    if (wanted != 1) {
        return refuse(p, SFT_E_SCHEMA, "optimizer shard size is no product of replicated axes",
                      err);
    }
    memmove(out->factors, out->factors + SFT__LAYOUT_AXES - out->count,
            out->count * sizeof *out->factors);
    return SFT_OK;
}

/* ---------------------------------------------------------------- the layout */

static sft_status fill_cuts(const sft__layout_ms_param *p, const opt_shard *opt,
                            sft__layout_factor *factors, sft__layout_cut *cuts, sft_error *err) {
    size_t n = 0;
    if (p->map_at[p->dims] + opt->count > MAX_FACTORS) {
        return refuse(p, SFT_E_SCHEMA, "tensor map has more entries than the mesh has axes", err);
    }
    for (size_t d = 0; d < p->dims; d++) {
        sft_zero(&cuts[d], sizeof cuts[d]);
        cuts[d].factors = factors + n;
        for (size_t i = p->map_at[d]; i < p->map_at[d + 1]; i++) {
            sft_zero(&factors[n], sizeof factors[n]);
            factors[n++].axis = (uint32_t)(p->axis_count - 1 - p->map[i]);
        }
        for (size_t i = 0; d == 0 && i < opt->count; i++) {
            factors[n++] = opt->factors[i];
        }
        cuts[d].factor_count = n - (size_t)(cuts[d].factors - factors);
    }
    if (p->split_count != 0) {
        if (p->dims == 0) {
            return refuse(p, SFT_E_SCHEMA, "a scalar cut by hand", err);
        }
        cuts[0].split = SFT__SPLIT_SIZES;
        cuts[0].sizes = p->split_rows;
        cuts[0].size_count = p->split_count;
    }
    return SFT_OK;
}

sft_status sft__layout_ms_layout(sft_layout **out, const sft__layout_ms_param *param,
                                 const sft_allocator *allocator, sft_error *err) {
    sft__layout_factor factors[SFT__LAYOUT_AXES];
    sft__layout_cut cuts[SFT_LAYOUT_RANK];
    opt_shard opt;
    sft__layout_mesh mesh;
    sft_error why;
    uint64_t devices;
    *out = NULL;
    if (param->field > 0) {
        return refuse(param, SFT_E_UNSUPPORTED,
                      "merged embeddings (\"field\" of old MindSpore versions) are not supported",
                      err);
    }
    SFT_TRY(count_devices(param, &devices, err));
    SFT_TRY(find_opt_shard(param, devices, &opt, err));
    SFT_TRY(fill_cuts(param, &opt, factors, cuts, err));
    sft_zero(&mesh, sizeof mesh);
    const bool by_number = sft__layout_ms_ignores_axes(param);
    mesh.axes = by_number ? &devices : param->dev_matrix;
    mesh.axis_count = by_number ? 1 : param->axis_count;
    mesh.first_rank = param->stage * devices; /* below 2^32 * 2^31 */
    const sft_status status = sft__layout_create(out, &mesh, cuts, param->dims, allocator, &why);
    if (status != SFT_OK) {
        return sft__base_fail_tensor(err, status == SFT_E_ARG ? SFT_E_SCHEMA : status,
                                     SFT_NO_OFFSET, param->name, param->name_len, "%s",
                                     why.message);
    }
    return SFT_OK;
}

sft_status sft__layout_ms_full_shape(const sft__layout_ms_param *param, const uint64_t *local,
                                     size_t dims, uint64_t *full, sft_error *err) {
    uint64_t devices;
    opt_shard opt;
    SFT_TRY(count_devices(param, &devices, err));
    SFT_TRY(find_opt_shard(param, devices, &opt, err));
    if (dims != param->dims) {
        return sft__base_fail_tensor(err, SFT_E_SHAPE, SFT_NO_OFFSET, param->name, param->name_len,
                                     "tensor of %llu dimensions, the strategy says %llu",
                                     (unsigned long long)dims, (unsigned long long)param->dims);
    }
    for (size_t d = 0; d < dims; d++) {
        uint64_t n = local[d];
        bool ok = true;
        for (size_t i = param->map_at[d]; i < param->map_at[d + 1]; i++) {
            ok = ok &&
                 sft__base_mul64(n, param->dev_matrix[param->axis_count - 1 - param->map[i]], &n);
        }
        for (size_t i = 0; d == 0 && i < opt.count; i++) {
            ok = ok && sft__base_mul64(n, opt.factors[i].size, &n);
        }
        if (d == 0 && param->split_count != 0) {
            n = 0;
            for (size_t i = 0; i < param->split_count; i++) {
                ok = ok && sft__base_add64(n, param->split_rows[i], &n);
            }
        }
        if (!ok) {
            return refuse(param, SFT_E_OVERFLOW, "size of the full tensor overflows 64 bits", err);
        }
        full[d] = n;
    }
    return SFT_OK;
}
