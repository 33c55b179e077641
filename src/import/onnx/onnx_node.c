/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/onnx/onnx_node.c - the names of nodes that stand before what is in them: two nodes of a graph may
 * have one name, their outputs differ. Source: onnx/onnx.proto, NodeProto ("name: an optional
 * identifier"). Read first: onnx.h.
 */
#include "base/memory/need.h"
#include "import/onnx/onnx.h"
#include <stdio.h>

typedef struct sft__import_onnx_place {
    const char *name; /* name, len first for the table */
    size_t len;
    uint32_t index; /* of the node in its graph */
} place;

sft_status sft__import_onnx_node(sft__import_onnx *o, uint32_t index, const char *output,
                                 const char **prefix, sft_error *err) {
    const size_t len = strlen(*prefix);
    const char *name;
    char number[32];
    char *stem;

    SFT_NEED(sft__import_more_named(o->job->allocator, &o->node_names, &o->nodes, &o->node_room,
                                    o->node_count, sizeof *o->nodes),
             o->node_count * sizeof *o->nodes, err);
    const size_t old = sft__base_strmap_find(&o->node_names, *prefix, len);
    if (old == SFT__STRMAP_NONE) {
        o->nodes[o->node_count] = (place){*prefix, len, index};
        (void)sft__base_strmap_add(&o->node_names, o->node_count++);
        return SFT_OK;
    }
    if (o->nodes[old].index == index) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_copy(o->job, &stem, *prefix, len - 1, err));
    (void)snprintf(number, sizeof number, "%u", (unsigned)index);
    SFT_TRY(sft__import_onnx_join(o, stem, "@", output != NULL ? output : number, &name, err));
    return sft__import_onnx_join(o, name, ".", "", prefix, err);
}

void sft__import_onnx_nodes_reset(sft__import_onnx *o) {
    if (o->node_names.slots != NULL) {
        sft__base_strmap_reset(&o->node_names);
    }
    sft__base_free(o->job->allocator, o->nodes, o->node_room * sizeof *o->nodes);
}
