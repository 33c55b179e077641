/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/other_name.c - what another name shows: all of its tensor, or a part of it. See other_name.h.
 */
#include "cli/operands/other_name.h"
#include <string.h>

static bool shows_all(const sft_tensor *of, const sft_tensor *t) {
    if (t == of || t == NULL) {
        return t == of;
    }
    return t->dtype->id == of->dtype->id && t->rank == of->rank && t->nbytes == of->nbytes &&
           t->pieces[0].strides == of->pieces[0].strides &&
           (of->rank == 0 || memcmp(t->shape, of->shape, of->rank * sizeof *of->shape) == 0);
}

cli_other_name cli_other_name_at(const sft_catalog *catalog, size_t index) {
    cli_other_name o;

    o.name = sft_catalog_alias_at(catalog, index, &o.len, &o.index);
    o.whole = sft_catalog_at(catalog, o.index);
    o.shows = sft_catalog_find(catalog, o.name, o.len);
    o.part = !shows_all(o.whole, o.shows);
    return o;
}
