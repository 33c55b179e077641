/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_bind.c - entries of a layout set out of a few numbers: for each tensor of a
 * model, the stages that have it and the dimension that is cut. Of ranks that are there it takes the stages
 * from who holds what. Read checkpoint/layouts/parallel.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/parallel.h"
#include "checkpoint/layouts/parallel_facts.h"
#include <string.h>

#define SHOWN 3u /* names in a message */

typedef struct maker {
    sft_layout_set *set;
    const sft__checkpoint_parallel *p;
    sft__checkpoint_facts facts;
    uint64_t devices; /* of a stage */
    bool local;       /* shapes are those of a rank's part */
    bool head;        /* there is an output; then: something of the first stage, of the last one */
    bool first;
    bool last;
    bool tied;           /* the last stage needs the embeddings, too */
    bool unsure;         /* or nobody knows */
    bool lacks;          /* not all of the model is there */
    const char *unknown; /* nor known by name: a sentence, or NULL */
    uint64_t last_layer;
    uint64_t last_stage;
    size_t *stage_meshes;  /* of each stage: index + 1, or 0 */
    size_t *expert_meshes; /* ep of them for each stage, or one where experts are stacked */
    size_t *stack_meshes;
    sft_error *err;
} maker;

/* A tensor and where it goes. */
typedef struct item {
    const sft_tensor *t;
    sft__checkpoint_role role;
    uint64_t stage;
    uint64_t group; /* of experts: rank of a stage % ep */
} item;

/* ---------------------------------------------------------------- meshes */

static const char axis_dp[] = "dp";
static const char axis_cp[] = "cp";
static const char axis_tp[] = "tp";
static const char axis_ep[] = "ep";

static sft_status name_mesh(maker *m, sft__checkpoint_lset_mesh *mesh, uint64_t stage,
                            const char *what, uint64_t group) {
    sft__base_buf b;
    if (m->p->pp == 1 && what[0] == '\0') {
        mesh->name = "";
        return SFT_OK;
    }
    sft__base_buf_init(&b, m->set->allocator);
    sft__base_buf_text(&b, "stage");
    sft__base_buf_u64(&b, stage);
    sft__base_buf_text(&b, what);
    if (group != UINT64_MAX) {
        sft__base_buf_u64(&b, group);
    }
    mesh->name_len = b.len;
    const sft_status status =
        b.failed ? sft__base_fail_nomem(m->err, b.len)
                 : sft__checkpoint_lset_copy(m->set, &mesh->name, b.data, b.len, m->err);
    sft__base_buf_reset(&b);
    return status;
}

/* A mesh of up to three axes; those of one rank are left out where they may be. */
static sft_status new_mesh(maker *m, size_t *index, sft__checkpoint_lset_mesh **out, size_t axes) {
    sft__checkpoint_lset_mesh *mesh;
    uint64_t *sizes;
    const char **names;
    SFT_TRY(sft__checkpoint_lset_take(m->set, &sizes, axes, sizeof *sizes, m->err));
    SFT_TRY(sft__checkpoint_lset_take(m->set, &names, axes, sizeof *names, m->err));
    SFT_TRY(sft__checkpoint_lset_add_mesh(m->set, &mesh, m->err));
    mesh->mesh.axes = sizes;
    mesh->mesh.axis_names = names;
    mesh->mesh.axis_count = axes;
    *index = m->set->mesh_count;
    *out = mesh;
    return SFT_OK;
}

static void set_axis(sft__checkpoint_lset_mesh *mesh, size_t i, const char *name, uint64_t size) {
    ((const char **)(uintptr_t)mesh->mesh.axis_names)[i] = name;
    ((uint64_t *)(uintptr_t)mesh->mesh.axes)[i] = size;
}

/* dp, cp if there is any, tp. */
static sft_status stage_mesh(maker *m, uint64_t stage, size_t *index) {
    sft__checkpoint_lset_mesh *mesh;
    size_t *const at = &m->stage_meshes[stage];
    if (*at == 0) {
        const size_t axes = m->p->cp > 1 ? 3 : 2;
        SFT_TRY(new_mesh(m, at, &mesh, axes));
        set_axis(mesh, 0, axis_dp, m->p->dp);
        set_axis(mesh, 1, axis_cp, m->p->cp);
        set_axis(mesh, axes - 1, axis_tp, m->p->tp);
        mesh->mesh.first_rank = stage * m->devices;
        SFT_TRY(name_mesh(m, mesh, stage, "", UINT64_MAX));
        SFT_TRY(sft__checkpoint_lset_mesh_done(m->set, mesh, SFT_NO_OFFSET, m->err));
    }
    *index = *at - 1;
    return SFT_OK;
}

