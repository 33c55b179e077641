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

#define CALL(name) ((PyCFunction)(void (*)(void))(name))
static PyMethodDef methods[] = {
    {"serialize", CALL(core_serialize), METH_VARARGS | METH_KEYWORDS,
     "serialize(tensor_dict, metadata=None, *, digests=None, progress=None)\n--\n\nA file as "
     "bytes."},
    {"serialize_file", CALL(core_serialize_file), METH_VARARGS | METH_KEYWORDS,
     "serialize_file(tensor_dict, filename, metadata=None, *, durable=False, digests=None, "
     "sidecar=False, "
     "new_only=False, data_alignment=None, progress=None)\n--\n\nWrites a file; it appears at once "
     "or not at all."},
    {"serialize_fd", CALL(core_serialize_fd), METH_VARARGS | METH_KEYWORDS,
     "serialize_fd(tensor_dict, fd, metadata=None, *, digests=None, progress=None)\n--\n\n"
     "Writes a file as a stream into a descriptor."},
    {"_load_bytes", core_load_bytes, METH_VARARGS,
     "_load_bytes(data, framework): what load() of a module gives."},
    {"_array_address", core_array_address, METH_O,
     "_array_address(array, /): array.ctypes.data, in a tenth of its time."},
    {"_glob", core_glob, METH_VARARGS,
     "_glob(pattern, names, /)\n--\n\nThe names that a pattern fits, in their order."},
    {"_without", core_without, METH_NOARGS,
     "_without()\n--\n\nBits of the processor's features that SFT_CPU leaves out."},
    {"deserialize", CALL(core_deserialize), METH_VARARGS | METH_KEYWORDS,
     "deserialize(bytes)\n--\n\n[(name, {'shape': ..., 'dtype': ..., 'data': bytearray}), ...]"},
    {"_safe_open_handle", CALL(core_safe_open_handle), METH_VARARGS | METH_KEYWORDS,
     "_safe_open_handle(f, framework, device='cpu', *, backend='mmap')\n--\n\nsafe_open of a file "
     "object."},
    {"_cuda_open", CALL(core_cuda_open), METH_VARARGS | METH_KEYWORDS,
     "_cuda_open(device, driver=None, memory=None)\n--\n\nA GPU, as a capsule."},
    {"_cuda_info", core_cuda_info, METH_O,
     "_cuda_info(device, /)\n--\n\nWhat a device is and holds."},
    {"_cuda_load", CALL(core_cuda_load), METH_VARARGS | METH_KEYWORDS,
     "_cuda_load(device, handle, names, slices, direct, progress)\n--\n\n"
     "(load, [(name, dtype, shape, nbytes, address), ...])"},
    {"_cuda_dlpack", core_cuda_dlpack, METH_VARARGS,
     "_cuda_dlpack(load, index, as_bytes, versioned, /)\n--\n\nA capsule of DLPack's."},
    {"_cuda_stats", core_cuda_stats, METH_O, "_cuda_stats(load, /)\n--\n\nWhat a load did."},
    {"_open_checkpoint", CALL(core_open_checkpoint), METH_VARARGS | METH_KEYWORDS,
     "_open_checkpoint(path, framework, device='cpu', *, layout=None, step=None, ranks=None, "
     "partial=False)\n--\n\n"
     "A handle over the whole of a training job's folder."},
    {"_left_out", core_left_out, METH_O,
     "_left_out(handle, /)\n--\n\n[(name, sentence)] of tensors that are not whole in the files."},
    {"_part", CALL(core_part), METH_VARARGS | METH_KEYWORDS,
     "_part(handle, layout, rank, *, ranks=None, allow_replicated=False)\n--\n\nA handle over what "
     "one rank holds of a model."},
    {"_save_group", CALL(core_save_group), METH_VARARGS | METH_KEYWORDS,
     "What distributed.save does."},
    {"_load_group", CALL(core_load_group), METH_VARARGS | METH_KEYWORDS,
     "What distributed.load does."},
    {"open_any", CALL(core_open_any), METH_VARARGS | METH_KEYWORDS,
     "open_any(filename, framework='pt', device='cpu', *, backend='mmap', key=None, dedup='hf', "
     "allow_opaque=False, "
     "no_crc=False, checksums=False, follow_links=False, dequantize=False, tree=False)\n--\n\n"
     "safe_open of a file of any known format: PyTorch, numpy, GGUF, ONNX, HDF5, safetensors ... "
     "Nothing of it is "
     "executed."},
    {"_convert", CALL(core_convert), METH_VARARGS | METH_KEYWORDS,
     "What safetensors_c.convert calls."},
    {"_reopen", core_reopen, METH_VARARGS, "What a pickled handle comes back through."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && name != NULL && PyModule_AddObjectRef(module, name, type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

static int module_exec(PyObject *module) {
    core_state *s = core_state_of(module);
    PyObject *dtypes = core_dtypes();

    s->error = core_error_class();
    s->converters = PyDict_New();
    s->spare = core_spare_new();
    if (s->spare == NULL) {
        core_no_memory(0);
        return -1;
    }
    if (!core_read_cpu(s)) {
        return -1;
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const fields[3] = {"start", "stop", "step"};
        s->slice_fields[i] = PyUnicode_InternFromString(fields[i]);
        if (s->slice_fields[i] == NULL) {
            return -1;
        }
    }
    if (s->error == NULL || s->converters == NULL ||
        PyModule_AddObjectRef(module, "SafetensorError", s->error) < 0 ||
        PyModule_AddObjectRef(module, "_converters", s->converters) < 0 ||
        PyModule_AddStringConstant(module, "__version__", SFT_VERSION_STRING) < 0 ||
        PyModule_AddObjectRef(module, "_dtypes", dtypes) < 0) {
        Py_XDECREF(dtypes);
        return -1;
    }
    Py_DECREF(dtypes);
    s->memory_type = add_type(module, &core_memory_spec, NULL);
    s->view_type = add_type(module, &core_view_spec, NULL);
    s->handle_type = add_type(module, &core_handle_spec, "safe_open");
    s->slice_type = add_type(module, &core_slice_spec, "PySafeSlice");
    s->meta_type = add_type(module, &core_meta_spec, "TensorMeta");
    s->spec_type = add_type(module, &core_spec_spec, "TensorSpec");
    s->writer_type = add_type(module, &core_writer_spec, "Writer");
    s->stream_type = add_type(module, &core_stream_spec, "TensorStream");
    s->run_type = add_type(module, &core_run_spec, "_Run");
    return s->memory_type == NULL || s->view_type == NULL || s->handle_type == NULL ||
                   s->slice_type == NULL || s->meta_type == NULL || s->spec_type == NULL ||
                   s->writer_type == NULL || s->stream_type == NULL || s->run_type == NULL
               ? -1
               : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    core_state *s = core_state_of(module);

    Py_VISIT(s->error);
    Py_VISIT(s->converters);
    Py_VISIT(s->memory_type);
    Py_VISIT(s->view_type);
    Py_VISIT(s->handle_type);
    Py_VISIT(s->slice_type);
    Py_VISIT(s->meta_type);
    Py_VISIT(s->spec_type);
    Py_VISIT(s->writer_type);
    Py_VISIT(s->stream_type);
    Py_VISIT(s->run_type);
    Py_VISIT(s->torch_from_dlpack);
    Py_VISIT(s->torch_modes);
    Py_VISIT(s->numpy_ndarray);
    for (size_t i = 0; i <= SFT_DTYPE_COUNT; i++) {
        Py_VISIT(s->torch_dtype[i]);
        Py_VISIT(s->numpy_dtype[i]);
    }
    return 0;
}

static int module_clear(PyObject *module) {
    core_state *s = core_state_of(module);

    Py_CLEAR(s->error);
    Py_CLEAR(s->converters);
    Py_CLEAR(s->memory_type);
    Py_CLEAR(s->view_type);
    Py_CLEAR(s->handle_type);
    Py_CLEAR(s->slice_type);
    Py_CLEAR(s->meta_type);
    Py_CLEAR(s->spec_type);
    Py_CLEAR(s->writer_type);
    Py_CLEAR(s->stream_type);
    Py_CLEAR(s->run_type);
    Py_CLEAR(s->torch_from_dlpack);
    Py_CLEAR(s->torch_modes);
    Py_CLEAR(s->numpy_ndarray);
    for (size_t i = 0; i < 3; i++) {
        Py_CLEAR(s->slice_fields[i]);
    }
    for (size_t i = 0; i <= SFT_DTYPE_COUNT; i++) {
        Py_CLEAR(s->torch_dtype[i]);
        Py_CLEAR(s->numpy_dtype[i]);
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
