/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * wing.c - the libraries beside the core (remote, import, checkpoint, CUDA), which the wheel does not carry:
 * each is opened when it is first needed. They work on the same structures as the copy of the library in here,
 * so their version must be the very same. Read core.h first.
 */
#include "core.h"

#include <stdlib.h>

bool core_wing_find(core_state *state, const core_wing *wing, void *getter) {
    const char *given = getenv(wing->variable);
    char why[256] = "";

    if (core_library_symbol(given != NULL && given[0] != '\0' ? given : wing->library, wing->symbol,
                            getter, why, sizeof why)) {
        return true;
    }
    core_raise_text(
        state, SFT_E_UNSUPPORTED, NULL,
        "%s %s, which is no part of this package: install libsafetensors %s with it, or name the "
        "library in %s (%s)",
        wing->needs, wing->name, sft_version(), wing->variable, why);
    return false;
}

bool core_wing_fits(core_state *state, const core_wing *wing, bool large_enough,
                    const char *version) {
    if (large_enough && strcmp(version, sft_version()) == 0) {
        return true;
    }
    core_raise_text(state, SFT_E_UNSUPPORTED, NULL, "%s is version %s, this package is %s",
                    wing->name, version, sft_version());
    return false;
}
