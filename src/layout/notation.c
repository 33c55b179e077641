/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/notation.c - the texts in which PyTorch, JAX and transformers say how a tensor is cut.
 * Each becomes a list of factors per dimension; sft__layout_create checks the rest.
 */
#include "base/error.h"
#include "layout/layout.h"

/* Factors of every dimension while a text is read. */
typedef struct factor_lists {
    size_t dims;
    sft__layout_split split; /* the notation's rule */
    sft__layout_factor of[SFT_LAYOUT_RANK][SFT__LAYOUT_AXES];
    size_t count[SFT_LAYOUT_RANK];
    bool even[SFT_LAYOUT_RANK]; /* must divide, whatever the rule */
} factor_lists;

static sft_status check_dims(const sft__layout_mesh *mesh, size_t dims, sft_error *err) {
    if (dims > SFT_LAYOUT_RANK || mesh->axis_count > SFT__LAYOUT_AXES) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "more mesh axes or dimensions than a layout can have");
    }
    return SFT_OK;
}

static void insert(factor_lists *lists, size_t dim, size_t at, size_t axis) {
    sft__layout_factor *const list = lists->of[dim];
    for (size_t i = lists->count[dim]++; i > at; i--) {
        list[i] = list[i - 1];
    }
    sft_zero(&list[at], sizeof list[at]);
    list[at].axis = (uint32_t)axis;
}

static sft_status create(sft_layout **out, const factor_lists *lists, const sft__layout_mesh *mesh,
                         const sft_allocator *allocator, sft_error *err) {
    sft__layout_cut cuts[SFT_LAYOUT_RANK];
    for (size_t i = 0; i < lists->dims; i++) {
        sft_zero(&cuts[i], sizeof cuts[i]);
        cuts[i].factors = lists->of[i];
        cuts[i].factor_count = lists->count[i];
        cuts[i].split = lists->even[i] ? SFT__SPLIT_EVEN : lists->split;
    }
    return sft__layout_create(out, mesh, cuts, lists->dims, allocator, err);
}

/* ---------------------------------------------------------------- words of a text */

static const char *blank(const char *p) {
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') {
        p++;
    }
    return p;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static sft_status unexpected(const char *text, const char *at, const char *needed, sft_error *err) {
    char found[16];
    (void)sft_escape(found, sizeof found, at, *at == '\0' ? 0 : 1);
    return sft__base_fail_at(err, SFT_E_ARG, (uint64_t)(at - text), "%s, found %s%s%s", needed,
                             *at == '\0' ? "the end" : "'", found, *at == '\0' ? "" : "'");
}

static bool eat(const char **p, char c) {
    const char *const q = blank(*p);
    if (*q != c) {
        return false;
    }
    *p = q + 1;
    return true;
}

static size_t word_at(const char **p) {
    size_t n = 0;
    *p = blank(*p);
    while (is_word((*p)[n])) {
        n++;
    }
    return n;
}

static bool word_is(const char *p, size_t len, const char *word) {
    return strlen(word) == len && memcmp(p, word, len) == 0;
}

/* An optional "name=", then an integer of at most nine digits. */
static bool eat_int(const char **p, int64_t *value) {
    const size_t len = word_at(p);
    const char *q = *p + len;
    if (len != 0 && !(**p >= '0' && **p <= '9') && eat(&q, '=')) {
        *p = q;
    }
    q = blank(*p);
    const bool negative = *q == '-';
    q += negative;
    int64_t v = 0;
    size_t digits = 0;
    for (; *q >= '0' && *q <= '9' && digits < 10; q++, digits++) {
        v = v * 10 + (*q - '0');
    }
    *value = negative ? -v : v;
    *p = q;
    return digits > 0 && digits < 10;
}

/* ---------------------------------------------------------------- DTensor */

typedef struct placement {
    bool shard;
    size_t dim;
    uint64_t split_factor; /* 1: not strided */
} placement;