/* The ranks of a stage that have the experts of one group: every ep-th. */
static sft_status expert_mesh(maker *m, uint64_t stage, uint64_t group, size_t *index) {
    sft__checkpoint_lset_mesh *mesh;
    size_t *const at = &m->expert_meshes[stage * m->p->ep + group];
    if (*at == 0) {
        const uint64_t n = m->devices / m->p->ep;
        uint64_t *ranks;
        SFT_TRY(new_mesh(m, at, &mesh, 1));
        SFT_TRY(sft__checkpoint_lset_take(m->set, &ranks, (size_t)n, sizeof *ranks, m->err));
        for (uint64_t i = 0; i < n; i++) {
            ranks[i] = stage * m->devices + i * m->p->ep + group;
        }
        set_axis(mesh, 0, axis_dp, n);
        mesh->mesh.ranks = ranks;
        SFT_TRY(name_mesh(m, mesh, stage, "-experts", group));
        SFT_TRY(sft__checkpoint_lset_mesh_done(m->set, mesh, SFT_NO_OFFSET, m->err));
    }
    *index = *at - 1;
    return SFT_OK;
}

/* All ranks of a stage, cut among experts: for tensors that hold all of these. */
static sft_status stack_mesh(maker *m, uint64_t stage, size_t *index) {
    sft__checkpoint_lset_mesh *mesh;
    size_t *const at = &m->stack_meshes[stage];
    if (*at == 0) {
        SFT_TRY(new_mesh(m, at, &mesh, 2));
        set_axis(mesh, 0, axis_dp, m->devices / m->p->ep);
        set_axis(mesh, 1, axis_ep, m->p->ep);
        mesh->mesh.first_rank = stage * m->devices;
        SFT_TRY(name_mesh(m, mesh, stage, "-experts", UINT64_MAX));
        SFT_TRY(sft__checkpoint_lset_mesh_done(m->set, mesh, SFT_NO_OFFSET, m->err));
    }
    *index = *at - 1;
    return SFT_OK;
}

/* ---------------------------------------------------------------- cuts */

/* One dimension by one axis. */
typedef struct cutting {
    bool any;
    size_t dim;
    uint32_t axis;
    uint64_t parts;
    uint64_t block_parts;
    const uint64_t *blocks;
    size_t block_count;
} cutting;

static sft_status check_heads(const maker *m, const item *it) {
    const bool key = it->role.heads == SFT__HEADS_KEY;
    const uint64_t heads = key ? m->facts.key_heads : m->facts.heads;
    if (it->role.heads == SFT__HEADS_NONE || m->p->tp == 1 ||
        (it->role.cut == SFT__CUT_TURNS && m->facts.latent)) {
        return SFT_OK;
    }
    if (heads == 0) {
        return m->local && it->role.cut != SFT__CUT_QKV
                   ? SFT_OK
                   : SFT_FAIL_TENSOR(m->err, SFT_E_NOT_FOUND, it->t,
                                     "num_attention_heads is not known: the model's config.json is "
                                     "needed to cut by heads");
    }
    if (heads % m->p->tp != 0) {
        return SFT_FAIL_TENSOR(
            m->err, SFT_E_SHAPE, it->t, "%llu heads%s (%s) do not divide among tp %llu",
            (unsigned long long)heads, key ? " of keys and values" : "",
            key ? "num_key_value_heads" : "num_attention_heads", (unsigned long long)m->p->tp);
    }
    return SFT_OK;
}

/* Rows of queries, keys and values, one after the other; of a part its own are the tp-th of them. */
static sft_status qkv_blocks(maker *m, const item *it, cutting *c) {
    uint64_t *blocks;
    uint64_t rows = it->t->shape[0];
    const uint64_t all = m->facts.heads + 2 * m->facts.key_heads; /* each below 2^31 */
    if (m->local && !sft__base_mul64(rows, m->p->tp, &rows)) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_OVERFLOW, it->t, "size overflows 64 bits");
    }
    if (all == 0 || rows % all != 0) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_SHAPE, it->t,
                               "%llu rows are no whole heads: num_attention_heads %llu, "
                               "num_key_value_heads %llu",
                               (unsigned long long)rows, (unsigned long long)m->facts.heads,
                               (unsigned long long)m->facts.key_heads);
    }
    SFT_TRY(sft__checkpoint_lset_take(m->set, &blocks, 3, sizeof *blocks, m->err));
    blocks[0] = rows / all * m->facts.heads;
    blocks[1] = rows / all * m->facts.key_heads;
    blocks[2] = blocks[1];
    c->blocks = blocks;
    c->block_count = 3;
    return SFT_OK;
}

