/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * library.c - libsafetensors-cuda, which the wheel does not carry:
 * it is opened when it is first needed. It works on the same structures as the copy of the library in here,
 * so its version must be the very same. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

bool core_library_find(core_state *state, const core_library *library, void *getter) {
    const char *given = getenv(library->variable);
    char why[256] = "";

    if (core_library_symbol(given != NULL && given[0] != '\0' ? given : library->library,
                            library->symbol, getter, why, sizeof why)) {
        return true;
    }
    core_raise_text(
        state, SFT_E_UNSUPPORTED, NULL,
        "%s %s, which is no part of this package: install libsafetensors %s with it, or name the "
        "library in %s (%s)",
        library->needs, library->name, sft_version(), library->variable, why);
    return false;
}

bool core_library_fits(core_state *state, const core_library *library, bool large_enough,
                       const char *version) {
    if (large_enough && strcmp(version, sft_version()) == 0) {
        return true;
    }
    core_raise_text(state, SFT_E_UNSUPPORTED, NULL, "%s is version %s, this package is %s",
                    library->name, version, sft_version());
    return false;
}