static sft_status read_arguments(const char *text, const char **p, size_t dims, bool strided,
                                 placement *out, sft_error *err) {
    int64_t dim;
    int64_t factor = 1;
    if (!eat(p, '(')) {
        return unexpected(text, blank(*p), "expected '('", err);
    }
    if (!eat_int(p, &dim)) {
        return unexpected(text, *p, "expected a dimension", err);
    }
    if (strided && !(eat(p, ',') && eat_int(p, &factor) && factor > 0)) {
        return unexpected(text, *p, "expected a split factor", err);
    }
    if (!eat(p, ')')) {
        return unexpected(text, blank(*p), "expected ')'", err);
    }
    if (dim < -(int64_t)dims || dim >= (int64_t)dims) {
        return sft__base_fail(err, SFT_E_RANGE, "placement on dimension %lld of a tensor of %llu",
                              (long long)dim, (unsigned long long)dims);
    }
    out->shard = true;
    out->dim = (size_t)(dim < 0 ? dim + (int64_t)dims : dim);
    out->split_factor = (uint64_t)factor;
    return SFT_OK;
}

static sft_status read_placement(const char *text, const char **p, size_t dims, placement *out,
                                 sft_error *err) {
    const size_t len = word_at(p);
    const char *const word = *p;
    *p += len;
    out->shard = false;
    if (word_is(word, len, "Shard") || word_is(word, len, "S")) {
        return read_arguments(text, p, dims, false, out, err);
    }
    if (word_is(word, len, "_StridedShard")) {
        return read_arguments(text, p, dims, true, out, err);
    }
    if (word_is(word, len, "Replicate") || word_is(word, len, "R")) {
        if (eat(p, '(') && !eat(p, ')')) {
            return unexpected(text, blank(*p), "expected ')'", err);
        }
        return SFT_OK;
    }
    if (word_is(word, len, "Partial") || word_is(word, len, "_Partial") ||
        word_is(word, len, "P")) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, (uint64_t)(word - text),
                                 "a partial placement is no layout of weights");
    }
    return unexpected(text, word, "expected Shard, _StridedShard or Replicate", err);
}

/* From the right: a shard cuts before the axes to its right, a strided one behind as many of them
 * as make its split factor (torch.distributed.tensor.placement_types). Uneven sizes would leave a
 * rank of a strided dimension with several pieces: such dimensions must divide. */
static sft_status place(factor_lists *lists, const sft__layout_mesh *mesh, const placement *list,
                        sft_error *err) {
    for (size_t axis = mesh->axis_count; axis-- > 0;) {
        const size_t dim = list[axis].dim;
        uint64_t product = 1;
        size_t at = 0;
        if (!list[axis].shard) {
            continue;
        }
        while (product < list[axis].split_factor && at < lists->count[dim]) {
            product *=
                mesh->axes[lists->of[dim][at++].axis]; /* at most the devices: checked below */
            if (product > UINT32_MAX) {
                return sft__base_fail(err, SFT_E_OVERFLOW, "mesh has more than 2^31 ranks");
            }
        }
        if (product != list[axis].split_factor) {
            return sft__base_fail(err, SFT_E_UNSUPPORTED,
                                  "split factor %llu is no product of the mesh axes behind it",
                                  (unsigned long long)list[axis].split_factor);
        }
        lists->even[dim] = lists->even[dim] || at != 0;
        insert(lists, dim, at, axis);
    }
    return SFT_OK;
}