/* transformers and MindFormers 2.x cut embeddings and output; MindFormers 1.x where there are stages. */
static bool cuts_vocabulary(const maker *m) {
    if (m->p->vocab != SFT__CHOICE_OPEN) {
        return m->p->vocab == SFT__CHOICE_YES;
    }
    return !m->facts.legacy || m->p->pp > 1;
}

/* How many experts there are in one tensor, by the numbers, against config.json or the router. */
static sft_status check_experts(const maker *m, const item *it) {
    const bool flat = it->role.cut == SFT__CUT_STACK_EXPERT; /* [experts * x, y] */
    const uint64_t inner = m->facts.expert_inner;
    uint64_t rows = it->t->rank != 0 ? it->t->shape[0] : 0;
    if (m->facts.experts == 0 || (flat && (m->facts.hidden == 0 || inner == 0))) {
        return SFT_OK;
    }
    if (m->local && !sft__base_mul64(rows, m->p->ep, &rows)) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_OVERFLOW, it->t, "size overflows 64 bits");
    }
    const uint64_t experts = m->facts.experts; /* at most 2^20, the others 2^30 */
    if (flat ? rows != experts * m->facts.hidden && rows != experts * inner : rows != experts) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_MISMATCH, it->t,
                               "%llu rows%s, and config.json or the router has %llu experts: the "
                               "numbers or config.json are another model's",
                               (unsigned long long)rows, m->local ? " by these numbers" : "",
                               (unsigned long long)experts);
    }
    return SFT_OK;
}

/* transformers' form of several experts: other models have it transposed under the same name. */
static sft_status check_stack(const maker *m, const item *it) {
    const size_t hidden = it->role.cut == SFT__CUT_STACK_IN ? 2 : 1;
    if (it->role.cut != SFT__CUT_STACK_EXPERT && it->t->rank != 3) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_SHAPE, it->t,
                               "of %u dimensions; experts in one tensor have 3", it->t->rank);
    }
    SFT_TRY(check_experts(m, it));
    if (it->role.cut == SFT__CUT_STACK_EXPERT || m->p->ep > 1 || m->p->tp == 1) {
        return SFT_OK; /* no other dimension is cut */
    }
    if (m->facts.hidden == 0) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_NOT_FOUND, it->t,
                               "hidden_size is not known, which tells the dimension that is cut: "
                               "the model's config.json is needed");
    }
    if (it->t->shape[hidden] != m->facts.hidden ||
        (!m->local && m->p->tp > 1 && it->t->shape[3 - hidden] == m->facts.hidden)) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_SHAPE, it->t,
                               "dimension %u of its %llu and %llu is not hidden_size %llu for "
                               "sure: not known which one is cut",
                               (unsigned)hidden, (unsigned long long)it->t->shape[1],
                               (unsigned long long)it->t->shape[2],
                               (unsigned long long)m->facts.hidden);
    }
    return SFT_OK;
}

/* Which dimension the role cuts by tp. */
static sft_status choose_cut(maker *m, const item *it, cutting *c) {
    const bool bias = it->role.is_bias;
    switch (it->role.cut) {
    case SFT__CUT_WHOLE:
    case SFT__CUT_STACK_EXPERT:
        return SFT_OK;
    case SFT__CUT_ROW:
        c->any = !bias;
        c->dim = 1;
        return SFT_OK;
    case SFT__CUT_VOCABULARY:
        c->any = cuts_vocabulary(m);
        return SFT_OK;
    case SFT__CUT_STACK_OUT:
        c->any = true;
        c->dim = 2;
        return SFT_OK;
    case SFT__CUT_STACK_IN:
        c->any = true;
        c->dim = 1;
        c->block_parts = 2;
        return SFT_OK;
    case SFT__CUT_GATE_UP:
        c->block_parts = 2;
        break;
    case SFT__CUT_FC1:
        c->block_parts = m->facts.gate_then_up ? 2 : 0;
        break;
    case SFT__CUT_TURNS:
        c->any = !m->facts.latent;
        return SFT_OK;
    case SFT__CUT_QKV:
    case SFT__CUT_COLUMN:
    case SFT__CUT_LATENT:
        break;
    }
    c->any = true;
    return SFT_OK;
}

