/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/driver.c - finding and starting the CUDA driver, and its errors as ours. See driver.h.
 */
#include "cuda/driver.h"
#include "base/error.h"

#define OLDEST 11000 /* CUDA 11.0: the first with the release of primary contexts that is used */

static const char *const call_names[] = {
#define CALL_NAME(field, symbol, arguments) #field, #symbol,
    SFT__CUDA_CALLS(CALL_NAME)
#undef CALL_NAME
};

static const char *symbol_of(const char *field) {
    for (size_t i = 0; i < sizeof call_names / sizeof call_names[0]; i += 2) {
        if (strcmp(call_names[i], field) == 0) {
            return call_names[i + 1];
        }
    }
    return field;
}

sft_status sft__cuda_fail(const sft__cuda_driver *driver, sft_error *err, int result,
                          const char *call) {
    const char *name = NULL;
    const char *text = NULL;
    sft_status status = SFT_E_IO;

    if (driver->error_name(result, &name) != SFT__CUDA_OK || name == NULL) {
        name = "an unknown result";
    }
    if (driver->error_text(result, &text) != SFT__CUDA_OK || text == NULL) {
        text = "the driver has no text for it";
    }
    if (result == SFT__CUDA_OUT_OF_MEMORY) {
        status = SFT_E_NOMEM;
    } else if (result == SFT__CUDA_NO_DEVICE) {
        status = SFT_E_UNSUPPORTED;
    }
    return sft_error_set(err, status, result, SFT_NO_OFFSET, NULL, 0, "%s failed: %s (%d), %s",
                         symbol_of(call), name, result, text);
}

static const char *find_calls(sft__cuda_driver *d) {
#define FIND_CALL(field, symbol, arguments)                                                        \
    if (!sft__cuda_library_find(d->library, #symbol, &d->field)) {                                 \
        return #symbol;                                                                            \
    }
    SFT__CUDA_CALLS(FIND_CALL)
#undef FIND_CALL
    return NULL;
}

static sft_status start(const sft__cuda_driver *d, sft_error *err) {
    int version = 0;
    const int result = d->init(0);

    if (result != SFT__CUDA_OK) {
        (void)sft__cuda_fail(d, err, result, "init");
        if (err != NULL) {
            err->status = SFT_E_UNSUPPORTED;
        }
        return SFT_E_UNSUPPORTED;
    }
    SFT__CUDA_TRY(d, err, driver_version, (&version));
    if (version < OLDEST) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "the CUDA driver is of version %d.%d, 11.0 is needed", version / 1000,
                              version % 1000 / 10);
    }
    return SFT_OK;
}

sft_status sft__cuda_driver_open(sft__cuda_driver *out, const char *path, sft_error *err) {
    char why[256];
    const char *missing;

    memset(out, 0, sizeof *out);
    out->library = sft__cuda_library_open(path != NULL ? path : "libcuda.so.1", why, sizeof why);
    if (out->library == NULL) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "no CUDA driver: %s", why);
    }
    missing = find_calls(out);
    sft_status status = missing == NULL ? start(out, err)
                                        : sft__base_fail(err, SFT_E_UNSUPPORTED,
                                                         "the CUDA driver has no %s", missing);
    if (status != SFT_OK) {
        sft__cuda_driver_close(out);
    }
    return status;
}

void sft__cuda_driver_close(sft__cuda_driver *driver) {
    sft__cuda_library_close(driver->library);
    driver->library = NULL;
}