sft_status sft__layout_parse_placements(sft_layout **out, const char *text,
                                        const sft__layout_mesh *mesh, size_t dims,
                                        const sft_allocator *allocator, sft_error *err) {
    placement list[SFT__LAYOUT_AXES];
    factor_lists lists;
    const char *p = text;
    *out = NULL;
    SFT_TRY(check_dims(mesh, dims, err));
    memset(&lists, 0, sizeof lists);
    lists.dims = dims;
    lists.split = SFT__SPLIT_CHUNK;
    const bool closed = eat(&p, '[') || eat(&p, '(');
    for (size_t i = 0; i < mesh->axis_count; i++) {
        if (i > 0 && !eat(&p, ',')) {
            return unexpected(text, blank(p), "expected one placement per mesh axis", err);
        }
        SFT_TRY(read_placement(text, &p, dims, &list[i], err));
    }
    (void)eat(&p, ',');
    if (closed && !eat(&p, ']') && !eat(&p, ')')) {
        return unexpected(text, blank(p), "expected the end of the list", err);
    }
    if (*blank(p) != '\0') {
        return unexpected(text, blank(p), "expected no more than one placement per mesh axis", err);
    }
    SFT_TRY(place(&lists, mesh, list, err));
    return create(out, &lists, mesh, allocator, err);
}

/* ---------------------------------------------------------------- PartitionSpec */

typedef struct spec {
    const char *text;
    const sft__layout_mesh *mesh;
    factor_lists lists;
    sft_error *err;
} spec;

static sft_status read_axis(spec *s, const char **p, size_t dim) {
    const char quote = *blank(*p);
    size_t len = 0;
    if ((quote != '\'' && quote != '"') || !eat(p, quote)) {
        return unexpected(s->text, blank(*p), "expected an axis name in quotes", s->err);
    }
    while ((*p)[len] != '\0' && (*p)[len] != quote) {
        len++;
    }
    if ((*p)[len] == '\0') {
        return unexpected(s->text, *p + len, "expected the end of an axis name", s->err);
    }
    for (size_t i = 0; i < s->mesh->axis_count; i++) {
        if (word_is(*p, len, s->mesh->axis_names[i])) {
            if (s->lists.count[dim] == SFT__LAYOUT_AXES) {
                return sft__base_fail(s->err, SFT_E_LIMIT,
                                      "more axes in one dimension than a mesh can have");
            }
            insert(&s->lists, dim, s->lists.count[dim], i);
            *p += len + 1;
            return SFT_OK;
        }
    }
    return sft__base_fail_at(s->err, SFT_E_NOT_FOUND, (uint64_t)(*p - s->text),
                             "the mesh has no axis of this name");
}

static sft_status read_entry(spec *s, const char **p, size_t dim) {
    const size_t len = word_at(p);
    if (word_is(*p, len, "None")) {
        *p += len;
        return SFT_OK;
    }
    if (!eat(p, '(')) {
        return read_axis(s, p, dim);
    }
    while (!eat(p, ')')) {
        SFT_TRY(read_axis(s, p, dim));
        if (!eat(p, ',') && *blank(*p) != ')') {
            return unexpected(s->text, blank(*p), "expected ',' or ')'", s->err);
        }
    }
    return SFT_OK;
}

sft_status sft__layout_parse_spec(sft_layout **out, const char *text, const sft__layout_mesh *mesh,
                                  size_t dims, const sft_allocator *allocator, sft_error *err) {
    const char *p = text;
    size_t dim = 0;
    spec s;
    *out = NULL;
    SFT_TRY(check_dims(mesh, dims, err));
    memset(&s, 0, sizeof s);
    s.text = text;
    s.mesh = mesh;
    s.lists.dims = dims;
    s.lists.split = SFT__SPLIT_EVEN;
    s.err = err;
    const size_t len = word_at(&p);
    if (!word_is(p, len, "P") && !word_is(p, len, "PartitionSpec")) {
        return unexpected(text, p, "expected P(...) or PartitionSpec(...)", err);
    }
    p += len;
    if (!eat(&p, '(')) {
        return unexpected(text, blank(p), "expected '('", err);
    }
    while (!eat(&p, ')')) {
        if (dim == dims) {
            return sft__base_fail(err, SFT_E_SHAPE,
                                  "spec of more than the tensor's %llu dimensions",
                                  (unsigned long long)dims);
        }
        SFT_TRY(read_entry(&s, &p, dim++));
        if (!eat(&p, ',') && *blank(p) != ')') {
            return unexpected(text, blank(p), "expected ',' or ')'", err);
        }
    }
    if (*blank(p) != '\0') {
        return unexpected(text, blank(p), "expected the end", err);
    }
    return create(out, &s.lists, mesh, allocator, err);
}

