/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_yaml.c - the numbers of a layout out of a configuration of MindFormers. It
 * reads the YAML that such files are written in, line by line: mappings and lists by indentation, values on
 * one line, flow lists, quotes, comments, anchors. Anything else is refused with its line. No recursion.
 * Read checkpoint/layouts/parallel.h first.
 */
#include "base/error.h"
#include "checkpoint/layouts/parallel.h"
#include <string.h>

#define DEPTH        32u
#define MOST_OFFSETS 65536u
#define MOST_NUMBER  UINT64_C(999999999)

typedef struct span {
    const char *at;
    size_t len;
} span;

typedef struct level {
    size_t indent;
    span key; /* of a list: "-" */
    uint64_t line;
} level;

typedef struct reading {
    sft_layout_set *set;
    sft__checkpoint_parallel *p;
    uint64_t line;
    level levels[DEPTH];
    size_t depth;
    bool any; /* something was said of ranks */
    uint64_t interleave;
    bool interleaved; /* pipeline_interleave */
    uint64_t interleave_line;
    uint64_t shard_size; /* optimizer_weight_shard_size; 0: not said */
    uint64_t seen;       /* bits of the tables below */
    uint32_t sections;
    sft_error *err;
} reading;

static sft_status wrong(const reading *r, const char *what) {
    return sft__base_fail(r->err, SFT_E_SCHEMA, "configuration, line %llu: %s",
                          (unsigned long long)r->line, what);
}

