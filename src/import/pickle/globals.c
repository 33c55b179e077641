/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/globals.c - see globals.h. The allow-list is the table below; what is not in it is
 * an inert name, and dangerous if it is the standard library's or on the list in globals_std.c.
 * Read first: globals.h.
 */
#include "import/pickle/globals.h"
#include "import/pickle/globals_std.h"

/* Modules in byte order: searched by halves (tests/import/hostile_walk.py sees to it). Names of a module
 * that mean the same are one row, with a blank between them. */
/* clang-format off */
static const sft__import_global rows[] = {
    {"_codecs", "encode", SFT__G_ENCODE, 0},
    {"argparse", "Namespace", SFT__G_INERT, 0},
    {"builtins",
     "Ellipsis NotImplemented bool bytes complex float int long object range slice str xrange",
     SFT__G_INERT, 0},
    {"builtins", "bytearray", SFT__G_BYTEARRAY, 0},
    {"builtins", "dict", SFT__G_DICT, 0},
    {"builtins", "eval", SFT__G_EVAL, 0},
    {"builtins", "frozenset set", SFT__G_SET, 0},
    {"builtins", "list", SFT__G_LIST, 0},
    {"builtins", "tuple", SFT__G_TUPLE, 0},
    {"collections", "Counter OrderedDict", SFT__G_DICT, 0},
    {"collections", "defaultdict", SFT__G_DEFAULTDICT, 0},
    {"collections", "deque", SFT__G_LIST, 0},
    {"copyreg", "_reconstructor", SFT__G_INERT, 0},
    {"datetime", "date datetime time timedelta timezone", SFT__G_INERT, 0},
    {"decimal", "Decimal", SFT__G_INERT, 0},
    {"enum", "Enum", SFT__G_INERT, 0},
    {"fractions", "Fraction", SFT__G_INERT, 0},
    {"joblib.numpy_pickle", "NDArrayWrapper ZNDArrayWrapper", SFT__G_UNKNOWN, 0},
    {"joblib.numpy_pickle", "NumpyArrayWrapper", SFT__G_JOBLIB_ARRAY, 0},
    {"joblib.numpy_pickle_compat", "NDArrayWrapper ZNDArrayWrapper", SFT__G_UNKNOWN, 0},
    {"numpy",
     "bool_ float16 float32 float64 int16 int32 int64 int8 longlong matrix uint16 uint32 uint64"
     " uint8", SFT__G_INERT, 0},
    {"numpy", "dtype", SFT__G_NP_DTYPE, 0},
    {"numpy", "memmap ndarray", SFT__G_NP_NDARRAY, 0},
    {"numpy.core._internal", "_reconstruct", SFT__G_INERT, 0},
    {"numpy.core.multiarray", "_reconstruct", SFT__G_NP_RECONSTRUCT, 0},
    {"numpy.core.multiarray", "scalar", SFT__G_NP_SCALAR, 0},
    {"numpy.core.numeric", "_frombuffer", SFT__G_NP_FROMBUFFER, 0},
    {"numpy.dtypes",
     "BoolDType BytesDType Complex128DType Complex64DType Float16DType Float32DType Float64DType"
     " Int16DType Int32DType Int64DType Int8DType LongDoubleDType LongLongDType ObjectDType"
     " StrDType UInt16DType UInt32DType UInt64DType UInt8DType ULongLongDType VoidDType",
     SFT__G_INERT, 0},
    {"numpy.ma", "MaskedArray", SFT__G_NP_NDARRAY, 0},
    {"numpy.ma.core", "MaskedArray", SFT__G_NP_NDARRAY, 0},
    {"numpy.ma.core", "_mareconstruct", SFT__G_NP_MASKED, 0},
    {"numpy.matrixlib.defmatrix", "matrix", SFT__G_INERT, 0},
    {"numpy.random._mt19937", "MT19937", SFT__G_INERT, 0},
    {"numpy.random._pcg64", "PCG64", SFT__G_INERT, 0},
    {"numpy.random._pickle",
     "__bit_generator_ctor __generator_ctor __randomstate_ctor", SFT__G_INERT, 0},
    {"numpy.random.bit_generator", "SeedSequence __pyx_unpickle_SeedSequence", SFT__G_INERT, 0},
    {"omegaconf.base", "ContainerMetadata Metadata", SFT__G_INERT, 0},
    {"omegaconf.dictconfig", "DictConfig", SFT__G_INERT, 0},
    {"omegaconf.listconfig", "ListConfig", SFT__G_INERT, 0},
    {"omegaconf.nodes", "AnyNode", SFT__G_INERT, 0},
    {"pathlib",
     "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath", SFT__G_INERT, 0},
    {"pathlib._local", "PosixPath WindowsPath", SFT__G_INERT, 0},
    {"torch",
     "Generator channels_last contiguous_format device jagged preserve_format sparse_bsc"
     " sparse_bsr sparse_coo sparse_csc sparse_csr strided", SFT__G_INERT, 0},
    {"torch", "QUInt2x4Storage QUInt4x2Storage", SFT__G_STORAGE, 0},
    {"torch", "Size", SFT__G_TUPLE, 0},
    {"torch", "Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torch", "bfloat16", SFT__G_DTYPE, SFT_BF16},
    {"torch",
     "bits16 bits1x8 bits2x4 bits4x2 bits8 int1 int2 int3 int4 int5 int6 int7 quint2x4 quint4x2"
     " uint1 uint2 uint3 uint4 uint5 uint6 uint7", SFT__G_DTYPE, 0},
    {"torch", "bool", SFT__G_DTYPE, SFT_BOOL},
    {"torch", "cdouble complex128", SFT__G_DTYPE, SFT__C128},
    {"torch", "cfloat complex64", SFT__G_DTYPE, SFT_C64},
    {"torch", "chalf complex32", SFT__G_DTYPE, SFT__C32},
    {"torch", "double float64", SFT__G_DTYPE, SFT_F64},
    {"torch", "float float32", SFT__G_DTYPE, SFT_F32},
    {"torch", "float16 half", SFT__G_DTYPE, SFT_F16},
    {"torch", "float4_e2m1fn_x2", SFT__G_DTYPE, SFT_F4},
    {"torch", "float8_e4m3fn", SFT__G_DTYPE, SFT_F8_E4M3},
    {"torch", "float8_e4m3fnuz", SFT__G_DTYPE, SFT_F8_E4M3FNUZ},
    {"torch", "float8_e5m2", SFT__G_DTYPE, SFT_F8_E5M2},
    {"torch", "float8_e5m2fnuz", SFT__G_DTYPE, SFT_F8_E5M2FNUZ},
    {"torch", "float8_e8m0fnu", SFT__G_DTYPE, SFT_F8_E8M0},
    {"torch", "int int32 qint32", SFT__G_DTYPE, SFT_I32},
    {"torch", "int16 short", SFT__G_DTYPE, SFT_I16},
    {"torch", "int64 long", SFT__G_DTYPE, SFT_I64},
    {"torch", "int8 qint8", SFT__G_DTYPE, SFT_I8},
    {"torch",
     "per_channel_affine per_channel_affine_float_qparams per_channel_symmetric",
     SFT__G_QSCHEME, 1},
    {"torch", "per_tensor_affine per_tensor_symmetric", SFT__G_QSCHEME, 0},
    {"torch", "quint8 uint8", SFT__G_DTYPE, SFT_U8},
    {"torch", "uint16", SFT__G_DTYPE, SFT_U16},
    {"torch", "uint32", SFT__G_DTYPE, SFT_U32},
    {"torch", "uint64", SFT__G_DTYPE, SFT_U64},
    {"torch._C", "_disabled_torch_function_impl", SFT__G_INERT, 0},
    {"torch._dynamo.decorators", "_DimRange", SFT__G_INERT, 0},
    {"torch._tensor", "Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torch._tensor", "_rebuild_from_type _rebuild_from_type_v2", SFT__G_REBUILD_FROM_TYPE, 0},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", SFT__G_REBUILD_FROM_CPU, 0},
    {"torch._utils",
     "_rebuild_device_tensor_from_numpy _rebuild_xla_tensor", SFT__G_REBUILD_FROM_NUMPY, 0},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", SFT__G_REBUILD_META, 0},
    {"torch._utils", "_rebuild_nested_tensor", SFT__G_REBUILD_NESTED, 0},
    {"torch._utils",
     "_rebuild_parameter _rebuild_parameter_with_state", SFT__G_REBUILD_PARAMETER, 0},
    {"torch._utils", "_rebuild_qtensor", SFT__G_REBUILD_QTENSOR, 0},
    {"torch._utils", "_rebuild_sparse_csr_tensor", SFT__G_REBUILD_SPARSE_CSR, 0},
    {"torch._utils", "_rebuild_sparse_tensor", SFT__G_REBUILD_SPARSE, 0},
    {"torch._utils", "_rebuild_tensor", SFT__G_REBUILD_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", SFT__G_REBUILD_TENSOR_V2, 0},
    {"torch._utils", "_rebuild_tensor_v3", SFT__G_REBUILD_TENSOR_V3, 0},
    {"torch._utils", "_rebuild_wrapper_subclass", SFT__G_REBUILD_WRAPPER, 0},
    {"torch.autograd.variable", "Variable", SFT__G_PARAMETER, 0},
    {"torch.cuda", "BFloat16Storage", SFT__G_STORAGE, SFT_BF16},
    {"torch.cuda", "BFloat16Tensor", SFT__G_TENSOR_CLASS, SFT_BF16},
    {"torch.cuda", "BoolStorage", SFT__G_STORAGE, SFT_BOOL},
    {"torch.cuda", "BoolTensor", SFT__G_TENSOR_CLASS, SFT_BOOL},
    {"torch.cuda", "ByteStorage QUInt8Storage", SFT__G_STORAGE, SFT_U8},
    {"torch.cuda", "ByteTensor QUInt8Tensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.cuda", "CharStorage QInt8Storage", SFT__G_STORAGE, SFT_I8},
    {"torch.cuda", "CharTensor QInt8Tensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch.cuda", "ComplexDoubleStorage", SFT__G_STORAGE, SFT__C128},
    {"torch.cuda", "ComplexDoubleTensor", SFT__G_TENSOR_CLASS, SFT__C128},
    {"torch.cuda", "ComplexFloatStorage", SFT__G_STORAGE, SFT_C64},
    {"torch.cuda", "ComplexFloatTensor", SFT__G_TENSOR_CLASS, SFT_C64},
    {"torch.cuda", "DoubleStorage", SFT__G_STORAGE, SFT_F64},
    {"torch.cuda", "DoubleTensor", SFT__G_TENSOR_CLASS, SFT_F64},
    {"torch.cuda", "FloatStorage", SFT__G_STORAGE, SFT_F32},
    {"torch.cuda", "FloatTensor", SFT__G_TENSOR_CLASS, SFT_F32},
    {"torch.cuda", "HalfStorage", SFT__G_STORAGE, SFT_F16},
    {"torch.cuda", "HalfTensor", SFT__G_TENSOR_CLASS, SFT_F16},
    {"torch.cuda", "IntStorage QInt32Storage", SFT__G_STORAGE, SFT_I32},
    {"torch.cuda", "IntTensor QInt32Tensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.cuda", "LongStorage", SFT__G_STORAGE, SFT_I64},
    {"torch.cuda", "LongTensor", SFT__G_TENSOR_CLASS, SFT_I64},
    {"torch.cuda", "ShortStorage", SFT__G_STORAGE, SFT_I16},
    {"torch.cuda", "ShortTensor", SFT__G_TENSOR_CLASS, SFT_I16},
    {"torch.cuda", "UntypedStorage", SFT__G_STORAGE, 0},
    {"torch.distributed._shard.sharded_tensor.metadata",
     "MEM_FORMAT_ENCODING TensorProperties", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo _StoragePrefix", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata",
     "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta"
     " TensorProperties TensorStorageMetadata _MEM_FORMAT_ENCODING", SFT__G_INERT, 0},
    {"torch.jit._pickle",
     "build_boollist build_doublelist build_intlist build_tensor_from_id build_tensorlist"
     " restore_type_tag", SFT__G_INERT, 0},
    {"torch.nested._internal.nested_tensor", "NestedTensor", SFT__G_TENSOR_CLASS, 0},
    {"torch.nested._internal.nested_tensor", "_rebuild_njt", SFT__G_INERT, 0},
    {"torch.nn.parameter", "Buffer", SFT__G_TENSOR_CLASS, 0},
    {"torch.nn.parameter", "Parameter", SFT__G_PARAMETER, 0},
    {"torch.nn.parameter", "UninitializedParameter", SFT__G_INERT, 0},
    {"torch.serialization", "_get_layout", SFT__G_INERT, 0},
    {"torch.storage", "TypedStorage UntypedStorage _UntypedStorage", SFT__G_STORAGE, 0},
    {"torch.torch_version", "TorchVersion", SFT__G_INERT, 0},
    {"torch.utils.data.dataset", "ConcatDataset Subset TensorDataset", SFT__G_INERT, 0},
    {"torch.utils.hooks", "unserializable_hook", SFT__G_INERT, 0},
    {"torchao.dtypes.affine_quantized_tensor", "AffineQuantizedTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.dtypes.nf4tensor", "NF4Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.float8.inference", "Float8MMConfig", SFT__G_INERT, 0},
    {"torchao.prototype.mx_formats.config", "ScaleCalculationMode", SFT__G_INERT, 0},
    {"torchao.prototype.mx_formats.mx_tensor", "MXTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.prototype.mx_formats.mx_tensor", "QuantizeTensorToMXKwargs", SFT__G_INERT, 0},
    {"torchao.prototype.mx_formats.nvfp4_tensor", "NVFP4Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.prototype.mx_formats.nvfp4_tensor", "QuantizeTensorToNVFP4Kwargs", SFT__G_INERT, 0},
    {"torchao.quantization",
     "Float8Tensor Int4PlainInt32Tensor Int4PreshuffledTensor Int4Tensor Int4TilePackedTo4dTensor"
     " Int8Tensor IntxOpaqueTensor IntxUnpackedToInt8Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization.granularity",
     "PerAxis PerBlock PerGroup PerRow PerTensor PerToken", SFT__G_INERT, 0},
    {"torchao.quantization.quant_primitives", "MappingType ZeroPointDomain", SFT__G_INERT, 0},
    {"torchao.quantization.quantize_.common.kernel_preference",
     "KernelPreference", SFT__G_INERT, 0},
    {"torchao.quantization.quantize_.workflows.float8.float8_tensor",
     "QuantizeTensorToFloat8Kwargs", SFT__G_INERT, 0},
    {"torchao.quantization.quantize_.workflows.int8.int8_tensor",
     "QuantizeTensorToInt8Kwargs", SFT__G_INERT, 0},
    {"types", "SimpleNamespace", SFT__G_INERT, 0},
    {"typing", "Any", SFT__G_INERT, 0},
    {"uuid", "UUID", SFT__G_INERT, 0},
};
/* clang-format on */

/* Modules that have what torch.cuda has, or what of it ends so, beside names of their own. */
static const struct {
    const char *module;
    const char *end;
} as_cuda[] = {{"torch", ""}, {"torch.cuda.sparse", "Tensor"}, {"torch.sparse", "Tensor"}};

/* The first letter decides nearly always: a file may name millions, and each is looked up. */
static bool is_text(const char *text, const char *bytes, size_t len) {
    return len != 0 && text[0] == bytes[0] && strlen(text) == len &&
           memcmp(text, bytes, len) == 0; /* bytes may hold NUL */
}

/* One spelling of each module: what Python 2, numpy 2 and older PyTorch called it. */
static void canonical(const char **module, size_t *len) {
    static const struct {
        const char *old;
        const char *now;
    } same[] = {
        {"__builtin__", "builtins"},
        {"copy_reg", "copyreg"},
        {"torch.tensor", "torch._tensor"},
        {"numpy._core.multiarray", "numpy.core.multiarray"},
        {"numpy._core.numeric", "numpy.core.numeric"},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (is_text(same[i].old, *module, *len)) {
            *module = same[i].now;
            *len = strlen(same[i].now);
            return;
        }
    }
}

/* Compares bytes [0, len) with a C string, as strcmp does; the bytes may hold NUL. */
static int compare(const char *bytes, size_t len, const char *text) {
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != text[i] || text[i] == '\0') {
            return text[i] == '\0' || (uint8_t)bytes[i] > (uint8_t)text[i] ? 1 : -1;
        }
    }
    return text[len] == '\0' ? 0 : -1;
}