/* ---------------------------------------------------------------- tensor-parallel styles */

enum { REPLICATED, FIRST, SECOND, ROWS, COLUMNS };

/* What is cut: FIRST and SECOND dimensions 0 and 1; ROWS the last but one, all of a vector; COLUMNS
 * the last, nothing of a bias. Packed ones (two parts) have vectors that are not: cut plainly by
 * rows, not at all by columns. */
static const struct {
    const char *name;
    int where;
    uint64_t parts;
} styles[] = {
    {"colwise", ROWS, 1},
    {"colwise_rep", ROWS, 1},
    {"colwise_gather_output", ROWS, 1},
    {"local_colwise", ROWS, 1},
    {"rowwise", COLUMNS, 1},
    {"rowwise_rep", COLUMNS, 1},
    {"rowwise_split_input", COLUMNS, 1},
    {"local_rowwise", COLUMNS, 1},
    {"packed_colwise", ROWS, 2},
    {"local_packed_rowwise", COLUMNS, 2},
    {"packed_rowwise", COLUMNS, 2},
    {"embedding_rowwise", FIRST, 1},
    {"embedding_colwise", SECOND, 1},
    {"grouped_gemm", FIRST, 1},
    {"sequence_parallel", REPLICATED, 1},
    {"replicated_with_grad_allreduce", REPLICATED, 1},
    {"replicated", REPLICATED, 1},
    {"replicate", REPLICATED, 1},
    {"all_reduce", REPLICATED, 1},
    {"mla_kv_a_proj", REPLICATED, 1},
    {"moe_tp_experts", REPLICATED, 1},
    {"moe_identity_expert", REPLICATED, 1},
    {"ep_dispatch_experts", REPLICATED, 1},
    {"local_params", REPLICATED, 1},
};

sft_status sft__layout_from_style(sft_layout **out, const sft__layout_style *style,
                                  const sft__layout_mesh *mesh, size_t dims,
                                  const sft_allocator *allocator, sft_error *err) {
    sft__layout_cut cuts[SFT_LAYOUT_RANK];
    sft__layout_factor factor;
    size_t i = 0;
    *out = NULL;
    SFT_TRY(check_dims(mesh, dims, err));
    if (mesh->axis_count != 1) {
        return sft__base_fail(err, SFT_E_ARG, "a tensor-parallel style needs a mesh of one axis");
    }
    while (i < sizeof styles / sizeof styles[0] && strcmp(styles[i].name, style->name) != 0) {
        i++;
    }
    if (i == sizeof styles / sizeof styles[0]) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "unknown tensor-parallel style");
    }
    sft_zero(&factor, sizeof factor);
    sft_zero(cuts, sizeof cuts);
    const bool packed = styles[i].parts > 1;
    size_t dim = dims; /* none */
    if (styles[i].where == FIRST || styles[i].where == SECOND) {
        dim = styles[i].where == FIRST ? 0 : 1;
    } else if (styles[i].where == ROWS) {
        dim = dims > 1 ? dims - 2 : 0;
    } else if (styles[i].where == COLUMNS && dims > 0 && (packed ? dims > 1 : !style->is_bias)) {
        dim = dims - 1;
    }
    if (dim < dims) {
        cuts[dim].factors = &factor;
        cuts[dim].factor_count = 1;
        cuts[dim].split = SFT__SPLIT_CHUNK;
        cuts[dim].block_parts = dims > 1 ? styles[i].parts : 1;
    }
    return sft__layout_create(out, mesh, cuts, dims, allocator, err);
}