static sft_status check_divides(const maker *m, const item *it, const cutting *c) {
    if (c->dim >= it->t->rank) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_SHAPE, it->t,
                               "of %u dimensions, and dimension %u is to be cut", it->t->rank,
                               (unsigned)c->dim);
    }
    const uint64_t n = it->t->shape[c->dim];
    const uint64_t blocks = c->block_parts != 0 ? c->block_parts : 1;
    if (!m->local && (n % blocks != 0 || n / blocks % c->parts != 0)) {
        return SFT_FAIL_TENSOR(
            m->err, SFT_E_SHAPE, it->t, "dimension %u of size %llu%s does not divide among %s %llu",
            (unsigned)c->dim, (unsigned long long)n, blocks == 2 ? ", gate and up," : "",
            c->axis == 1 && m->p->ep == c->parts && sft__checkpoint_is_stack(it->role.cut) ? "ep"
                                                                                           : "tp",
            (unsigned long long)c->parts);
    }
    return SFT_OK;
}

/* The mesh of the tensor on this stage, and what is cut there. */
static sft_status place(maker *m, const item *it, size_t *mesh, cutting *c) {
    memset(c, 0, sizeof *c);
    SFT_TRY(check_heads(m, it));
    if (m->p->ep > 1 && it->role.expert != UINT64_MAX) { /* whole where it is */
        return expert_mesh(m, it->stage, it->group, mesh);
    }
    if (sft__checkpoint_is_stack(it->role.cut)) {
        SFT_TRY(check_stack(m, it));
    }
    if (sft__checkpoint_is_stack(it->role.cut) && m->p->ep > 1) {
        c->any = true;
        c->axis = 1;
        c->parts = m->p->ep;
        SFT_TRY(stack_mesh(m, it->stage, mesh));
        return check_divides(m, it, c);
    }
    SFT_TRY(stage_mesh(m, it->stage, mesh));
    SFT_TRY(choose_cut(m, it, c));
    c->axis = (uint32_t)m->set->meshes[*mesh].mesh.axis_count - 1;
    c->parts = m->p->tp;
    c->any = c->any && c->parts > 1;
    if (!c->any) {
        c->block_parts = 0;
        return SFT_OK;
    }
    SFT_TRY(check_divides(m, it, c));
    return it->role.cut == SFT__CUT_QKV ? qkv_blocks(m, it, c) : SFT_OK;
}

/* ---------------------------------------------------------------- optimizer sharding */

/* Dimension 0 by all axes that the cut leaves; MindSpore leaves a tensor alone that is small, or does not
 * divide. */
static sft_status shard_optimizer(maker *m, const item *it, const cutting *c,
                                  const sft__layout_mesh *mesh, sft__layout_cut *first) {
    sft__layout_factor *factors;
    uint64_t parts = 1;
    size_t n = first->factor_count;
    SFT_TRY(
        sft__checkpoint_lset_take(m->set, &factors, n + mesh->axis_count, sizeof *factors, m->err));
    if (n != 0) {
        memcpy(factors, first->factors, n * sizeof *factors);
    }
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        if ((!c->any || i != c->axis) && mesh->axes[i] > 1) {
            factors[n++].axis = i;
            parts *= mesh->axes[i]; /* at most 2^31: mesh_done */
        }
    }
    const uint64_t rows = it->t->shape[0] / (c->any && c->dim == 0 ? c->parts : 1);
    if (parts == 1 || rows % parts != 0 || it->t->nbytes < m->p->threshold) {
        return SFT_OK;
    }
    if (first->block_count != 0 || first->block_parts != 0) {
        return SFT_FAIL_TENSOR(
            m->err, SFT_E_UNSUPPORTED, it->t,
            "fused as several blocks, which optimizer sharding would cut across");
    }
    first->factors = factors;
    first->factor_count = n;
    return SFT_OK;
}

/* ---------------------------------------------------------------- entries */

