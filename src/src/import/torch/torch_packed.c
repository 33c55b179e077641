/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_packed.c - types of PyTorch of which several values share a byte. float4_e2m1fn_x2
 * counts bytes, as safetensors' F4 does not; quint4x2 and quint2x4 count values and are taken as the
 * bytes that they lie in. Read first: torch.h.
 */
#include "base/checked.h"
#include "import/torch/torch.h"

bool sft__import_torch_is_whole(const sft__import_view *v) {
    uint64_t stride = v->dtype->block_bytes;

    for (uint32_t d = v->rank; d-- > 0;) {
        if (v->shape[d] > 1 && (uint64_t)v->strides[d] != stride) {
            return false;
        }
        if (!sft__base_mul64(stride, v->shape[d], &stride)) {
            return false;
        }
    }
    return true;
}

static bool is_empty(const sft__import_view *v) {
    for (uint32_t d = 0; d < v->rank; d++) {
        if (v->shape[d] == 0) {
            return true;
        }
    }
    return false;
}

sft_status sft__import_torch_packed_check(const sft__import_view *v, sft_error *err) {
    const uint32_t values = v->dtype->block_elements;

    if (values == 1) {
        return SFT_OK;
    }
    if (v->rank == 0) {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "torch-packed: a scalar of PyTorch's %u values in a byte has no shape in "
            "%s",
            (unsigned)values, v->dtype->name);
    }
    if (!is_empty(v) && !sft__import_torch_is_whole(v)) {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "torch-packed: a view of %s, %u values in a byte, that is not contiguous",
            v->dtype->name, (unsigned)values);
    }
    if (v->shape[v->rank - 1] > UINT64_MAX / values) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "torch-packed: the last dimension overflows");
    }
    return SFT_OK;
}

void sft__import_torch_shape(const sft__import_view *v, uint64_t *shape) {
    if (v->rank != 0) {
        memcpy(shape, v->shape, v->rank * sizeof *shape);
        shape[v->rank - 1] *= v->dtype->block_elements; /* checked */
    }
}

sft_status sft__import_torch_packed_bytes(sft__import_view *v, uint64_t offset, uint64_t *strides,
                                          uint32_t values, sft_error *err) {
    uint64_t want = 1;

    if (v->rank == 0 || v->shape[v->rank - 1] % values != 0) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "torch-packed: %u values share a byte, and the last dimension is no "
                              "multiple of it",
                              (unsigned)values);
    }
    for (uint32_t d = v->rank; d-- > 0;) {
        if (offset != 0 || (v->shape[d] > 1 && strides[d] != want) ||
            !sft__base_mul64(want, v->shape[d], &want)) {
            return sft__base_fail(err, SFT_E_UNSUPPORTED,
                                  "torch-packed: a part of a tensor of %u values in a byte",
                                  (unsigned)values);
        }
    }
    v->shape[v->rank - 1] /= values;
    want = 1;
    for (uint32_t d = v->rank; d-- > 0;) {
        strides[d] = want;
        want *= v->shape[d]; /* less than before */
    }
    return SFT_OK;
}
