/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/meter.c - see meter.h. The lock is held while the caller's poll runs: it is promised never to
 * run twice at once.
 */
#include "base/thread/meter.h"

sft_status sft__base_control_of(const sft_control *control, const sft_control **out,
                                sft_error *err) {
    *out = NULL;
    if (control != NULL) {
        if (control->struct_size < offsetof(sft_control, ctx) + sizeof control->ctx) {
            return sft__base_fail(err, SFT_E_ARG, "a control without struct_size: use SFT_INIT");
        }
        *out = control->poll != NULL ? control : NULL;
    }
    return SFT_OK;
}

sft_status sft__base_meter_init(sft__base_meter *meter, const sft_control *control, uint64_t total,
                                sft_error *err) {
    memset(meter, 0, sizeof *meter);
    meter->progress.bytes_total = total;
    SFT_TRY(sft__base_control_of(control, &control, err));
    if (control == NULL) {
        return SFT_OK;
    }
    if (!sft__base_mutex_init(&meter->lock)) {
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    meter->control = control;
    return SFT_OK;
}

void sft__base_meter_reset(sft__base_meter *meter) {
    if (meter->control != NULL) {
        sft__base_mutex_reset(&meter->lock);
        meter->control = NULL;
    }
}

sft_status sft__base_meter_add(sft__base_meter *meter, uint64_t bytes, sft_error *err) {
    bool cancelled;

    if (meter->control == NULL) {
        return SFT_OK;
    }
    sft__base_mutex_lock(&meter->lock);
    meter->progress.bytes_done += bytes;
    if (!meter->cancelled && (meter->progress.bytes_done - meter->told >= SFT__METER_STEP ||
                              meter->progress.bytes_done == meter->progress.bytes_total)) {
        meter->told = meter->progress.bytes_done;
        meter->cancelled = meter->control->poll(meter->control->ctx, &meter->progress) != 0;
    }
    cancelled = meter->cancelled;
    sft__base_mutex_unlock(&meter->lock);
    return cancelled ? sft__base_fail(err, SFT_E_CANCELLED, "cancelled by the caller") : SFT_OK;
}