/* The shape that the global tensor has by these numbers, against what the configuration says. */
static sft_status check_shape(maker *m, const item *it, const cutting *c) {
    uint64_t shape[2];
    const size_t dims = it->t->rank;
    if (it->role.size == SFT__SIZE_OPEN || dims == 0 || dims > 2) {
        return SFT_OK;
    }
    for (size_t d = 0; d < dims; d++) {
        shape[d] = it->t->shape[d];
    }
    const bool local = m->local && c->any;
    if (local && !sft__base_mul64(shape[c->dim], c->parts, &shape[c->dim])) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_OVERFLOW, it->t, "size overflows 64 bits");
    }
    return sft__checkpoint_facts_shape(&m->facts, &it->role, it->t, shape,
                                       !m->local ? 0
                                       : local   ? c->parts
                                                 : 1,
                                       m->err);
}

static sft_status add_entry(maker *m, const item *it) {
    sft__checkpoint_lset_entry *e;
    sft__layout_cut *cuts;
    sft__layout_factor *factor;
    uint64_t *shape;
    size_t mesh;
    cutting c;
    SFT_TRY(place(m, it, &mesh, &c));
    SFT_TRY(sft__checkpoint_lset_take(m->set, &cuts, it->t->rank, sizeof *cuts, m->err));
    SFT_TRY(sft__checkpoint_lset_take(m->set, &factor, 1, sizeof *factor, m->err));
    SFT_TRY(sft__checkpoint_lset_take(m->set, &shape, it->t->rank, sizeof *shape, m->err));
    if (c.any) {
        factor->axis = c.axis;
        cuts[c.dim].factors = factor;
        cuts[c.dim].factor_count = 1;
        cuts[c.dim].blocks = c.blocks;
        cuts[c.dim].block_count = c.block_count;
        cuts[c.dim].block_parts = c.block_parts;
    }
    SFT_TRY(check_shape(m, it, &c));
    if (m->p->optimizer && it->t->rank != 0) {
        SFT_TRY(shard_optimizer(m, it, &c, &m->set->meshes[mesh].mesh, &cuts[0]));
    }
    SFT_TRY(sft__checkpoint_lset_add(m->set, &e, m->err));
    SFT_TRY(sft__checkpoint_lset_copy(m->set, &e->name, it->t->name, it->t->name_len, m->err));
    e->name_len = it->t->name_len;
    e->kind = SFT__LSET_CUTS;
    e->mesh = mesh;
    e->cuts = cuts;
    e->dims = it->t->rank;
    for (size_t d = 0; !m->local && d < e->dims; d++) {
        shape[d] = it->t->shape[d];
    }
    e->shape = m->local ? NULL : shape;
    return SFT_OK;
}

/* Steps, rates: on every rank. */
static sft_status add_whole(maker *m, const sft_tensor *t) {
    sft__checkpoint_lset_entry *e;
    SFT_TRY(sft__checkpoint_lset_add(m->set, &e, m->err));
    SFT_TRY(sft__checkpoint_lset_copy(m->set, &e->name, t->name, t->name_len, m->err));
    e->name_len = t->name_len;
    e->kind = SFT__LSET_WHOLE;
    return SFT_OK;
}

static bool is_number(const sft_tensor *t) {
    return t->rank == 0 || (t->rank == 1 && t->shape[0] == 1);
}

/* ---------------------------------------------------------------- a model */

static sft_status layer_stage(maker *m, const item *it, uint64_t *stage) {
    if (it->role.layer >= m->facts.layers) { /* predicts more tokens: after the last */
        *stage = m->p->pp - 1;
        return SFT_OK;
    }
    if (it->role.layer != m->last_layer) {
        SFT_TRY(sft__checkpoint_parallel_stage(m->p, m->facts.layers, it->role.layer,
                                               &m->last_stage, m->err));
        m->last_layer = it->role.layer;
    }
    *stage = m->last_stage;
    return SFT_OK;
}

static sft_status expert_group(const maker *m, item *it) {
    if (m->p->ep == 1 || it->role.expert == UINT64_MAX) {
        return SFT_OK;
    }
    if (m->facts.experts % m->p->ep != 0) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_SHAPE, it->t,
                               "%llu experts do not divide among ep %llu",
                               (unsigned long long)m->facts.experts, (unsigned long long)m->p->ep);
    }
    if (it->role.expert >= m->facts.experts) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_SHAPE, it->t, "expert %llu of %llu (config.json)",
                               (unsigned long long)it->role.expert,
                               (unsigned long long)m->facts.experts);
    }
    it->group = it->role.expert / (m->facts.experts / m->p->ep);
    return SFT_OK;
}

