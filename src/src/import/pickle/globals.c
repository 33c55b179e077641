/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/globals.c - see globals.h. The allow-list is the table below; what is not in it is
 * an inert name, and dangerous if it is the standard library's or on the list in globals_std.c.
 * Read first: globals.h.
 */
#include "import/pickle/globals.h"
#include "import/pickle/globals_std.h"

/* In byte order of module and name: searched by halves (tests/import/hostile_walk.py sees to it).
 */
/* clang-format off */
static const sft__import_global rows[] = {
    {"_codecs", "encode", SFT__G_ENCODE, 0},
    {"argparse", "Namespace", SFT__G_INERT, 0},
    {"builtins", "Ellipsis", SFT__G_INERT, 0},
    {"builtins", "NotImplemented", SFT__G_INERT, 0},
    {"builtins", "bool", SFT__G_INERT, 0},
    {"builtins", "bytearray", SFT__G_BYTEARRAY, 0},
    {"builtins", "bytes", SFT__G_INERT, 0},
    {"builtins", "complex", SFT__G_INERT, 0},
    {"builtins", "dict", SFT__G_DICT, 0},
    {"builtins", "eval", SFT__G_EVAL, 0},
    {"builtins", "float", SFT__G_INERT, 0},
    {"builtins", "frozenset", SFT__G_SET, 0},
    {"builtins", "int", SFT__G_INERT, 0},
    {"builtins", "list", SFT__G_LIST, 0},
    {"builtins", "long", SFT__G_INERT, 0},
    {"builtins", "object", SFT__G_INERT, 0},
    {"builtins", "range", SFT__G_INERT, 0},
    {"builtins", "set", SFT__G_SET, 0},
    {"builtins", "slice", SFT__G_INERT, 0},
    {"builtins", "str", SFT__G_INERT, 0},
    {"builtins", "tuple", SFT__G_TUPLE, 0},
    {"builtins", "xrange", SFT__G_INERT, 0},
    {"collections", "Counter", SFT__G_DICT, 0},
    {"collections", "OrderedDict", SFT__G_DICT, 0},
    {"collections", "defaultdict", SFT__G_DEFAULTDICT, 0},
    {"collections", "deque", SFT__G_LIST, 0},
    {"copyreg", "_reconstructor", SFT__G_INERT, 0},
    {"datetime", "date", SFT__G_INERT, 0},
    {"datetime", "datetime", SFT__G_INERT, 0},
    {"datetime", "time", SFT__G_INERT, 0},
    {"datetime", "timedelta", SFT__G_INERT, 0},
    {"datetime", "timezone", SFT__G_INERT, 0},
    {"decimal", "Decimal", SFT__G_INERT, 0},
    {"enum", "Enum", SFT__G_INERT, 0},
    {"fractions", "Fraction", SFT__G_INERT, 0},
    {"joblib.numpy_pickle", "NDArrayWrapper", SFT__G_UNKNOWN, 0},
    {"joblib.numpy_pickle", "NumpyArrayWrapper", SFT__G_JOBLIB_ARRAY, 0},
    {"joblib.numpy_pickle", "ZNDArrayWrapper", SFT__G_UNKNOWN, 0},
    {"joblib.numpy_pickle_compat", "NDArrayWrapper", SFT__G_UNKNOWN, 0},
    {"joblib.numpy_pickle_compat", "ZNDArrayWrapper", SFT__G_UNKNOWN, 0},
    {"numpy", "bool_", SFT__G_INERT, 0},
    {"numpy", "dtype", SFT__G_NP_DTYPE, 0},
    {"numpy", "float16", SFT__G_INERT, 0},
    {"numpy", "float32", SFT__G_INERT, 0},
    {"numpy", "float64", SFT__G_INERT, 0},
    {"numpy", "int16", SFT__G_INERT, 0},
    {"numpy", "int32", SFT__G_INERT, 0},
    {"numpy", "int64", SFT__G_INERT, 0},
    {"numpy", "int8", SFT__G_INERT, 0},
    {"numpy", "longlong", SFT__G_INERT, 0},
    {"numpy", "matrix", SFT__G_INERT, 0},
    {"numpy", "memmap", SFT__G_NP_NDARRAY, 0},
    {"numpy", "ndarray", SFT__G_NP_NDARRAY, 0},
    {"numpy", "uint16", SFT__G_INERT, 0},
    {"numpy", "uint32", SFT__G_INERT, 0},
    {"numpy", "uint64", SFT__G_INERT, 0},
    {"numpy", "uint8", SFT__G_INERT, 0},
    {"numpy.core._internal", "_reconstruct", SFT__G_INERT, 0},
    {"numpy.core.multiarray", "_reconstruct", SFT__G_NP_RECONSTRUCT, 0},
    {"numpy.core.multiarray", "scalar", SFT__G_NP_SCALAR, 0},
    {"numpy.core.numeric", "_frombuffer", SFT__G_NP_FROMBUFFER, 0},
    {"numpy.dtypes", "BoolDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "BytesDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Complex128DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Complex64DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Float16DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Float32DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Float64DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Int16DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Int32DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Int64DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "Int8DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "LongDoubleDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "LongLongDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "ObjectDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "StrDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "UInt16DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "UInt32DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "UInt64DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "UInt8DType", SFT__G_INERT, 0},
    {"numpy.dtypes", "ULongLongDType", SFT__G_INERT, 0},
    {"numpy.dtypes", "VoidDType", SFT__G_INERT, 0},
    {"numpy.ma", "MaskedArray", SFT__G_NP_NDARRAY, 0},
    {"numpy.ma.core", "MaskedArray", SFT__G_NP_NDARRAY, 0},
    {"numpy.ma.core", "_mareconstruct", SFT__G_NP_MASKED, 0},
    {"numpy.matrixlib.defmatrix", "matrix", SFT__G_INERT, 0},
    {"numpy.random._mt19937", "MT19937", SFT__G_INERT, 0},
    {"numpy.random._pcg64", "PCG64", SFT__G_INERT, 0},
    {"numpy.random._pickle", "__bit_generator_ctor", SFT__G_INERT, 0},
    {"numpy.random._pickle", "__generator_ctor", SFT__G_INERT, 0},
    {"numpy.random._pickle", "__randomstate_ctor", SFT__G_INERT, 0},
    {"numpy.random.bit_generator", "SeedSequence", SFT__G_INERT, 0},
    {"numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", SFT__G_INERT, 0},
    {"omegaconf.base", "ContainerMetadata", SFT__G_INERT, 0},
    {"omegaconf.base", "Metadata", SFT__G_INERT, 0},
    {"omegaconf.dictconfig", "DictConfig", SFT__G_INERT, 0},
    {"omegaconf.listconfig", "ListConfig", SFT__G_INERT, 0},
    {"omegaconf.nodes", "AnyNode", SFT__G_INERT, 0},
    {"pathlib", "Path", SFT__G_INERT, 0},
    {"pathlib", "PosixPath", SFT__G_INERT, 0},
    {"pathlib", "PurePath", SFT__G_INERT, 0},
    {"pathlib", "PurePosixPath", SFT__G_INERT, 0},
    {"pathlib", "PureWindowsPath", SFT__G_INERT, 0},
    {"pathlib", "WindowsPath", SFT__G_INERT, 0},
    {"pathlib._local", "PosixPath", SFT__G_INERT, 0},
    {"pathlib._local", "WindowsPath", SFT__G_INERT, 0},
    {"torch", "BFloat16Storage", SFT__G_STORAGE, SFT_BF16},
    {"torch", "BFloat16Tensor", SFT__G_TENSOR_CLASS, SFT_BF16},
    {"torch", "BoolStorage", SFT__G_STORAGE, SFT_BOOL},
    {"torch", "BoolTensor", SFT__G_TENSOR_CLASS, SFT_BOOL},
    {"torch", "ByteStorage", SFT__G_STORAGE, SFT_U8},
    {"torch", "ByteTensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch", "CharStorage", SFT__G_STORAGE, SFT_I8},
    {"torch", "CharTensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch", "ComplexDoubleStorage", SFT__G_STORAGE, SFT__C128},
    {"torch", "ComplexDoubleTensor", SFT__G_TENSOR_CLASS, SFT__C128},
    {"torch", "ComplexFloatStorage", SFT__G_STORAGE, SFT_C64},
    {"torch", "ComplexFloatTensor", SFT__G_TENSOR_CLASS, SFT_C64},
    {"torch", "DoubleStorage", SFT__G_STORAGE, SFT_F64},
    {"torch", "DoubleTensor", SFT__G_TENSOR_CLASS, SFT_F64},
    {"torch", "FloatStorage", SFT__G_STORAGE, SFT_F32},
    {"torch", "FloatTensor", SFT__G_TENSOR_CLASS, SFT_F32},
    {"torch", "Generator", SFT__G_INERT, 0},
    {"torch", "HalfStorage", SFT__G_STORAGE, SFT_F16},
    {"torch", "HalfTensor", SFT__G_TENSOR_CLASS, SFT_F16},
    {"torch", "IntStorage", SFT__G_STORAGE, SFT_I32},
    {"torch", "IntTensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch", "LongStorage", SFT__G_STORAGE, SFT_I64},
    {"torch", "LongTensor", SFT__G_TENSOR_CLASS, SFT_I64},
    {"torch", "QInt32Storage", SFT__G_STORAGE, SFT_I32},
    {"torch", "QInt32Tensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch", "QInt8Storage", SFT__G_STORAGE, SFT_I8},
    {"torch", "QInt8Tensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch", "QUInt2x4Storage", SFT__G_STORAGE, 0},
    {"torch", "QUInt4x2Storage", SFT__G_STORAGE, 0},
    {"torch", "QUInt8Storage", SFT__G_STORAGE, SFT_U8},
    {"torch", "QUInt8Tensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch", "ShortStorage", SFT__G_STORAGE, SFT_I16},
    {"torch", "ShortTensor", SFT__G_TENSOR_CLASS, SFT_I16},
    {"torch", "Size", SFT__G_TUPLE, 0},
    {"torch", "Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torch", "UntypedStorage", SFT__G_STORAGE, 0},
    {"torch", "bfloat16", SFT__G_DTYPE, SFT_BF16},
    {"torch", "bits16", SFT__G_DTYPE, 0},
    {"torch", "bits1x8", SFT__G_DTYPE, 0},
    {"torch", "bits2x4", SFT__G_DTYPE, 0},
    {"torch", "bits4x2", SFT__G_DTYPE, 0},
    {"torch", "bits8", SFT__G_DTYPE, 0},
    {"torch", "bool", SFT__G_DTYPE, SFT_BOOL},
    {"torch", "cdouble", SFT__G_DTYPE, SFT__C128},
    {"torch", "cfloat", SFT__G_DTYPE, SFT_C64},
    {"torch", "chalf", SFT__G_DTYPE, SFT__C32},
    {"torch", "channels_last", SFT__G_INERT, 0},
    {"torch", "complex128", SFT__G_DTYPE, SFT__C128},
    {"torch", "complex32", SFT__G_DTYPE, SFT__C32},
    {"torch", "complex64", SFT__G_DTYPE, SFT_C64},
    {"torch", "contiguous_format", SFT__G_INERT, 0},
    {"torch", "device", SFT__G_INERT, 0},
    {"torch", "double", SFT__G_DTYPE, SFT_F64},
    {"torch", "float", SFT__G_DTYPE, SFT_F32},
    {"torch", "float16", SFT__G_DTYPE, SFT_F16},
    {"torch", "float32", SFT__G_DTYPE, SFT_F32},
    {"torch", "float4_e2m1fn_x2", SFT__G_DTYPE, SFT_F4},
    {"torch", "float64", SFT__G_DTYPE, SFT_F64},
    {"torch", "float8_e4m3fn", SFT__G_DTYPE, SFT_F8_E4M3},
    {"torch", "float8_e4m3fnuz", SFT__G_DTYPE, SFT_F8_E4M3FNUZ},
    {"torch", "float8_e5m2", SFT__G_DTYPE, SFT_F8_E5M2},
    {"torch", "float8_e5m2fnuz", SFT__G_DTYPE, SFT_F8_E5M2FNUZ},
    {"torch", "float8_e8m0fnu", SFT__G_DTYPE, SFT_F8_E8M0},
    {"torch", "half", SFT__G_DTYPE, SFT_F16},
    {"torch", "int", SFT__G_DTYPE, SFT_I32},
    {"torch", "int1", SFT__G_DTYPE, 0},
    {"torch", "int16", SFT__G_DTYPE, SFT_I16},
    {"torch", "int2", SFT__G_DTYPE, 0},
    {"torch", "int3", SFT__G_DTYPE, 0},
    {"torch", "int32", SFT__G_DTYPE, SFT_I32},
    {"torch", "int4", SFT__G_DTYPE, 0},
    {"torch", "int5", SFT__G_DTYPE, 0},
    {"torch", "int6", SFT__G_DTYPE, 0},
    {"torch", "int64", SFT__G_DTYPE, SFT_I64},
    {"torch", "int7", SFT__G_DTYPE, 0},
    {"torch", "int8", SFT__G_DTYPE, SFT_I8},
    {"torch", "jagged", SFT__G_INERT, 0},
    {"torch", "long", SFT__G_DTYPE, SFT_I64},
    {"torch", "per_channel_affine", SFT__G_QSCHEME, 1},
    {"torch", "per_channel_affine_float_qparams", SFT__G_QSCHEME, 1},
    {"torch", "per_channel_symmetric", SFT__G_QSCHEME, 1},
    {"torch", "per_tensor_affine", SFT__G_QSCHEME, 0},
    {"torch", "per_tensor_symmetric", SFT__G_QSCHEME, 0},
    {"torch", "preserve_format", SFT__G_INERT, 0},
    {"torch", "qint32", SFT__G_DTYPE, SFT_I32},
    {"torch", "qint8", SFT__G_DTYPE, SFT_I8},
    {"torch", "quint2x4", SFT__G_DTYPE, 0},
    {"torch", "quint4x2", SFT__G_DTYPE, 0},
    {"torch", "quint8", SFT__G_DTYPE, SFT_U8},
    {"torch", "short", SFT__G_DTYPE, SFT_I16},
    {"torch", "sparse_bsc", SFT__G_INERT, 0},
    {"torch", "sparse_bsr", SFT__G_INERT, 0},
    {"torch", "sparse_coo", SFT__G_INERT, 0},
    {"torch", "sparse_csc", SFT__G_INERT, 0},
    {"torch", "sparse_csr", SFT__G_INERT, 0},
    {"torch", "strided", SFT__G_INERT, 0},
    {"torch", "uint1", SFT__G_DTYPE, 0},
    {"torch", "uint16", SFT__G_DTYPE, SFT_U16},
    {"torch", "uint2", SFT__G_DTYPE, 0},
    {"torch", "uint3", SFT__G_DTYPE, 0},
    {"torch", "uint32", SFT__G_DTYPE, SFT_U32},
    {"torch", "uint4", SFT__G_DTYPE, 0},
    {"torch", "uint5", SFT__G_DTYPE, 0},
    {"torch", "uint6", SFT__G_DTYPE, 0},
    {"torch", "uint64", SFT__G_DTYPE, SFT_U64},
    {"torch", "uint7", SFT__G_DTYPE, 0},
    {"torch", "uint8", SFT__G_DTYPE, SFT_U8},
    {"torch._C", "_disabled_torch_function_impl", SFT__G_INERT, 0},
    {"torch._dynamo.decorators", "_DimRange", SFT__G_INERT, 0},
    {"torch._tensor", "Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torch._tensor", "_rebuild_from_type", SFT__G_REBUILD_FROM_TYPE, 0},
    {"torch._tensor", "_rebuild_from_type_v2", SFT__G_REBUILD_FROM_TYPE, 0},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", SFT__G_REBUILD_FROM_CPU, 0},
    {"torch._utils", "_rebuild_device_tensor_from_numpy", SFT__G_REBUILD_FROM_NUMPY, 0},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", SFT__G_REBUILD_META, 0},
    {"torch._utils", "_rebuild_nested_tensor", SFT__G_REBUILD_NESTED, 0},
    {"torch._utils", "_rebuild_parameter", SFT__G_REBUILD_PARAMETER, 0},
    {"torch._utils", "_rebuild_parameter_with_state", SFT__G_REBUILD_PARAMETER, 0},
    {"torch._utils", "_rebuild_qtensor", SFT__G_REBUILD_QTENSOR, 0},
    {"torch._utils", "_rebuild_sparse_csr_tensor", SFT__G_REBUILD_SPARSE_CSR, 0},
    {"torch._utils", "_rebuild_sparse_tensor", SFT__G_REBUILD_SPARSE, 0},
    {"torch._utils", "_rebuild_tensor", SFT__G_REBUILD_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", SFT__G_REBUILD_TENSOR_V2, 0},
    {"torch._utils", "_rebuild_tensor_v3", SFT__G_REBUILD_TENSOR_V3, 0},
    {"torch._utils", "_rebuild_wrapper_subclass", SFT__G_REBUILD_WRAPPER, 0},
    {"torch._utils", "_rebuild_xla_tensor", SFT__G_REBUILD_FROM_NUMPY, 0},
    {"torch.autograd.variable", "Variable", SFT__G_PARAMETER, 0},
    {"torch.cuda", "BFloat16Storage", SFT__G_STORAGE, SFT_BF16},
    {"torch.cuda", "BFloat16Tensor", SFT__G_TENSOR_CLASS, SFT_BF16},
    {"torch.cuda", "BoolStorage", SFT__G_STORAGE, SFT_BOOL},
    {"torch.cuda", "BoolTensor", SFT__G_TENSOR_CLASS, SFT_BOOL},
    {"torch.cuda", "ByteStorage", SFT__G_STORAGE, SFT_U8},
    {"torch.cuda", "ByteTensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.cuda", "CharStorage", SFT__G_STORAGE, SFT_I8},
    {"torch.cuda", "CharTensor", SFT__G_TENSOR_CLASS, SFT_I8},
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
    {"torch.cuda", "IntStorage", SFT__G_STORAGE, SFT_I32},
    {"torch.cuda", "IntTensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.cuda", "LongStorage", SFT__G_STORAGE, SFT_I64},
    {"torch.cuda", "LongTensor", SFT__G_TENSOR_CLASS, SFT_I64},
    {"torch.cuda", "QInt32Storage", SFT__G_STORAGE, SFT_I32},
    {"torch.cuda", "QInt32Tensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.cuda", "QInt8Storage", SFT__G_STORAGE, SFT_I8},
    {"torch.cuda", "QInt8Tensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch.cuda", "QUInt8Storage", SFT__G_STORAGE, SFT_U8},
    {"torch.cuda", "QUInt8Tensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.cuda", "ShortStorage", SFT__G_STORAGE, SFT_I16},
    {"torch.cuda", "ShortTensor", SFT__G_TENSOR_CLASS, SFT_I16},
    {"torch.cuda", "UntypedStorage", SFT__G_STORAGE, 0},
    {"torch.cuda.sparse", "BFloat16Tensor", SFT__G_TENSOR_CLASS, SFT_BF16},
    {"torch.cuda.sparse", "BoolTensor", SFT__G_TENSOR_CLASS, SFT_BOOL},
    {"torch.cuda.sparse", "ByteTensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.cuda.sparse", "CharTensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch.cuda.sparse", "ComplexDoubleTensor", SFT__G_TENSOR_CLASS, SFT__C128},
    {"torch.cuda.sparse", "ComplexFloatTensor", SFT__G_TENSOR_CLASS, SFT_C64},
    {"torch.cuda.sparse", "DoubleTensor", SFT__G_TENSOR_CLASS, SFT_F64},
    {"torch.cuda.sparse", "FloatTensor", SFT__G_TENSOR_CLASS, SFT_F32},
    {"torch.cuda.sparse", "HalfTensor", SFT__G_TENSOR_CLASS, SFT_F16},
    {"torch.cuda.sparse", "IntTensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.cuda.sparse", "LongTensor", SFT__G_TENSOR_CLASS, SFT_I64},
    {"torch.cuda.sparse", "QInt32Tensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.cuda.sparse", "QInt8Tensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch.cuda.sparse", "QUInt8Tensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.cuda.sparse", "ShortTensor", SFT__G_TENSOR_CLASS, SFT_I16},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", SFT__G_INERT, 0},
    {"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.filesystem", "_StoragePrefix", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "BytesStorageMetadata", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "ChunkStorageMetadata", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "Metadata", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "MetadataIndex", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "StorageMeta", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "TensorProperties", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "TensorStorageMetadata", SFT__G_INERT, 0},
    {"torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING", SFT__G_INERT, 0},
    {"torch.jit._pickle", "build_boollist", SFT__G_INERT, 0},
    {"torch.jit._pickle", "build_doublelist", SFT__G_INERT, 0},
    {"torch.jit._pickle", "build_intlist", SFT__G_INERT, 0},
    {"torch.jit._pickle", "build_tensor_from_id", SFT__G_INERT, 0},
    {"torch.jit._pickle", "build_tensorlist", SFT__G_INERT, 0},
    {"torch.jit._pickle", "restore_type_tag", SFT__G_INERT, 0},
    {"torch.nested._internal.nested_tensor", "NestedTensor", SFT__G_TENSOR_CLASS, 0},
    {"torch.nested._internal.nested_tensor", "_rebuild_njt", SFT__G_INERT, 0},
    {"torch.nn.parameter", "Buffer", SFT__G_TENSOR_CLASS, 0},
    {"torch.nn.parameter", "Parameter", SFT__G_PARAMETER, 0},
    {"torch.nn.parameter", "UninitializedParameter", SFT__G_INERT, 0},
    {"torch.serialization", "_get_layout", SFT__G_INERT, 0},
    {"torch.sparse", "BFloat16Tensor", SFT__G_TENSOR_CLASS, SFT_BF16},
    {"torch.sparse", "BoolTensor", SFT__G_TENSOR_CLASS, SFT_BOOL},
    {"torch.sparse", "ByteTensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.sparse", "CharTensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch.sparse", "ComplexDoubleTensor", SFT__G_TENSOR_CLASS, SFT__C128},
    {"torch.sparse", "ComplexFloatTensor", SFT__G_TENSOR_CLASS, SFT_C64},
    {"torch.sparse", "DoubleTensor", SFT__G_TENSOR_CLASS, SFT_F64},
    {"torch.sparse", "FloatTensor", SFT__G_TENSOR_CLASS, SFT_F32},
    {"torch.sparse", "HalfTensor", SFT__G_TENSOR_CLASS, SFT_F16},
    {"torch.sparse", "IntTensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.sparse", "LongTensor", SFT__G_TENSOR_CLASS, SFT_I64},
    {"torch.sparse", "QInt32Tensor", SFT__G_TENSOR_CLASS, SFT_I32},
    {"torch.sparse", "QInt8Tensor", SFT__G_TENSOR_CLASS, SFT_I8},
    {"torch.sparse", "QUInt8Tensor", SFT__G_TENSOR_CLASS, SFT_U8},
    {"torch.sparse", "ShortTensor", SFT__G_TENSOR_CLASS, SFT_I16},
    {"torch.storage", "TypedStorage", SFT__G_STORAGE, 0},
    {"torch.storage", "UntypedStorage", SFT__G_STORAGE, 0},
    {"torch.storage", "_UntypedStorage", SFT__G_STORAGE, 0},
    {"torch.torch_version", "TorchVersion", SFT__G_INERT, 0},
    {"torch.utils.data.dataset", "ConcatDataset", SFT__G_INERT, 0},
    {"torch.utils.data.dataset", "Subset", SFT__G_INERT, 0},
    {"torch.utils.data.dataset", "TensorDataset", SFT__G_INERT, 0},
    {"torch.utils.hooks", "unserializable_hook", SFT__G_INERT, 0},
    {"torchao.dtypes.affine_quantized_tensor", "AffineQuantizedTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.dtypes.nf4tensor", "NF4Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.float8.inference", "Float8MMConfig", SFT__G_INERT, 0},
    {"torchao.prototype.mx_formats.config", "ScaleCalculationMode", SFT__G_INERT, 0},
    {"torchao.prototype.mx_formats.mx_tensor", "MXTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.prototype.mx_formats.mx_tensor", "QuantizeTensorToMXKwargs", SFT__G_INERT, 0},
    {"torchao.prototype.mx_formats.nvfp4_tensor", "NVFP4Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.prototype.mx_formats.nvfp4_tensor", "QuantizeTensorToNVFP4Kwargs", SFT__G_INERT, 0},
    {"torchao.quantization", "Float8Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "Int4PlainInt32Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "Int4PreshuffledTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "Int4Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "Int4TilePackedTo4dTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "Int8Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "IntxOpaqueTensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization", "IntxUnpackedToInt8Tensor", SFT__G_TENSOR_CLASS, 0},
    {"torchao.quantization.granularity", "PerAxis", SFT__G_INERT, 0},
    {"torchao.quantization.granularity", "PerBlock", SFT__G_INERT, 0},
    {"torchao.quantization.granularity", "PerGroup", SFT__G_INERT, 0},
    {"torchao.quantization.granularity", "PerRow", SFT__G_INERT, 0},
    {"torchao.quantization.granularity", "PerTensor", SFT__G_INERT, 0},
    {"torchao.quantization.granularity", "PerToken", SFT__G_INERT, 0},
    {"torchao.quantization.quant_primitives", "MappingType", SFT__G_INERT, 0},
    {"torchao.quantization.quant_primitives", "ZeroPointDomain", SFT__G_INERT, 0},
    {"torchao.quantization.quantize_.common.kernel_preference", "KernelPreference", SFT__G_INERT, 0},
    {"torchao.quantization.quantize_.workflows.float8.float8_tensor",
     "QuantizeTensorToFloat8Kwargs", SFT__G_INERT, 0},
    {"torchao.quantization.quantize_.workflows.int8.int8_tensor",
     "QuantizeTensorToInt8Kwargs", SFT__G_INERT, 0},
    {"types", "SimpleNamespace", SFT__G_INERT, 0},
    {"typing", "Any", SFT__G_INERT, 0},
    {"uuid", "UUID", SFT__G_INERT, 0},
};
/* clang-format on */

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

/* The first row of a module at or behind this name of it. */
static size_t row_of(const char *module, size_t module_len, const char *name, size_t name_len) {
    size_t low = 0;
    size_t high = sizeof rows / sizeof rows[0];

    while (low < high) {
        const size_t middle = (low + high) / 2;
        int order = compare(module, module_len, rows[middle].module);
        order = order != 0 ? order : compare(name, name_len, rows[middle].name);
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const sft__import_global *sft__import_global_find(const char *module, size_t module_len,
                                                  const char *name, size_t name_len) {
    canonical(&module, &module_len);
    const size_t at = row_of(module, module_len, name, name_len);

    return at < sizeof rows / sizeof rows[0] && compare(module, module_len, rows[at].module) == 0 &&
                   compare(name, name_len, rows[at].name) == 0
               ? &rows[at]
               : NULL;
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
    const size_t at = row_of(module, len, "", 0);
    return at < sizeof rows / sizeof rows[0] && compare(module, len, rows[at].module) == 0;
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
    if (row != NULL && row->known == SFT__G_NP_NDARRAY && strcmp(row->name, "memmap") == 0) {
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
