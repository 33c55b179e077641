/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_type.c - datatypes of HDF5 as element types: integers, IEEE floats and bfloat16
 * of both byte orders, booleans and complex numbers as h5py has them. Whatever else there is gets a
 * name. Types inside of types are looked at one level deep. Source: HDF5 File Format Specification,
 * IV.A.2.d. Read first: hdf5.h.
 */
#include "import/hdf5/hdf5.h"

enum {
    FIXED = 0,
    FLOAT = 1,
    TIME = 2,
    STRING = 3,
    BITS = 4,
    OPAQUE = 5,
    COMPOUND = 6,
    REFERENCE = 7,
    ENUM = 8,
    VARIABLE = 9,
    ARRAY = 10,
    COMPLEX = 11 /* HDF5 2.0 */
};

typedef struct head {
    uint32_t version;
    uint32_t kind;
    uint32_t bits;
    uint32_t size;
} head;

static head take_head(sft__import_h5_in *in) {
    head t;
    const uint32_t first = (uint32_t)sft__import_h5_take(in, 1);
    t.version = first >> 4;
    t.kind = first & 15;
    t.bits = (uint32_t)sft__import_h5_take(in, 3);
    t.size = (uint32_t)sft__import_h5_take(in, 4);
    return t;
}

static void set(sft__import_h5_type *type, uint32_t dtype, bool big) {
    type->dtype = sft__import_dtype(dtype);
    type->unit = big && type->size > 1 ? type->size : 0;
}

static void fixed(sft__import_h5_in *in, const head *t, sft__import_h5_type *type) {
    static const uint32_t rows[2][4] = {{SFT_U8, SFT_U16, SFT_U32, SFT_U64},
                                        {SFT_I8, SFT_I16, SFT_I32, SFT_I64}};
    const uint64_t offset = sft__import_h5_take(in, 2);
    const uint64_t precision = sft__import_h5_take(in, 2);

    type->why = "integers that do not fill 1, 2, 4 or 8 bytes";
    for (uint32_t i = 0; i < 4; i++) {
        if (t->size == 1u << i && offset == 0 && precision == 8u << i) {
            set(type, rows[(t->bits >> 3) & 1][i], (t->bits & 1) != 0);
        }
    }
}

/* A float by its fields: the sign above the exponent above the mantissa, a leading 1 implied. */
static void floating(sft__import_h5_in *in, const head *t, sft__import_h5_type *type) {
    static const struct {
        uint32_t size;
        uint32_t exponent; /* bits of it */
        uint32_t mantissa;
        uint32_t dtype;
    } rows[] = {
        {2, 5, 10, SFT_F16}, {2, 8, 7, SFT_BF16}, {4, 8, 23, SFT_F32}, {8, 11, 52, SFT_F64}};
    const uint64_t offset = sft__import_h5_take(in, 2);
    const uint64_t precision = sft__import_h5_take(in, 2);
    const uint64_t exponent_at = sft__import_h5_take(in, 1);
    const uint64_t exponent = sft__import_h5_take(in, 1);
    const uint64_t mantissa_at = sft__import_h5_take(in, 1);
    const uint64_t mantissa = sft__import_h5_take(in, 1);
    const uint64_t bias = sft__import_h5_take(in, 4);
    const uint32_t sign = (t->bits >> 8) & 0xff;

    type->why = "floats of a layout that is neither IEEE's nor bfloat16";
    if (offset != 0 || precision != 8 * (uint64_t)t->size || mantissa_at != 0 ||
        exponent_at != mantissa || (t->bits & 0x40) != 0 || ((t->bits >> 4) & 3) != 2 ||
        exponent == 0 || exponent > 31 || sign != exponent + mantissa ||
        bias != (UINT64_C(1) << (exponent - 1)) - 1) {
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].size == t->size && rows[i].exponent == exponent &&
            rows[i].mantissa == mantissa) {
            set(type, rows[i].dtype, (t->bits & 1) != 0);
        }
    }
}

/* Text with a NUL, padded to 8 bytes in versions before 3. */
static const char *take_name(sft__import_h5_in *in, const head *t) {
    const uint8_t *p = in->p;
    const uint8_t *end = in->left != 0 ? memchr(p, 0, in->left) : NULL;

    if (end == NULL) {
        in->bad = true;
        return "";
    }
    size_t n = (size_t)(end - p) + 1;
    n = t->version < 3 ? (n + 7) & ~(size_t)7 : n;
    return sft__import_h5_skip(in, n) != NULL ? (const char *)p : "";
}

/* Integers with names: FALSE and TRUE in a byte are booleans. */
static void enumerated(sft__import_h5_in *in, const head *t, sft__import_h5_type *type) {
    const head base = take_head(in);
    const uint32_t count = t->bits & 0xffff;
    sft__import_h5_type inner = {.size = base.size};
    bool names = count == 2;

    if (base.kind != FIXED || base.size != t->size) {
        type->why = "an enumeration of something that is no integer";
        return;
    }
    fixed(in, &base, &inner);
    for (uint32_t i = 0; i < count && !in->bad; i++) {
        const char *name = take_name(in, t);
        names = names && strcmp(name, i == 0 ? "FALSE" : "TRUE") == 0;
    }
    const uint8_t *values = names && t->size == 1 ? sft__import_h5_skip(in, 2) : NULL;
    type->why = inner.why;
    type->dtype = inner.dtype;
    type->unit = inner.unit;
    if (values != NULL && values[0] == 0 && values[1] == 1) {
        set(type, SFT_BOOL, false);
    }
}