static bool is(span s, const char *text) {
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static span trimmed(span s) {
    while (s.len != 0 && s.at[0] == ' ') {
        s.at++;
        s.len--;
    }
    while (s.len != 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\r')) {
        s.len--;
    }
    return s;
}

/* ---------------------------------------------------------------- values */

static sft_status to_number(const reading *r, span s, uint64_t least, uint64_t *out) {
    uint64_t v = 0;
    size_t i = 0;
    while (i < s.len && s.at[i] >= '0' && s.at[i] <= '9' && v <= MOST_NUMBER) {
        v = v * 10 + (uint64_t)(s.at[i++] - '0');
    }
    if (i == 0 || i != s.len || v > MOST_NUMBER || v < least || (s.len > 1 && s.at[0] == '0')) {
        return wrong(r, least != 0 ? "expected a number from 1 to 999999999"
                                   : "expected a number from 0 to 999999999");
    }
    *out = v;
    return SFT_OK;
}

static sft_status to_bool(const reading *r, span s, bool *out) {
    *out = is(s, "True") || is(s, "true") || is(s, "TRUE");
    return *out || is(s, "False") || is(s, "false") || is(s, "FALSE")
               ? SFT_OK
               : wrong(r, "expected True or False");
}

/* 0, [0, 1], or [[0, 1], [0, 0]] of each run of layers. */
static sft_status to_offsets(reading *r, span s) {
    int64_t *list;
    size_t room = 1;
    size_t n = 0;
    if (is(s, "0")) {
        return SFT_OK;
    }
    for (size_t i = 0; i < s.len; i++) {
        room += s.at[i] == ',';
    }
    if (s.len == 0 || s.at[0] != '[' || s.at[s.len - 1] != ']' || room > MOST_OFFSETS) {
        return wrong(r, "expected 0 or a list of offsets on one line");
    }
    SFT_TRY(sft__checkpoint_lset_take(r->set, &list, room, sizeof *list, r->err));
    for (size_t i = 0; i < s.len;) {
        const bool negative = s.at[i] == '-';
        size_t digits = i + negative;
        uint64_t v;
        if (strchr("[], ", s.at[i]) != NULL) {
            i++;
            continue;
        }
        while (digits < s.len && s.at[digits] >= '0' && s.at[digits] <= '9') {
            digits++;
        }
        SFT_TRY(to_number(r, (span){s.at + i + negative, digits - i - negative}, 0, &v));
        list[n++] = negative ? -(int64_t)v : (int64_t)v; /* below 10^9 */
        i = digits;
        if (n > room || i == s.len || strchr("], ", s.at[i]) == NULL) {
            return wrong(r, "expected a list of offsets");
        }
    }
    r->p->offset = list;
    r->p->offset_count = n;
    return SFT_OK;
}

/* ---------------------------------------------------------------- what is wanted */

typedef enum want {
    WANT_DP,
    WANT_TP,
    WANT_PP,
    WANT_CP,
    WANT_EP,
    WANT_VOCAB,
    WANT_USE,
    WANT_OPTIMIZER,
    WANT_THRESHOLD,
    WANT_SHARD_SIZE,
    WANT_INTERLEAVED,
    WANT_INTERLEAVE,
    WANT_OFFSET,
    WANT_LAYERS,
    WANT_PREDICTING,
    WANT_HEADS,
    WANT_KEY_HEADS,
    WANT_ELSEWHERE, /* nobody reads it there */
    WANT_NONE       /* known, and nothing that layouts depend on */
} want;

static const struct row {
    const char *path;
    want what;
} rows[] = {
    {"use_parallel", WANT_USE},
    {"parallel_config.data_parallel", WANT_DP},
    {"parallel_config.model_parallel", WANT_TP},
    {"parallel_config.pipeline_stage", WANT_PP},
    {"parallel_config.context_parallel", WANT_CP},
    {"parallel_config.expert_parallel", WANT_EP},
    {"parallel_config.vocab_emb_dp", WANT_VOCAB},
    {"parallel_config.micro_batch_num", WANT_NONE},
    {"parallel_config.micro_batch_interleave_num", WANT_NONE},
    {"parallel_config.gradient_aggregation_group", WANT_NONE},
    {"parallel_config.use_seq_parallel", WANT_NONE},
    {"parallel_config.seq_split_num", WANT_NONE},
    {"parallel_config.context_parallel_algo", WANT_NONE},
    {"parallel_config.ulysses_degree_in_cp", WANT_NONE},
    {"parallel_config.mem_coeff", WANT_NONE},
    {"parallel_config.optimizer_shard", WANT_NONE}, /* without effect since 0.7 */
    {"parallel.enable_parallel_optimizer", WANT_OPTIMIZER},
    {"parallel.parallel_optimizer_config.parallel_optimizer_threshold", WANT_THRESHOLD},
    {"parallel.parallel_optimizer_config.optimizer_weight_shard_size", WANT_SHARD_SIZE},
    {"parallel.optimizer_weight_shard_size", WANT_SHARD_SIZE},
    {"parallel.parallel_optimizer_threshold", WANT_ELSEWHERE},
    {"parallel.pipeline_config.pipeline_interleave", WANT_INTERLEAVED},
    {"parallel.pipeline_interleave", WANT_ELSEWHERE},
    {"model.model_config.pp_interleave_num", WANT_INTERLEAVE},
    {"model.model_config.offset", WANT_OFFSET},
    {"model.model_config.num_hidden_layers", WANT_LAYERS},
    {"model.model_config.num_layers", WANT_LAYERS},
    {"model.model_config.num_nextn_predict_layers", WANT_PREDICTING},
    {"model.model_config.mtp_depth", WANT_PREDICTING},
    {"model.model_config.num_attention_heads", WANT_HEADS},
    {"model.model_config.num_heads", WANT_HEADS},
    {"model.model_config.n_head", WANT_HEADS},
    {"model.model_config.num_key_value_heads", WANT_KEY_HEADS},
    {"model.model_config.n_kv_heads", WANT_KEY_HEADS},
    {"model.model_config.num_query_groups", WANT_KEY_HEADS},
    {"model.model_config.multi_query_group_num", WANT_KEY_HEADS}, /* GLM-2 to GLM-4 of 1.x */
};

/* What rows lie in. */
static const char *const sections[] = {
    "parallel_config",          "parallel", "parallel.parallel_optimizer_config",
    "parallel.pipeline_config", "model",    "model.model_config"};

/* Does the path of keys at hand read so? */
static bool at_path(const reading *r, const char *path) {
    for (size_t i = 0; i < r->depth; i++) {
        const span key = r->levels[i].key;
        if (strncmp(path, key.at, key.len) != 0 || path[key.len] != (i + 1 < r->depth ? '.' : 0)) {
            return false;
        }
        path += key.len + 1;
    }
    return r->depth != 0;
}

/* Of two names of one number both may be there. */
static sft_status to_fact(reading *r, span value, const char *names, uint64_t *out) {
    const uint64_t before = *out;
    if (is(value, "null") || is(value, "~")) {
        return SFT_OK;
    }
    SFT_TRY(to_number(r, value, 1, out));
    if (before != 0 && before != *out) {
        return sft__base_fail(r->err, SFT_E_MISMATCH,
                              "configuration, line %llu: %s are one number, and are %llu and %llu",
                              (unsigned long long)r->line, names, (unsigned long long)before,
                              (unsigned long long)*out);
    }
    return SFT_OK;
}

static sft_status take_number(reading *r, want what, span value) {
    uint64_t *const places[] = {&r->p->dp, &r->p->tp, &r->p->pp, &r->p->cp, &r->p->ep};
    const uint64_t shards = r->shard_size;
    r->any = r->any || what <= WANT_EP;
    if (what <= WANT_EP) {
        return to_number(r, value, 1, places[what]);
    }
    switch (what) {
    case WANT_THRESHOLD:
        SFT_TRY(to_number(r, value, 0, &r->p->threshold));
        r->p->threshold *= 1024; /* KiB; below 10^9 */
        return SFT_OK;
    case WANT_SHARD_SIZE:
        SFT_TRY(is(value, "-1") ? SFT_OK : to_number(r, value, 1, &r->shard_size));
        r->shard_size = shards != 0 && shards < r->shard_size ? shards : r->shard_size; /* of two */
        return SFT_OK;
    case WANT_INTERLEAVE:
        r->interleave_line = r->line;
        return to_number(r, value, 1, &r->interleave);
    case WANT_LAYERS:
        return to_fact(r, value, "num_hidden_layers and num_layers", &r->p->layers);
    case WANT_PREDICTING:
        return to_number(r, value, 0, &r->p->predicting);
    case WANT_HEADS:
        return to_fact(r, value, "num_attention_heads, num_heads and n_head", &r->p->heads);
    default:
        return to_fact(
            r, value, "num_key_value_heads, n_kv_heads, num_query_groups and multi_query_group_num",
            &r->p->key_heads);
    }
}

static sft_status take(reading *r, want what, span value) {
    bool yes = false;
    switch (what) {
    case WANT_NONE:
        return SFT_OK;
    case WANT_USE:
        SFT_TRY(to_bool(r, value, &yes));
        return yes ? SFT_OK : wrong(r, "use_parallel is False: nothing is cut among ranks");
    case WANT_VOCAB: /* True: MindFormers 2.x and stages set it back */
        SFT_TRY(to_bool(r, value, &yes));
        r->p->vocab = yes ? SFT__CHOICE_OPEN : SFT__CHOICE_YES;
        return SFT_OK;
    case WANT_OPTIMIZER:
        return to_bool(r, value, &r->p->optimizer);
    case WANT_INTERLEAVED:
        return to_bool(r, value, &r->interleaved);
    case WANT_OFFSET:
        return to_offsets(r, value);
    case WANT_ELSEWHERE:
        return wrong(r,
                     "stands in parallel_optimizer_config or pipeline_config, or it is not read");
    default:
        return take_number(r, what, value);
    }
}

static bool in_parallel_config(const reading *r) {
    return r->depth >= 2 && is(r->levels[0].key, "parallel_config");
}

/* "&name value" is value; "*name" stands for one elsewhere. */
static span without_anchor(span value) {
    if (value.len != 0 && value.at[0] == '&') {
        while (value.len != 0 && value.at[0] != ' ') {
            value.at++;
            value.len--;
        }
    }
    return trimmed(value);
}

/* A section's keys stand on lines of their own: in a flow mapping or behind an alias they would be missed. */
static sft_status enter(reading *r, span value) {
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!at_path(r, sections[i])) {
            continue;
        }
        if ((r->sections & UINT32_C(1) << i) != 0) {
            return wrong(r, "a key is given twice");
        }
        r->sections |= UINT32_C(1) << i;
        value = without_anchor(value);
        return value.len == 0 || is(value, "{}") || is(value, "null") || is(value, "~")
                   ? SFT_OK
                   : wrong(r, "expected its keys on lines of their own");
    }
    return SFT_OK;
}