static sft_status add_global(maker *m, const sft_tensor *t) {
    item it = {t, {0}, 0, 0};
    if (!sft__checkpoint_role_of(t->name, t->name_len, &it.role) ||
        it.role.place == SFT__PLACE_ALL) {
        return add_whole(m, t);
    }
    SFT_TRY(expert_group(m, &it));
    if (it.role.place == SFT__PLACE_LAYER) {
        SFT_TRY(layer_stage(m, &it, &it.stage));
    } else if (it.role.place == SFT__PLACE_LAST) {
        it.stage = m->p->pp - 1;
    }
    SFT_TRY(add_entry(m, &it));
    if (it.role.place == SFT__PLACE_FIRST && m->tied && m->p->pp > 1) {
        it.stage = m->p->pp - 1;
        SFT_TRY(add_entry(m, &it));
        m->set->entries[m->set->count - 1].unsure = m->unsure;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- ranks that are there */

/* Has a lower rank of the same stage and group spoken for the tensor? */
static bool is_known(const maker *m, const sft_rank_part *parts, size_t count, const item *it,
                     bool everywhere) {
    for (size_t i = 0; i < count; i++) {
        const bool same = everywhere || (parts[i].rank / m->devices == it->stage &&
                                         (m->p->ep == 1 || it->role.expert == UINT64_MAX ||
                                          parts[i].rank % m->devices % m->p->ep == it->group));
        if (same && sft_catalog_find(parts[i].catalog, it->t->name, it->t->name_len) != NULL) {
            return true;
        }
    }
    return false;
}

/* An expert is of one group of a stage; with tp instead of ep, parts of it are on other ranks. */
static sft_status check_expert(const maker *m, const sft_rank_part *parts, size_t at,
                               const item *it) {
    for (size_t i = 0; i < at && m->p->ep > 1 && it->role.expert != UINT64_MAX; i++) {
        if (parts[i].rank / m->devices == it->stage &&
            parts[i].rank % m->devices % m->p->ep != it->group &&
            sft_catalog_find(parts[i].catalog, it->t->name, it->t->name_len) != NULL) {
            return SFT_FAIL_TENSOR(m->err, SFT_E_MISMATCH, it->t,
                                   "ranks %llu and %llu have it, and the numbers (ep=%llu) give "
                                   "them different experts: it is cut by tp, or this is another ep",
                                   (unsigned long long)parts[i].rank,
                                   (unsigned long long)parts[at].rank,
                                   (unsigned long long)m->p->ep);
        }
    }
    return SFT_OK;
}

static sft_status add_local(maker *m, const sft_rank_part *parts, size_t at, const sft_tensor *t) {
    const uint64_t rank = parts[at].rank;
    item it = {t, {0}, rank / m->devices, rank % m->devices % m->p->ep};
    if (rank >= m->set->ranks) {
        return SFT_FAIL_TENSOR(m->err, SFT_E_MISMATCH, t,
                               "is in a file of rank %llu, and the layout has %llu ranks, from 0",
                               (unsigned long long)rank, (unsigned long long)m->set->ranks);
    }
    const bool whole =
        !sft__checkpoint_role_of(t->name, t->name_len, &it.role) || it.role.place == SFT__PLACE_ALL;
    if (!whole) {
        SFT_TRY(check_expert(m, parts, at, &it));
    }
    if (is_known(m, parts, at, &it, whole)) {
        return SFT_OK;
    }
    return whole ? add_whole(m, t) : add_entry(m, &it);
}

/* ---------------------------------------------------------------- all of them */

/* One of the first `count` parts has the name, too. */
static bool is_in(const sft_rank_part *parts, size_t count, const sft_tensor *t) {
    for (size_t i = 0; i < count; i++) {
        if (sft_catalog_find(parts[i].catalog, t->name, t->name_len) != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_left_out(const maker *m, const sft_tensor *t) {
    return m->set->leaves_out != NULL &&
           m->set->leaves_out(m->set->leaves_out_ctx, t->name, t->name_len) != 0;
}

static void note(maker *m, const sft__checkpoint_role *role, const sft_tensor *t) {
    sft__checkpoint_facts_note(&m->facts, role, t);
    m->head = m->head || (role->cut == SFT__CUT_VOCABULARY && role->place == SFT__PLACE_LAST);
    m->first = m->first || role->place == SFT__PLACE_FIRST;
    m->last = m->last || role->place == SFT__PLACE_LAST;
}

/* What a model that was opened in part lacks: names that are known say what others do. */
static void look_at_problems(maker *m, const sft_catalog *model) {
    for (size_t i = 0; i < sft_catalog_problem_count(model); i++) {
        const sft_problem *const p = sft_catalog_problem_at(model, i);
        sft__checkpoint_role role;
        uint64_t layer;
        if (p->kind == SFT_PROBLEM_MISSING_FILE) {
            m->lacks = true;
            m->unknown = p->message;
        } else if (p->kind == SFT_PROBLEM_MISSING_TENSOR) {
            m->lacks = true;
            if (sft__checkpoint_role_of(p->subject, p->subject_len, &role)) {
                note(m, &role, NULL);
            } else if (sft__checkpoint_layer_end(p->subject, p->subject_len, &layer) != 0 &&
                       layer >= m->facts.seen_layers) {
                m->facts.seen_layers = layer + 1;
            }
        }
    }
}

/* What the names of part `at` tell; *unknown: how many say nothing. */
static sft_status look_at(maker *m, const sft_rank_part *parts, size_t at, sft__base_buf *unknown,
                          uint64_t *count) {
    for (size_t i = 0; i < sft_catalog_count(parts[at].catalog); i++) {
        const sft_tensor *const t = sft_catalog_at(parts[at].catalog, i);
        sft__checkpoint_role role;
        char shown[160];
        if (sft__checkpoint_role_of(t->name, t->name_len, &role)) {
            note(m, &role, t);
        } else if (!is_number(t) && !is_in(parts, at, t) && !is_left_out(m, t) &&
                   (*count)++ < SHOWN) {
            (void)sft_escape(shown, sizeof shown, t->name, t->name_len);
            sft__base_buf_text(unknown, unknown->len != 0 ? ", \"" : "\"");
            sft__base_buf_text(unknown, shown);
            sft__base_buf_text(unknown, "\"");
        }
    }
    return SFT_OK;
}

/* Layers, experts and stages that are counted must all be known: those of files that are not there nobody
 * has counted. The last stage has the last layer. */
static sft_status check_counted(const maker *m) {
    const uint64_t stages = m->p->pp * m->p->vpp;
    const char *const lack = m->unknown;
    if (lack != NULL && stages > 1 && !m->facts.own_layers && !m->last) {
        return sft__base_fail(
            m->err, SFT_E_NOT_FOUND,
            "how many layers the model has is not known, and its stages depend on "
            "it (pp=%llu): the model's config.json is needed (num_hidden_layers); "
            "%s",
            (unsigned long long)m->p->pp, lack);
    }
    if (lack != NULL && m->p->ep > 1 && !m->facts.own_experts && m->facts.seen_experts != 0) {
        return sft__base_fail(m->err, SFT_E_NOT_FOUND,
                              "how many experts the model has is not known, and ep=%llu depends on "
                              "it: the model's config.json is needed (num_experts); %s",
                              (unsigned long long)m->p->ep, lack);
    }
    return SFT_OK;
}

static sft_status settle(maker *m, const sft_rank_part *parts, size_t count) {
    const sft__checkpoint_given given = {m->set, &m->facts, parts, count};
    const bool all =
        m->local ? !m->set->lacking : !m->lacks && (m->p->pp * m->p->vpp > 1 || m->p->layers != 0);
    const bool ends = all && m->first && m->last;
    SFT_TRY(sft__checkpoint_facts_settle(&m->facts, m->p, ends, m->err));
    if (ends) {
        SFT_TRY(sft__checkpoint_parallel_no_gaps(&given, m->local, m->err));
    }
    m->tied = !m->head && !m->facts.untied;
    m->unsure = m->tied && m->unknown != NULL && !m->last && !m->facts.says_tied;
    return m->local ? sft__checkpoint_parallel_note_lost(&given, m->err) : check_counted(m);
}

static sft_status survey(maker *m, const sft_rank_part *parts, size_t parts_count) {
    sft__base_buf unknown;
    uint64_t count = 0;
    sft_status status = SFT_OK;
    sft__base_buf_init(&unknown, m->set->allocator);
    for (size_t i = 0; i < parts_count && status == SFT_OK; i++) {
        status = look_at(m, parts, i, &unknown, &count);
    }
    sft__base_buf_add(&unknown, "", 1);
    if (status == SFT_OK && unknown.failed) {
        status = sft__base_fail_nomem(m->err, unknown.len);
    } else if (status == SFT_OK && count != 0) {
        status = sft__base_fail(m->err, SFT_E_NOT_FOUND,
                                "no rule says how %s%s are cut among ranks (%llu name%s)",
                                unknown.data, count > SHOWN ? " and others" : "",
                                (unsigned long long)count, count == 1 ? "" : "s");
    }
    sft__base_buf_reset(&unknown);
    return status == SFT_OK ? settle(m, parts, parts_count) : status;
}

static sft_status make_room(maker *m) {
    const size_t stages = (size_t)m->p->pp; /* at most 2^31, as ep, and their product is: ranks */
    SFT_TRY(sft__checkpoint_lset_take(m->set, &m->stage_meshes, stages, sizeof(size_t), m->err));
    SFT_TRY(sft__checkpoint_lset_take(m->set, &m->stack_meshes, stages, sizeof(size_t), m->err));
    return sft__checkpoint_lset_take(m->set, &m->expert_meshes, stages * (size_t)m->p->ep,
                                     sizeof(size_t), m->err);
}

static sft_status begin(maker *m, sft_layout_set *set, sft_error *err) {
    memset(m, 0, sizeof *m);
    m->set = set;
    m->p = set->parallel;
    m->err = err;
    m->devices = m->p->dp * m->p->cp * m->p->tp; /* at most 2^31: parallel_parse */
    m->last_layer = UINT64_MAX;
    return make_room(m);
}

sft_status sft__checkpoint_parallel_bind_parts(sft_layout_set *set, const sft_rank_part *parts,
                                               size_t count, sft_error *err) {
    maker m;
    SFT_TRY(begin(&m, set, err));
    m.local = true;
    if (m.p->optimizer) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "which tensors the optimizer shards depends on their global sizes, "
                              "which files of ranks do not tell: a layout file is needed");
    }
    if (set->config != NULL) {
        SFT_TRY(sft__checkpoint_facts_read(&m.facts, set, set->config, set->config_size, err));
    } else {
        SFT_TRY(sft__checkpoint_facts_beside(&m.facts, set, parts[0].catalog, err));
    }
    SFT_TRY(survey(&m, parts, count));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sft_catalog_count(parts[i].catalog); k++) {
            SFT_TRY(add_local(&m, parts, i, sft_catalog_at(parts[i].catalog, k)));
        }
    }
    SFT_TRY(sft__checkpoint_parallel_no_group_lacks(
        &(const sft__checkpoint_given){set, &m.facts, parts, count}, err));
    set->borne_out = m.facts.borne_out;
    set->filled = m.facts.filled;
    set->bound = true;
    return sft__checkpoint_lset_finish(set, err);
}

sft_status sft_layout_set_bind(sft_layout_set *set, const sft_catalog *model, const char *config,
                               size_t config_size, sft_error *err) {
    const sft_rank_part whole = {model, 0};
    maker m;
    if (set->parallel == NULL) {
        return SFT_OK;
    }
    if (set->bound) {
        return sft__base_fail(err, SFT_E_ARG, "the layout was made for a model before");
    }
    SFT_TRY(begin(&m, set, err));
    look_at_problems(&m, model);
    if (config != NULL) {
        SFT_TRY(sft__checkpoint_facts_read(&m.facts, set, config, config_size, err));
    } else {
        SFT_TRY(sft__checkpoint_facts_beside(&m.facts, set, model, err));
    }
    SFT_TRY(survey(&m, &whole, 1));
    SFT_TRY(sft__checkpoint_parallel_beside(model, false, err));
    if (m.p->pp * m.p->vpp > m.facts.layers) {
        return sft__base_fail(err, SFT_E_SHAPE,
                              "%llu layers among pp %llu with vpp %llu: more stages than layers",
                              (unsigned long long)m.facts.layers, (unsigned long long)m.p->pp,
                              (unsigned long long)m.p->vpp);
    }
    for (size_t k = 0; k < sft_catalog_count(model); k++) {
        SFT_TRY(add_global(&m, sft_catalog_at(model, k)));
    }
    set->bound = true;
    return sft__checkpoint_lset_finish(set, err);
}