/* Two floats called r and i are a complex number. */
static void compound(sft__import_h5_in *in, const head *t, sft__import_h5_type *type) {
    static const uint32_t rows[3][2] = {
        {SFT_F16, SFT__C32}, {SFT_F32, SFT_C64}, {SFT_F64, SFT__C128}};
    sft__import_h5_type part[2];

    type->why = "records of several fields";
    if ((t->bits & 0xffff) != 2) {
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const char *name = take_name(in, t);
        const uint64_t offset =
            sft__import_h5_take(in, t->version < 3 ? 4 : sft__import_h5_width(t->size));
        if (t->version == 1) {
            (void)sft__import_h5_skip(in, 28);
        }
        const head inner = take_head(in);
        memset(&part[i], 0, sizeof part[i]);
        part[i].size = inner.size;
        if (in->bad || strcmp(name, i == 0 ? "r" : "i") != 0 || inner.kind != FLOAT ||
            inner.size > t->size || 2 * inner.size != t->size || offset != i * inner.size) {
            return;
        }
        floating(in, &inner, &part[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        if (part[0].dtype != NULL && part[1].dtype == part[0].dtype &&
            part[1].unit == part[0].unit && part[0].dtype->id == rows[i][0]) {
            type->dtype = sft__import_dtype(rows[i][1]);
            type->unit = part[0].unit;
        }
    }
}

/* A float's datatype, twice. */
static void complex_number(sft__import_h5_in *in, const head *t, sft__import_h5_type *type) {
    static const uint32_t rows[3][2] = {
        {SFT_F16, SFT__C32}, {SFT_F32, SFT_C64}, {SFT_F64, SFT__C128}};
    const head inner = take_head(in);
    sft__import_h5_type part = {.size = inner.size};

    type->why = "complex numbers of something else than floats of 2, 4 or 8 bytes";
    if (in->bad || inner.kind != FLOAT || inner.size > t->size || 2 * inner.size != t->size) {
        return;
    }
    floating(in, &inner, &part);
    for (size_t i = 0; i < 3; i++) {
        if (part.dtype != NULL && part.dtype->id == rows[i][0]) {
            type->dtype = sft__import_dtype(rows[i][1]);
            type->unit = part.unit;
        }
    }
}

static void opaque(const head *t, sft__import_h5_type *type) {
    type->why = "opaque bytes";
    if (t->size == 1 || t->size == 2) {
        set(type, t->size == 1 ? SFT_U8 : SFT_U16, false);
        type->bare = true;
    }
}

/* The datatype that a shared message names: that of another object. */
static sft_status committed(sft__import_h5 *h, sft__import_h5_in in, uint64_t addr,
                            sft__import_h5_in *out, sft_error *err) {
    const uint64_t version = sft__import_h5_take(&in, 1);
    const uint64_t kind = sft__import_h5_take(&in, 1);

    (void)sft__import_h5_skip(&in, version == 1 ? 6 : 0);
    const uint64_t object = sft__import_h5_take_addr(h, &in);
    if (in.bad || version == 0 || version > 3) {
        return sft__import_h5_bad(h, addr, err,
                                  "a shared message cut short or of an unknown version");
    }
    if (version == 3 && kind != 2) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, h->base + addr,
                                 "hdf5: a datatype in the heap of shared messages");
    }
    SFT_TRY(sft__import_h5_object_read(h, &h->shared, object, err));
    const sft__import_h5_message *m = sft__import_h5_message_find(&h->shared, SFT__H5_DATATYPE);
    if (m == NULL || (m->flags & 2) != 0) {
        return sft__import_h5_bad(h, object, err,
                                  "a shared datatype that is none, or shared itself");
    }
    *out = sft__import_h5_body(&h->shared, m);
    return SFT_OK;
}

sft_status sft__import_h5_type_read(sft__import_h5 *h, const sft__import_h5_object *o,
                                    const sft__import_h5_message *m, sft__import_h5_type *type,
                                    sft_error *err) {
    static const char *const kinds[16] = {[TIME] = "times",
                                          [STRING] = "texts",
                                          [BITS] = "fields of bits",
                                          [REFERENCE] = "references",
                                          [VARIABLE] = "texts or lists of any length",
                                          [ARRAY] = "arrays as elements"};
    sft__import_h5_in in = sft__import_h5_body(o, m);

    memset(type, 0, sizeof *type);
    if ((m->flags & 2) != 0) {
        SFT_TRY(committed(h, in, m->addr, &in, err));
    }
    const head t = take_head(&in);
    type->size = t.size;
    type->why = kinds[t.kind] != NULL ? kinds[t.kind] : "elements of an unknown kind";
    switch (t.kind) {
    case FIXED:
        fixed(&in, &t, type);
        break;
    case FLOAT:
        floating(&in, &t, type);
        break;
    case OPAQUE:
        opaque(&t, type);
        break;
    case COMPOUND:
        compound(&in, &t, type);
        break;
    case COMPLEX:
        complex_number(&in, &t, type);
        break;
    case ENUM:
        enumerated(&in, &t, type);
        break;
    case VARIABLE: { /* of bytes: PyTables keeps pickles so */
        const head inner = take_head(&in);
        type->lists = (t.bits & 15) == 0 && inner.size == 1 && !in.bad;
        in.bad = false;
        break;
    }
    default:
        break;
    }
    if (in.bad || t.version == 0 || t.version > 5) {
        return sft__import_h5_bad(h, m->addr, err, "a datatype cut short or of an unknown version");
    }
    return SFT_OK;
}