static sft_status use(reading *r, span value) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!at_path(r, rows[i].path)) {
            continue;
        }
        if ((r->seen & UINT64_C(1) << i) != 0) {
            return wrong(r, "a key is given twice");
        }
        r->seen |= UINT64_C(1) << i;
        value = without_anchor(value);
        if (rows[i].what != WANT_NONE && (value.len == 0 || value.at[0] == '*')) {
            return wrong(r, "expected a value on this line");
        }
        return take(r, rows[i].what, value);
    }
    if (in_parallel_config(r)) { /* what could be of ranks must be understood */
        return wrong(r, "not known in parallel_config");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- lines */

/* Length without a comment, and brackets that stay open. SFT_E_SCHEMA: a quote is not closed on the line. */
static sft_status cut_comment(const reading *r, span *line, int64_t *open) {
    char quote = '\0';
    for (size_t i = 0; i < line->len; i++) {
        const char c = line->at[i];
        if (quote != '\0') {
            if (c == '\\' && quote == '"') {
                i++;
            } else if (c == quote) {
                quote = '\0';
            }
            continue;
        }
        if (c == '#' && (i == 0 || line->at[i - 1] == ' ')) {
            line->len = i;
            break;
        }
        const bool begins = i == 0 || strchr(" [{,", line->at[i - 1]) != NULL;
        quote = (c == '"' || c == '\'') && begins ? c : '\0';
        *open += (c == '[' || c == '{') - (c == ']' || c == '}');
    }
    if (*open < 0) {
        return wrong(r, "a bracket is closed that was not opened");
    }
    return quote == '\0' ? SFT_OK : wrong(r, "a quote is not closed on its line");
}

/* "key: value", "key:". */
static bool split(span text, span *key, span *value) {
    size_t at = 0;
    if (text.at[0] == '"' || text.at[0] == '\'') {
        const char *const end = memchr(text.at + 1, text.at[0], text.len - 1);
        at = end != NULL ? (size_t)(end - text.at) : text.len;
    }
    while (at < text.len && (text.at[at] != ':' || (at + 1 < text.len && text.at[at + 1] != ' '))) {
        at++;
    }
    if (at == text.len || at == 0) {
        return false;
    }
    *key = trimmed((span){text.at, at});
    *value = trimmed((span){text.at + at + 1, text.len - at - 1});
    return true;
}

static sft_status push(reading *r, size_t indent, span key) {
    if (r->depth == DEPTH) {
        return wrong(r, "nested deeper than 32 levels");
    }
    r->levels[r->depth++] = (level){indent, key, r->line};
    return SFT_OK;
}

static sft_status entry(reading *r, size_t indent, span text) {
    span key;
    span value;
    if (text.at[0] == '[' || text.at[0] == '{' || !split(text, &key, &value)) {
        /* a value of a list; anywhere else it would be the second line of one */
        const level *const last = r->depth != 0 ? &r->levels[r->depth - 1] : NULL;
        return last != NULL && is(last->key, "-") && last->line == r->line
                   ? SFT_OK
                   : wrong(r, "neither a key nor an item of a list");
    }
    if (is(key, "<<") || key.at[0] == '?' || key.at[0] == '&' || key.at[0] == '*') {
        return wrong(r, "keys of this kind are not understood");
    }
    if (value.len != 0 && (value.at[0] == '|' || value.at[0] == '>' || value.at[0] == '!')) {
        return wrong(r, "texts of several lines and types are not understood");
    }
    if (key.len > 1 && (key.at[0] == '"' || key.at[0] == '\'') &&
        key.at[key.len - 1] == key.at[0]) {
        key = (span){key.at + 1, key.len - 2};
        if (memchr(key.at, '\\', key.len) != NULL) {
            return wrong(r, "keys of this kind are not understood");
        }
    }
    SFT_TRY(push(r, indent, key));
    SFT_TRY(enter(r, value));
    return value.len != 0 || r->depth > 1 ? use(r, value) : SFT_OK;
}

/* One line that is not empty. */
static sft_status take_line(reading *r, span line) {
    size_t indent = 0;
    span text;
    while (indent < line.len && line.at[indent] == ' ') {
        indent++;
    }
    text = trimmed((span){line.at + indent, line.len - indent});
    if (memchr(text.at, '\t', text.len) != NULL) {
        return wrong(r, "a tab");
    }
    const size_t before = r->depth;
    while (r->depth != 0 && (r->levels[r->depth - 1].indent > indent ||
                             (r->levels[r->depth - 1].indent == indent &&
                              (text.at[0] != '-' || is(r->levels[r->depth - 1].key, "-"))))) {
        r->depth--;
    }
    if (r->depth < before && r->levels[r->depth].indent != indent) {
        return wrong(r, "indented neither as the lines above nor deeper");
    }
    while (text.at[0] == '-' && (text.len == 1 || text.at[1] == ' ')) { /* an item, or one in it */
        SFT_TRY(push(r, indent, (span){text.at, 1}));
        const span rest = trimmed((span){text.at + 1, text.len - 1});
        if (rest.len == 0) {
            return SFT_OK;
        }
        indent += (size_t)(rest.at - text.at);
        text = rest;
    }
    return entry(r, indent, text);
}

static sft_status lines(reading *r, const char *text, size_t size) {
    int64_t open = 0;
    for (size_t at = 0; at < size;) {
        const char *const end = memchr(text + at, '\n', size - at);
        span line = {text + at, end != NULL ? (size_t)(end - text) - at : size - at};
        r->line++;
        at += line.len + 1;
        if (memchr(line.at, '\0', line.len) != NULL) {
            return wrong(r, "a NUL byte");
        }
        const bool goes_on = open != 0; /* a flow list of several lines, whose key was taken */
        SFT_TRY(cut_comment(r, &line, &open));
        const span all = trimmed(line);
        if (all.len == 0 || goes_on) {
            continue;
        }
        if (is(all, "---") && r->depth == 0) {
            continue;
        }
        if (all.at[0] == '%' || is(all, "...") || is(all, "---")) {
            return wrong(r, "several documents and directives are not understood");
        }
        SFT_TRY(take_line(r, line));
    }
    return open == 0 ? SFT_OK : wrong(r, "a bracket is not closed");
}

/* Past a byte order mark. */
static size_t beginning(const char *text, size_t len) {
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

bool sft__checkpoint_parallel_is_yaml(const char *text, size_t len) {
    static const char *const words[] = {"parallel_config:", "use_parallel:"};
    const size_t first = beginning(text, len);
    for (size_t i = first; i < len; i++) {
        for (size_t k = 0; k < 2 && (i == first || text[i - 1] == '\n'); k++) {
            const size_t n = strlen(words[k]);
            if (len - i >= n && memcmp(text + i, words[k], n) == 0) {
                return true;
            }
        }
    }
    return false;
}

sft_status sft__checkpoint_parallel_yaml(sft_layout_set *set, const char *text, size_t len,
                                         sft_error *err) {
    reading r;
    memset(&r, 0, sizeof r);
    r.set = set;
    r.interleave = 1;
    r.err = err;
    SFT_TRY(sft__checkpoint_parallel_new(set, &r.p, err));
    SFT_TRY(lines(&r, text + beginning(text, len), len - beginning(text, len)));
    if (!r.any) {
        return sft__base_fail(err, SFT_E_SCHEMA,
                              "configuration: parallel_config says nothing of ranks");
    }
    r.p->vpp = r.interleaved ? r.interleave : 1;
    if (r.p->optimizer && r.shard_size != 0 && r.shard_size < r.p->dp * r.p->cp * r.p->tp) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "configuration: optimizer_weight_shard_size %llu of %llu ranks of a "
                              "stage: only sharding among all replicas is understood",
                              (unsigned long long)r.shard_size,
                              (unsigned long long)(r.p->dp * r.p->cp * r.p->tp));
    }
    return sft__checkpoint_parallel_ready(set, r.p, err);
}