/* The first row at or behind the module. */
static size_t row_of(const char *module, size_t len) {
    size_t low = 0;
    size_t high = sizeof rows / sizeof rows[0];

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (compare(module, len, rows[middle].module) > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Is the name one of these? It has no blank then. */
static bool is_one_of(const char *names, const char *name, size_t len) {
    const char *end = names + strlen(names);

    for (const char *p = names; len != 0 && (size_t)(end - p) >= len; p++) {
        p = memchr(p, name[0], (size_t)(end - p) - len + 1);
        if (p == NULL) {
            return false;
        }
        if ((p == names || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0') &&
            memcmp(p, name, len) == 0 && memchr(name, ' ', len) == NULL) {
            return true;
        }
    }
    return false;
}

static const sft__import_global *find(const char *module, size_t module_len, const char *name,
                                      size_t name_len) {
    for (size_t i = row_of(module, module_len);
         i < sizeof rows / sizeof rows[0] && compare(module, module_len, rows[i].module) == 0;
         i++) {
        if (is_one_of(rows[i].names, name, name_len)) {
            return &rows[i];
        }
    }
    return NULL;
}

const sft__import_global *sft__import_global_find(const char *module, size_t module_len,
                                                  const char *name, size_t name_len) {
    canonical(&module, &module_len);
    const sft__import_global *row = find(module, module_len, name, name_len);

    for (size_t i = 0; i < sizeof as_cuda / sizeof as_cuda[0] && row == NULL; i++) {
        const size_t n = strlen(as_cuda[i].end);
        if (is_text(as_cuda[i].module, module, module_len) && name_len >= n &&
            memcmp(name + name_len - n, as_cuda[i].end, n) == 0) {
            row = find("torch.cuda", 10, name, name_len);
        }
    }
    return row;
}

/* Is the text one of a list in byte order? */
static bool is_among(const char *const *list, size_t count, const char *text, size_t len) {
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = compare(text, len, list[middle]);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

static bool is_standard(const char *module, size_t len) {
    const char *dot = memchr(module, '.', len);
    const size_t top = dot != NULL ? (size_t)(dot - module) : len;
    return is_among(sft__import_std_modules, sft__import_std_module_count, module, top);
}

bool sft__import_global_is_standard(const char *module, size_t len) {
    return is_standard(module, len);
}

/* Is a part of a dotted name one of those that reach everything? */
static bool has_root(const char *text, size_t len) {
    for (size_t at = 0; at <= len;) {
        const char *dot = memchr(text + at, '.', len - at);
        const size_t part = dot != NULL ? (size_t)(dot - text) - at : len - at;
        if (part > 1 && /* none has one letter, and long names are made of such */
            is_among(sft__import_root_modules, sft__import_root_module_count, text + at, part)) {
            return true;
        }
        at += part + 1;
    }
    return false;
}

/* Is a part of a dotted name one of Python's own ("__globals__")? Those lead from anything to
 * everything.
 */
static bool has_hidden(const char *text, size_t len) {
    for (size_t at = 0; at <= len;) {
        const char *dot = memchr(text + at, '.', len - at);
        const size_t part = dot != NULL ? (size_t)(dot - text) - at : len - at;
        if (part > 4 && memcmp(text + at, "__", 2) == 0 &&
            memcmp(text + at + part - 2, "__", 2) == 0) {
            return true;
        }
        at += part + 1;
    }
    return false;
}

/* A module that the allow-list has names of. */
static bool is_vouched(const char *module, size_t len) {
    const size_t at = row_of(module, len);
    bool is = at < sizeof rows / sizeof rows[0] && compare(module, len, rows[at].module) == 0;

    for (size_t i = 0; i < sizeof as_cuda / sizeof as_cuda[0]; i++) {
        is = is || is_text(as_cuda[i].module, module, len);
    }
    return is;
}

/* The first entry of the list at or behind these bytes and a `mark` and a blank behind them. */
static size_t listed_from(const char *text, size_t len, const char *mark) {
    size_t low = 0;
    size_t high = sft__import_dangerous_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        const char *entry = sft__import_dangerous[middle];
        const size_t n = strlen(entry);
        int order = memcmp(entry, text, n < len ? n : len);
        order = order != 0 ? order : n < len ? -1 : strcmp(entry + len, mark);
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Does the list have the name (or *) under the module's name, with the mark behind it? */
static bool is_listed_as(const char *module, size_t len, const char *mark, const char *name,
                         size_t name_len) {
    const size_t skip = len + strlen(mark);

    for (size_t i = listed_from(module, len, mark); i < sft__import_dangerous_count; i++) {
        const char *entry = sft__import_dangerous[i];
        if (strlen(entry) <= skip || memcmp(entry, module, len) != 0 ||
            memcmp(entry + len, mark, skip - len) != 0) {
            return false;
        }
        if (entry[skip] == '*' || is_text(entry + skip, name, name_len)) {
            return true;
        }
    }
    return false;
}

/* Modules on the list have fewer bytes (scripts/generate_globals.py sees to it): a file may name
 * longer ones, of a hundred parts, a hundred thousand times. */
enum { LISTED_MOST = 64 };

static bool is_listed(const char *module, size_t module_len, const char *name, size_t name_len) {
    for (size_t len = 1; len <= module_len && len <= LISTED_MOST; len++) {
        if ((len == module_len || module[len] == '.') &&
            is_listed_as(module, len, ". ", name, name_len)) {
            return true;
        }
    }
    return module_len != 0 && is_listed_as(module, module_len, " ", name, name_len);
}

uint32_t sft__import_global_verdict(const sft__import_global *row, const char *module,
                                    size_t module_len, const char *name, size_t name_len,
                                    const char **why) {
    canonical(&module, &module_len);
    if (row != NULL && row->known == SFT__G_NP_NDARRAY && is_text("memmap", name, name_len)) {
        *why = "opens, makes and overwrites files if it is called";
        return SFT_SCAN_UNKNOWN;
    }
    if (row != NULL && row->known == SFT__G_UNKNOWN) {
        *why = "reads files beside the one that names it";
        return SFT_SCAN_UNKNOWN;
    }
    if (row != NULL && row->known != SFT__G_EVAL) {
        *why = row->known == SFT__G_INERT ? "plain data of a class that runs nothing"
                                          : "known and needed to describe tensors";
        return SFT_SCAN_HARMLESS;
    }
    if (has_root(module, module_len) || has_root(name, name_len)) {
        *why = "reaches the operating system or the interpreter: can run anything";
        return SFT_SCAN_DANGEROUS;
    }
    if (has_hidden(name, name_len)) {
        *why = "reaches into the interpreter through an attribute of its own";
        return SFT_SCAN_DANGEROUS;
    }
    const bool own = module_len == name_len && memcmp(module, name, name_len) == 0;
    if (!own && is_listed(module, module_len, name, name_len)) {
        *why = "loads or runs code, opens files or connections";
        return SFT_SCAN_DANGEROUS;
    }
    if (is_standard(module, module_len)) {
        *why = "of Python's standard library, which a file of weights has no reason to name";
        return SFT_SCAN_DANGEROUS;
    }
    if (memchr(name, '.', name_len) != NULL) {
        *why = "a dotted name reaches through a module's attributes";
        return is_vouched(module, module_len) ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN;
    }
    *why = "a class or function that nobody vouches for";
    return SFT_SCAN_UNKNOWN;
}
