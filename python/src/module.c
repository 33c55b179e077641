/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * module.c - the extension module safetensors_c._core: what it exports, and its state. Read core.h first.
 */
#include "core.h"

core_state *core_state_of(PyObject *module) {
    return PyModule_GetState(module);
}

PyObject *core_once(PyObject **slot, PyObject *fresh) {
    PyObject *none = NULL;
    if (__atomic_compare_exchange_n(slot, &none, fresh, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        return fresh;
    }
    Py_DECREF(fresh);
    return none;
}

static PyMethodDef methods[] = {
    {"serialize", CORE_METHOD(core_serialize), CORE_KEYWORDS,
     "serialize(tensor_dict, metadata=None, *, digests=None, progress=None)\n--\n\nA file as "
     "bytes."},
    {"serialize_file", CORE_METHOD(core_serialize_file), CORE_KEYWORDS,
     "serialize_file(tensor_dict, filename, metadata=None, *, durable=False, digests=None, "
     "sidecar=False, new_only=False, data_alignment=None, progress=None)\n--\n\nWrites a file; it "
     "appears at once or not at all."},
    {"serialize_fd", CORE_METHOD(core_serialize_fd), CORE_KEYWORDS,
     "serialize_fd(tensor_dict, fd, metadata=None, *, digests=None, progress=None)\n--\n\n"
     "Writes a file as a stream into a descriptor."},
    {"_load_bytes", core_load_bytes, METH_VARARGS,
     "_load_bytes(data, framework): what load() of a module gives."},
    {"_array_address", core_array_address, METH_O,
     "_array_address(array, /): array.ctypes.data, in a tenth of its time."},
    {"_glob", core_glob, METH_VARARGS,
     "_glob(pattern, names, /)\n--\n\nThe names that match a pattern, in their order."},
    {"_without", core_without, METH_NOARGS,
     "_without()\n--\n\nBits of the processor's features that SFT_CPU leaves out."},
    {"deserialize", CORE_METHOD(core_deserialize), CORE_KEYWORDS,
     "deserialize(bytes)\n--\n\n[(name, {'shape': ..., 'dtype': ..., 'data': bytearray}), ...]"},
    {"_safe_open_handle", CORE_METHOD(core_safe_open_handle), CORE_KEYWORDS,
     "_safe_open_handle(f, framework, device='cpu', *, backend='mmap')\n--\n\nsafe_open of a file "
     "object."},
    {"_cuda_open", CORE_METHOD(core_cuda_open), CORE_KEYWORDS,
     "_cuda_open(device, driver=None, memory=None)\n--\n\nA GPU, as a capsule."},
    {"_cuda_info", core_cuda_info, METH_O,
     "_cuda_info(device, /)\n--\n\nWhat a device is and holds."},
    {"_cuda_load", CORE_METHOD(core_cuda_load), CORE_KEYWORDS,
     "_cuda_load(device, handle, names, slices, direct, progress)\n--\n\n"
     "(load, [(name, dtype, shape, nbytes, address), ...])"},
    {"_cuda_dlpack", core_cuda_dlpack, METH_VARARGS,
     "_cuda_dlpack(load, index, as_bytes, versioned, /)\n--\n\nA capsule of DLPack's."},
    {"_cuda_stats", core_cuda_stats, METH_O, "_cuda_stats(load, /)\n--\n\nWhat a load did."},
    {"_open_checkpoint", CORE_METHOD(core_open_checkpoint), CORE_KEYWORDS,
     "_open_checkpoint(path, framework, device='cpu', *, layout=None, step=None, ranks=None, "
     "partial=False)\n--\n\n"
     "A handle over the checkpoint of a training job."},
    {"_left_out", core_left_out, METH_O,
     "_left_out(handle, /)\n--\n\n[(name, sentence)] of tensors that are not complete in the "
     "files."},
    {"_part", CORE_METHOD(core_part), CORE_KEYWORDS,
     "_part(handle, layout, rank, *, ranks=None, allow_replicated=False)\n--\n\nA handle over what "
     "one rank holds of a model."},
    {"_read_layout", core_read_layout, METH_VARARGS,
     "_read_layout(layout, ranks, /)\n--\n\n(our own JSON, the number of ranks)"},
    {"_rules_known", core_rules_known, METH_O,
     "_rules_known(name, /)\n--\n\nDo rules of that name come with the library?"},
    {"_rules_nearest", core_rules_nearest, METH_O,
     "_rules_nearest(name, /)\n--\n\nThe most like of the names of such rules, or None."},
    {"_renamed", CORE_METHOD(core_renamed), CORE_KEYWORDS,
     "_renamed(handle, rules, reverse, config, warnings)\n--\n\nA handle over a model under other "
     "names."},
    {"_save_group", CORE_METHOD(core_save_group), CORE_KEYWORDS, "What distributed.save does."},
    {"_load_group", CORE_METHOD(core_load_group), CORE_KEYWORDS, "What distributed.load does."},
    {"open_any", CORE_METHOD(core_open_any), CORE_KEYWORDS,
     "open_any(filename, framework='pt', device='cpu', *, backend='mmap', key=None, dedup='hf', "
     "allow_opaque=False, no_crc=False, checksums=False, follow_links=False, dequantize=False, "
     "tree=False)\n--\n\n"
     "safe_open of a file of any known format (PyTorch, numpy, GGUF, ONNX, HDF5, safetensors ...) "
     "or "
     "a directory, also one of the ranks of a training job. Nothing of it is executed."},
    {"_convert", CORE_METHOD(core_convert), CORE_KEYWORDS, "What safetensors_c.convert calls."},
    {"_reopen", core_reopen, METH_VARARGS, "What a pickled handle comes back through."},
    {NULL, NULL, 0, NULL},
};

/* The types, where they lie in the state, and the names of those that the module shows. */
static const struct {
    size_t at;
    PyType_Spec *spec;
    const char *name;
} types[] = {
    {offsetof(core_state, memory_type), &core_memory_spec, NULL},
    {offsetof(core_state, view_type), &core_view_spec, NULL},
    {offsetof(core_state, handle_type), &core_handle_spec, "safe_open"},
    {offsetof(core_state, slice_type), &core_slice_spec, "PySafeSlice"},
    {offsetof(core_state, meta_type), &core_meta_spec, "TensorMeta"},
    {offsetof(core_state, spec_type), &core_spec_spec, "TensorSpec"},
    {offsetof(core_state, writer_type), &core_writer_spec, "Writer"},
    {offsetof(core_state, stream_type), &core_stream_spec, "TensorStream"},
    {offsetof(core_state, run_type), &core_run_spec, "_Run"},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* All other objects that the state holds as long as the module is there. */
static const struct {
    size_t at, count;
} objects[] = {
    {offsetof(core_state, error), 1},
    {offsetof(core_state, torch_from_dlpack), 1},
    {offsetof(core_state, torch_modes), 1},
    {offsetof(core_state, torch_dtype), SFT_DTYPE_COUNT + 1},
    {offsetof(core_state, numpy_ndarray), 1},
    {offsetof(core_state, numpy_dtype), SFT_DTYPE_COUNT + 1},
    {offsetof(core_state, slice_fields), 3},
};
enum { OBJECTS = sizeof objects / sizeof objects[0] };

static PyObject **member(core_state *s, size_t at) {
    return (PyObject **)(void *)((char *)s + at);
}

static bool add_types(PyObject *module) {
    for (size_t i = 0; i < TYPES; i++) {
        PyObject *type = PyType_FromModuleAndSpec(module, types[i].spec, NULL);
        *member(core_state_of(module), types[i].at) = type;
        if (type == NULL ||
            (types[i].name != NULL && PyModule_AddObjectRef(module, types[i].name, type) < 0)) {
            return false;
        }
    }
    return true;
}

/* Before 3.12 a thread of another interpreter that calls PyGILState_Ensure waits for itself, for ever. */
static bool may_live_here(void) {
#if PY_VERSION_HEX >= 0x030B0000
    const unsigned long version = Py_Version;
#else
    const unsigned long version = PY_VERSION_HEX;
#endif
    if (version >= 0x030C0000 || PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) {
        return true;
    }
    PyErr_SetString(PyExc_ImportError,
                    "safetensors_c needs Python 3.12 or later in a subinterpreter");
    return false;
}

static int module_exec(PyObject *module) {
    static const char *const fields[3] = {"start", "stop", "step"};
    core_state *s = core_state_of(module);
    PyObject *dtypes;
    bool done;

    if (!may_live_here()) {
        return -1;
    }
    s->error = core_error_class();
    s->spare = core_spare_new();
    if (s->spare == NULL) {
        core_no_memory(0);
        return -1;
    }
    if (!core_read_cpu(s)) {
        return -1;
    }
    for (size_t i = 0; i < 3; i++) {
        s->slice_fields[i] = PyUnicode_InternFromString(fields[i]);
        if (s->slice_fields[i] == NULL) {
            return -1;
        }
    }
    dtypes = core_dtypes();
    done = s->error != NULL && dtypes != NULL &&
           PyModule_AddObjectRef(module, "SafetensorError", s->error) == 0 &&
           PyModule_AddStringConstant(module, "__version__", SFT_VERSION_STRING) == 0 &&
           PyModule_AddObjectRef(module, "_dtypes", dtypes) == 0 && add_types(module);
    Py_XDECREF(dtypes);
    return done ? 0 : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    core_state *s = core_state_of(module);

    for (size_t i = 0; i < TYPES; i++) {
        Py_VISIT(*member(s, types[i].at));
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        for (size_t k = 0; k < objects[i].count; k++) {
            Py_VISIT(member(s, objects[i].at)[k]);
        }
    }
    return 0;
}

static int module_clear(PyObject *module) {
    core_state *s = core_state_of(module);

    for (size_t i = 0; i < TYPES; i++) {
        Py_CLEAR(*member(s, types[i].at));
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        for (size_t k = 0; k < objects[i].count; k++) {
            Py_CLEAR(member(s, objects[i].at)[k]);
        }
    }
    return 0;
}

static void module_free(void *module) {
    core_state *s = core_state_of(module);

    (void)module_clear(module);
    Py_CLEAR(s->cpu); /* not before: the pool is made with it */
    core_remote_end(s);
    core_spare_end(s->spare);
    s->spare = NULL;
    /* In a child its threads do not exist, and joining them would wait for ever. */
    if (s->pool != NULL && s->pool_process == core_process()) {
        sft_pool_free(s->pool);
        s->pool = NULL;
    }
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
#if defined(Py_mod_multiple_interpreters)
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if defined(Py_GIL_DISABLED) && defined(Py_mod_gil)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "safetensors_c._core",
    .m_doc = "safetensors on libsafetensors: the part in C.",
    .m_size = sizeof(core_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void) {
    return PyModuleDef_Init(&definition);
}
