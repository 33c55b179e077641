/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * core.h - what the files of the extension share. All state hangs on the module or on objects; what is
 * shared between threads is either immutable, counted with atomics, or replaced as a unit by a
 * compare-and-exchange, so the extension runs without the GIL too. The library is reached through its
 * public interface alone (sft.h, the amalgamated <sft/...>).
 *
 * core_memory and core_file are plain C with a count of their own: a tensor may outlive the interpreter's
 * thread that made it, and its deleter must not need the GIL.
 */
#ifndef SFT_PYTHON_CORE_H
#define SFT_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sft.h"
#include <sft/checkpoint_group.h>
#include <sft/checkpoint_open.h>
#include <sft/import.h>
#include <sft/names.h>
#include <sft/remote.h>

struct core_state;

#define CORE_MAX_RANK 64

#if defined(Py_GIL_DISABLED)
#define CORE_BEGIN_LOCKED(object) Py_BEGIN_CRITICAL_SECTION(object)
#define CORE_END_LOCKED()         Py_END_CRITICAL_SECTION()
#else
#define CORE_BEGIN_LOCKED(object) {
#define CORE_END_LOCKED()         }
#endif

/* Py_SETREF is not for the limited API. */
#define CORE_SET(variable, value)                                                                  \
    do {                                                                                           \
        PyObject *core_old_ = (variable);                                                          \
        (variable) = (value);                                                                      \
        Py_DECREF(core_old_);                                                                      \
    } while (0)

/* ---------------------------------------------------------------- memory.c */

typedef enum core_memory_kind {
    CORE_HEAP = 1,  /* malloc, behind the core_memory */
    CORE_PAGES = 2, /* anonymous pages, huge where the system has them */
    CORE_MAP = 3,   /* a private copy-on-write mapping of a file */
    CORE_VIEW = 4   /* the buffer of a Python object */
} core_memory_kind;

typedef struct core_memory {
    size_t refs; /* atomic */
    unsigned char *base;
    size_t size;
    size_t room;              /* CORE_PAGES: what was allocated, size or more */
    struct core_spare *spare; /* CORE_PAGES: where they go */
    core_memory_kind kind;
    bool readonly;
    Py_buffer view; /* CORE_VIEW */
} core_memory;

/* Pages that wait for their next use. */
typedef struct core_spare core_spare;
core_spare *core_spare_new(void);
void core_spare_end(core_spare *spare); /* NULL is fine; blocks in use stay */

/* Writable memory of its own, not cleared; NULL without an exception when there is none. */
core_memory *core_memory_new(struct core_state *state, size_t size);
/* A private mapping of the first `size` bytes; NULL with an exception set. */
core_memory *core_memory_map(struct core_state *state, int fd, size_t size, const char *name);
core_memory *core_memory_view(PyObject *object);
core_memory *core_memory_keep(core_memory *memory);
void core_memory_drop(core_memory *memory); /* needs no GIL; NULL is fine */
/* The Python object that lends the memory through the buffer protocol. */
PyObject *core_memory_object(struct core_state *state, core_memory *memory);
extern PyType_Spec core_memory_spec;

/* pages_posix.c, pages_win.c: NULL or -1 on failure with errno (GetLastError) untouched. */
void *core_pages_map(int fd, size_t size, int *shorter);
void core_pages_unmap(void *base, size_t size);
void *core_pages_new(size_t size);
void core_pages_free(void *base, size_t size);
void core_pages_idle(void *base,
                     size_t size); /* a hint: what lies there is wanted no more, the room is */
void core_pages_huge(void *base, size_t size); /* a hint for memory that somebody else allocated */
long core_process(void);

/* ---------------------------------------------------------------- file.c */

/* park_posix.c: runs of `size` bytes that lie apart in mapped memory: rank counts and strides (bytes) between them, the
 * innermost first. base: where the tensor begins. */
typedef struct core_runs {
    const unsigned char *base;
    uint64_t offset, size;
    uint32_t rank;
    uint64_t count[CORE_MAX_RANK];
    int64_t stride[CORE_MAX_RANK];
} core_runs;
/* Copies them side by side, by the system, for which a page that the file has lost is an error and no signal.
 * 1: done; 0: this system has no such way; -1: a page is gone. */
int core_gather(const core_runs *runs, void *dst, size_t size);
/* park_posix.c: a catalog over one file gives its descriptor up where many are open; *map is then the private mapping
 * that tensors lie in (core_memory_map), else NULL. Never fails. */
void core_park(struct core_state *state, sft_catalog **catalog, core_memory **map);
void core_descriptors_add(size_t count); /* handles' descriptors, which are counted for it */
void core_descriptors_drop(size_t count);

/* What a file was when it was opened. */
typedef struct core_stamp {
    uint64_t inode, size;
    int64_t mtime_ns;
    bool known;
} core_stamp;
bool core_stamp_of(int fd, core_stamp *out);

/* An open catalog with its mappings. Counted; dropped with the GIL held. */
typedef struct core_file {
    size_t refs; /* atomic */
    sft_catalog *catalog;
    core_memory *bytes; /* what a catalog in memory lies in */
    core_memory **maps; /* one per source, made on first use */
    PyObject **lenders; /* the Python objects that lend them */
    size_t sources;
    size_t descriptors; /* that were counted */
    core_stamp *stamps; /* of the sources, where they are files */
    void *leaning;      /* what the catalog borrows from; NULL: nothing */
    void (*leaning_drop)(void *leaning);
} core_file;

/* how: NULL for safetensors, else a file of any format (open.c). mapped: its descriptor is not needed for long. */
core_file *core_file_open(struct core_state *state, PyObject *source, PyObject **name,
                          PyObject *how, const char *doing, bool mapped);
/* Takes the catalog over in every case. */
core_file *core_file_over(sft_catalog *catalog);
core_file *core_file_keep(core_file *file);
void core_file_drop(core_file *file);
/* Where the tensor's bytes lie in writable memory of the process, mapped if needed. memory, lender:
 * borrowed from the file. False with an exception. */
bool core_file_data(struct core_state *state, core_file *file, const sft_tensor *tensor,
                    unsigned char **data, core_memory **memory, PyObject **lender);
/* Whether the bytes of the tensor are still in its file; false with an exception. What lies in a mapping is asked for
 * before it is touched. */
bool core_file_holds(struct core_state *state, core_file *file, const sft_tensor *tensor);
bool core_file_can_map(core_file *file, const sft_tensor *tensor);

/* ---------------------------------------------------------------- module state */

typedef enum core_framework {
    CORE_TORCH = 0,
    CORE_NUMPY = 1,
    CORE_TENSORFLOW = 2,
    CORE_FLAX = 3,
    CORE_MLX = 4,
    CORE_PADDLE = 5,
    CORE_MINDSPORE = 6,
    CORE_FRAMEWORKS = 7
} core_framework;

typedef struct core_state {
    PyObject *error;
    PyTypeObject *memory_type;
    PyTypeObject *handle_type;
    PyTypeObject *slice_type;
    PyTypeObject *view_type;
    PyTypeObject *spec_type;
    PyTypeObject *meta_type;
    PyTypeObject *writer_type;
    PyTypeObject *stream_type;
    PyTypeObject *run_type;
    /* Looked up when first needed; from then on constant. */
    PyObject *torch_from_dlpack;
    PyObject *torch_modes; /* torch._C._len_torch_dispatch_stack, or NULL */
    PyObject *torch_dtype[SFT_DTYPE_COUNT + 1];
    PyObject *numpy_ndarray;
    PyObject *numpy_dtype[SFT_DTYPE_COUNT + 1];
    sft_pool *pool;    /* atomic */
    long pool_process; /* atomic: who made it */
    core_spare *spare;
    PyObject *slice_fields[3];  /* "start", "stop", "step" */
    struct core_remote *remote; /* atomic; remote.c */
    PyObject *cpu; /* bytes: what SFT_CPU said at import; NULL: nothing that is known */
} core_state;

core_state *core_state_of(PyObject *module);
/* The value of a slot that is filled once. Takes ownership of `fresh`. Borrowed. */
PyObject *core_once(PyObject **slot, PyObject *fresh);
PyObject *core_import_attribute(const char *module, const char *name);
/* The module's pool of workers, made on first use and again in a forked child; NULL: none to be had. */
const sft_pool *core_pool(core_state *state);
/* The pool for work on so many bytes: NULL where it would not pay and SFT_CPU says nothing. */
const sft_pool *core_pool_for(core_state *state, uint64_t bytes);
/* Takes SFT_CPU into the state; warns of a word in it that is none. False with an exception. */
bool core_read_cpu(core_state *state);

/* ---------------------------------------------------------------- library_posix.c, library_win.c */

/* getter: where a pointer to a function is put; if there is none, NULL, and why says why. */
bool core_library_symbol(const char *library, const char *symbol, void *getter, char *why,
                         size_t size);

/* ---------------------------------------------------------------- remote.c */

typedef struct core_remote_finding {
    core_state *state;
    bool failed; /* there is none: no libcurl, perhaps */
} core_remote_finding;
/* What the process reads URLs by, for sft_remote_opening: ctx is a core_remote_finding. Needs no GIL. */
sft_status core_remote_find(void *ctx, sft_remote **remote, sft_error *err);
sft_opener_row core_remote_row(const sft_remote_opening *opening);
/* Of a URL, for sft_checkpoint_options; ctx as above. */
sft_status core_remote_bytes(void *ctx, const char *url, sft_source **out, sft_error *err);
/* The bytes alone; false with an exception. */
bool core_remote_source(core_state *state, sft_source **out, const char *url);
void core_remote_end(core_state *state);

/* ---------------------------------------------------------------- checkpoint.c */

/* Text without NUL from a str; NULL with an exception. Lives as long as the object. */
const char *core_text(PyObject *value, const char *argument);
/* A layout set from a path (str) or the description itself (bytes); None: *out is NULL. ranks: None or a number. */
bool core_layouts(core_state *state, PyObject *value, PyObject *ranks, sft_layout_set **out);

/* Rules for names, and what they ask for. */
typedef struct core_naming {
    sft_names *names; /* owned */
    sft_names_options options;
} core_naming;
/* From (rules, reverse, config or None, list for warnings), which must live as long. False with an exception. */
bool core_naming_read(core_state *state, PyObject **values, core_naming *out);
/* With the GIL. */
sft_status core_naming_apply(const core_naming *naming, const sft_catalog *from, sft_catalog **out,
                             sft_error *err);

/* ---------------------------------------------------------------- open.c */

/* What sft_open is given, and how the answer is told. */
typedef struct core_opening {
    const char *path; /* NULL: the bytes of source */
    sft_source *source;
    const char *name; /* for warnings */
    PyObject *file;   /* FileNotFoundError names it; NULL: the library's own words */
    PyObject *how;    /* any format, as core_open_any was told; NULL: safetensors */
    const sft_checkpoint_options *ranks; /* checkpoints of many ranks, too; NULL: none */
    const char *doing;                   /* before what an error of safetensors says */
} core_opening;
/* The one door. The source is taken over in every case; false with an exception. */
bool core_open(core_state *state, sft_catalog **out, const core_opening *opening);
bool core_no_such_file(PyObject *name); /* raises; false */

#define CORE_HOW_PARAMETERS                                                                        \
    "key", "dedup", "allow_opaque", "no_crc", "checksums", "follow_links", "dequantize", "tree",   \
        "view_as"
#define CORE_HOW_COUNT 9
/* (key, dedup, flags, views) of the CORE_HOW_PARAMETERS: what a pickled handle keeps. New reference. */
PyObject *core_how_read(PyObject **values);
/* The options borrow from the tuple. views: borrowed, for core_view_begin. */
bool core_how_options(PyObject *how, sft_import_options *options, PyObject **views);

/* What tensors are taken for while a file is opened, by a thread that gave the GIL away. */
typedef struct core_viewing {
    PyThreadState **thread;
    PyObject *views; /* borrowed */
    PyObject *match; /* fnmatch.fnmatchcase */
    char *met;       /* by view: it fits a tensor */
} core_viewing;
bool core_view_begin(core_viewing *v, PyObject *views, PyThreadState **thread,
                     sft_import_options *options);
/* told: what fits no tensor is. */
bool core_view_end(core_viewing *v, bool told, const char *name);
/* What is not in the catalog is told, not swallowed; and what is in it more than once. */
bool core_warn_report(const sft_import_report *report, const char *name);

/* ---------------------------------------------------------------- error.c */

#define CORE_SERIALIZING "Error while serializing"

PyObject *core_error_class(void);
/* Raises for a status: SafetensorError with "<doing>: <text>", or MemoryError, KeyboardInterrupt ...;
 * returns NULL. doing may be NULL. */
PyObject *core_raise(core_state *state, const sft_error *err, const char *doing);
/* The same in the library's own words: what it says is not about safetensors. */
PyObject *core_raise_plain(core_state *state, const sft_error *err);
/* MemoryError that says how much was wanted (0: little); returns NULL. */
PyObject *core_no_memory(uint64_t bytes);
PyObject *core_raise_text(core_state *state, sft_status status, const char *tensor,
                          const char *format, ...);
/* The reference's sentence for a status. */
const char *core_reference_text(int32_t status);

/* ---------------------------------------------------------------- tensor.c, torch.c */

typedef struct core_place {
    unsigned char *data;
    core_memory *memory;
    PyObject *lender; /* of memory; NULL: made when needed */
} core_place;

int core_framework_find(const char *name, Py_ssize_t len); /* -1: none */
extern const char *const core_framework_name[CORE_FRAMEWORKS];

/* What tensors are made for. */
typedef struct core_target {
    core_framework framework;
    PyObject *device; /* NULL: the CPU */
} core_target;

/* A tensor of the framework over memory that it keeps alive. shape in elements. */
PyObject *core_tensor(core_state *state, const core_target *target, const sft_dtype *dtype,
                      const uint64_t *shape, uint32_t rank, const core_place *place);
PyObject *core_shape_tuple(const uint64_t *shape, size_t rank);
PyObject *core_shape_list(const uint64_t *shape, size_t rank);
PyObject *core_name(const sft_tensor *tensor);

/* Capsules over many tensors come from one slab. */
typedef struct core_slab core_slab;
core_slab *core_slab_new(size_t tensors, size_t dimensions, core_memory *memory);
void core_slab_drop(core_slab *slab);
PyObject *core_torch_tensor(core_state *state, core_slab *slab, const sft_dtype *dtype,
                            const uint64_t *shape, uint32_t rank, unsigned char *data);
bool core_torch_ready(core_state *state);

/* ---------------------------------------------------------------- load.c */

/* Lets Ctrl-C stop a long operation and reports its progress: the calling thread takes the GIL back for a moment
 * at intervals. */
typedef struct core_watch {
    sft_control control;
    sft_error err; /* for the call that is watched */
    PyThreadState *thread;
    unsigned long caller;
    PyObject *progress; /* callable(done, total) or NULL */
    bool failed;        /* an exception is set */
    int64_t last;       /* when Python was last asked */
    /* bytes done when the clock was last looked at, and how often we were called since */
    uint64_t seen;
    uint32_t calls;
} core_watch;

void core_watch_begin(core_watch *watch, PyObject *progress); /* releases the GIL */
void core_watch_end(core_watch *watch);                       /* takes it back */
/* The end of a call that returned `status` and has watch->err. False with the exception of the callback, or the
 * error's. */
bool core_watch_done(core_watch *watch, core_state *state, sft_status status, const char *doing);

typedef struct core_wish {
    core_target target;
    PyObject *names;    /* NULL: all */
    PyObject *progress; /* NULL or callable */
    bool owned;         /* in memory of our own */
    sft_strategy strategy;
    bool verify; /* compare with recorded digests while reading; only for owned memory */
} core_wish;

PyObject *core_load(core_state *state, core_file *file, const core_wish *wish);
/* Where a tensor lies in mapped memory. 1; 0: it cannot be mapped, but read; -1: an exception. */
int core_mapped(core_state *state, core_file *file, const sft_tensor *tensor, core_place *place);

/* What of a file is wanted: all its tensors, or those whose names a sequence gives. */
typedef struct core_chosen {
    const sft_tensor **tensors;
    size_t *positions; /* in the catalog; only where names are given */
    size_t count;
} core_chosen;
/* names: NULL for all. False with an exception; core_chosen_free in every case. */
bool core_choose(core_state *state, core_file *file, PyObject *names, core_chosen *c);
void core_chosen_free(core_chosen *c);

/* All tensors as a dict, each where `where` says. */
typedef bool (*core_where)(void *ctx, const sft_tensor *tensor, core_place *place);
PyObject *core_load_placed(core_state *state, core_file *file, core_framework framework,
                           core_where where, void *ctx);
/* One tensor, owned: read, not mapped. */
PyObject *core_load_one(core_state *state, core_file *file, const sft_tensor *tensor,
                        const core_wish *wish);
PyObject *core_load_into(core_state *state, core_file *file, PyObject *targets, PyObject *progress,
                         bool verify);

/* ---------------------------------------------------------------- args.c */

/* The parameters of a function: the first `positional` may be given by position, the first `required` must
 * be given. `doc`: as in "safe_open.__new__()". Values are borrowed, NULL where not given. */
typedef struct core_signature {
    const char *name;
    const char *const *parameters;
    Py_ssize_t count, positional, required;
} core_signature;

bool core_parse(const core_signature *signature, PyObject *args, PyObject *kwargs,
                PyObject **values);
/* A string among others: -2 with an exception, -1 if it is none of them. choices ends with NULL. */
int core_choice(PyObject *value, const char *argument, const char *const *choices);
/* The same with a ValueError for none of them, which calls the value by `word`: negative with an exception. */
int core_one_of(PyObject *value, const char *argument, const char *word,
                const char *const *choices);
PyObject *core_none(PyObject *value); /* NULL for None, and where no value is given */
/* What a value is in a condition; false where none is given. False with an exception. */
bool core_truth(PyObject *value, bool *out);

/* Entries of tables of methods and slots. */
#define CORE_METHOD(function) ((PyCFunction)(void (*)(void))(function))
#define CORE_KEYWORDS         (METH_VARARGS | METH_KEYWORDS)
PyObject *core_enter(PyObject *self, PyObject *ignored); /* __enter__: the object itself */
int core_always(PyObject *self); /* __bool__ of a handle, which is true even when it is empty */
/* Frees an object of one of our types, whose members are released already. */
void core_object_free(PyObject *self);

/* ---------------------------------------------------------------- handle.c, slice.c, save.c ... */

extern PyType_Spec core_handle_spec;
extern PyType_Spec core_slice_spec;
extern PyType_Spec core_view_spec;
extern PyType_Spec core_spec_spec;
extern PyType_Spec core_meta_spec;
extern PyType_Spec core_writer_spec;
extern PyType_Spec core_stream_spec;
extern PyType_Spec core_run_spec;

/* An index as the library's slices. */
typedef struct core_index {
    sft_slice items[CORE_MAX_RANK + 2];
    size_t count;
} core_index;
/* The index that `slices` (a dict of them, or NULL) has for the tensor, checked against it. 1; 0: none; -1: an
 * exception. */
int core_index_for(core_state *state, core_file *file, const sft_tensor *tensor, PyObject *slices,
                   core_index *out);
PyObject *core_view_new(core_state *state, PyObject *handle, int what);
PyObject *core_meta_new(core_state *state, core_file *file, const sft_tensor *tensor);
const sft_tensor *core_find(core_state *state, core_file *file, PyObject *name);
/* Found under a name that the metadata record: all of a tensor, or a part of one, that is none of keys(). */
bool core_is_part(const core_file *file, const sft_tensor *tensor);

PyObject *core_serialize(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_serialize_file(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_serialize_fd(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_load_bytes(PyObject *module, PyObject *args);
PyObject *core_glob(PyObject *module, PyObject *args);
PyObject *core_without(PyObject *module, PyObject *none);
PyObject *core_array_address(PyObject *module, PyObject *array);
PyObject *core_deserialize(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_reopen(PyObject *module, PyObject *args);
PyObject *core_open_checkpoint(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_left_out(PyObject *module, PyObject *handle);
PyObject *core_part(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_read_layout(PyObject *module, PyObject *args);
PyObject *core_rules_known(PyObject *module, PyObject *name);
PyObject *core_rules_nearest(PyObject *module, PyObject *name);
PyObject *core_renamed(PyObject *module, PyObject *args, PyObject *kwargs);
/* (rank, size, callable(bytes) -> bytes of all, in the order of ranks), as a group without its function. *call: a borrow.
 * False with an exception. */
bool core_group_read(PyObject *value, sft_group *out, PyObject **call);
/* What an allgather of a group does, with the GIL held. */
sft_status core_group_gather(PyObject *call, const sft_group *group, const void *mine, size_t bytes,
                             void *all, sft_error *err);
PyObject *core_save_group(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_load_group(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_safe_open_handle(PyObject *module, PyObject *args, PyObject *kwargs);
/* safe_open of (filename, framework, device, backend), NULL where not given. */
PyObject *core_handle_new(core_state *state, PyObject **values, PyObject *how);
PyObject *core_handle_tp_new(PyTypeObject *type, PyObject *args,
                             PyObject *kwargs); /* safe_open(...) */
PyObject *core_open_any(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_convert(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_cuda_open(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_cuda_info(PyObject *module, PyObject *capsule);
PyObject *core_cuda_load(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *core_cuda_dlpack(PyObject *module, PyObject *args);
PyObject *core_cuda_stats(PyObject *module, PyObject *capsule);
/* Copies out of the device that _cuda_open has given, which must stay; NULL with an exception. */
typedef struct core_copies core_copies;
core_copies *core_copies_new(core_state *state, PyObject *capsule);
const sft_copier *core_copies_copier(const core_copies *copies);
/* The stream, numbered as DLPack counts, that computes the tensors of the next save; 0: waited for already. */
void core_copies_stream(const core_copies *copies, uint64_t stream);
void core_copies_end(core_copies *copies); /* NULL is fine */

/* X(id, name): what frameworks call a type; where numpy has none of that name it is ml_dtypes'. Types that no framework
 * has are not here. torch's float4_e2m1fn_x2 holds two elements of F4. */
#define CORE_DTYPE_MAP(X)                                                                          \
    X(SFT_BOOL, "bool")                                                                            \
    X(SFT_I8, "int8")                                                                              \
    X(SFT_U8, "uint8")                                                                             \
    X(SFT_I16, "int16")                                                                            \
    X(SFT_U16, "uint16")                                                                           \
    X(SFT_I32, "int32")                                                                            \
    X(SFT_U32, "uint32")                                                                           \
    X(SFT_I64, "int64")                                                                            \
    X(SFT_U64, "uint64")                                                                           \
    X(SFT_F16, "float16")                                                                          \
    X(SFT_F32, "float32")                                                                          \
    X(SFT_F64, "float64")                                                                          \
    X(SFT_BF16, "bfloat16")                                                                        \
    X(SFT_F8_E4M3, "float8_e4m3fn")                                                                \
    X(SFT_F8_E4M3FNUZ, "float8_e4m3fnuz")                                                          \
    X(SFT_F8_E5M2, "float8_e5m2")                                                                  \
    X(SFT_F8_E5M2FNUZ, "float8_e5m2fnuz")                                                          \
    X(SFT_F8_E8M0, "float8_e8m0fnu")                                                               \
    X(SFT_F4, "float4_e2m1fn_x2")                                                                  \
    X(SFT_C64, "complex64")

/* The names by id, NULL where there is none; static storage. */
extern const char *const core_dtype_name[SFT_DTYPE_COUNT + 1];
/* Format dtype by the name that frameworks call it by ("float32"), or by the format's; NULL: none. */
const sft_dtype *core_dtype_by_name(const char *name, Py_ssize_t len);
/* A tuple of (the format's name, the frameworks' or None, bits of an element) in the order of the format's table. */
PyObject *core_dtypes(void);
/* An unsigned integer; false with the exception that the reference raises. */
bool core_u64(PyObject *value, uint64_t *out);
/* Raises TypeError "argument 'x': 'int' object is not an instance of 'str'". */
PyObject *core_wrong_type(const char *argument, PyObject *value, const char *wanted);

/* One entry of a dict of TensorSpecs; borrows from both objects. */
bool core_spec_read(core_state *state, PyObject *name, PyObject *spec, sft_save_tensor *out);
/* A str from a path-like object, with the reference's TypeErrors. New reference. */
PyObject *core_path(PyObject *object);
/* Such a str as the system spells it (it need not be UTF-8), in a bytes object that *text lives as long as; *text is
 * NULL if there is a null byte in it. NULL with an exception. */
PyObject *core_path_bytes(PyObject *path, const char **text);
/* Both, for a file to be written. */
PyObject *core_target_path(core_state *state, PyObject *object, const char **text);
/* An object with a buffer, and no text. */
bool core_has_bytes(PyObject *object);
/* What was given to write: a TensorSpec, or any object with a buffer. Release in every case. */
typedef struct core_bytes {
    const void *data;
    uint64_t size;
    Py_buffer view; /* obj NULL: none held */
} core_bytes;
bool core_bytes_get(core_state *state, PyObject *object, core_bytes *out);
/* A file descriptor out of an integer; false: an error is set. */
bool core_descriptor(PyObject *number, int *fd);
void core_bytes_release(core_bytes *bytes);
/* "crc32c", "sha256" or a sequence of them. */
bool core_digests(PyObject *value, uint32_t *out);
/* A sequence of numbers: *out is to be freed. */
bool core_shape_read(PyObject *value, uint64_t **out, uint32_t *rank);

/* The entries of a metadata dict as the library wants them. The dict must stay. */
typedef struct core_metadata {
    sft_metadata_entry *entries; /* NULL: none given */
    size_t count;
} core_metadata;
bool core_metadata_read(PyObject *metadata, core_metadata *out);
void core_metadata_free(core_metadata *metadata);

typedef struct core_handle {
    PyObject_HEAD core_state *state;
    core_file *file; /* NULL: closed */
    PyObject *source;
    PyObject
        *where; /* a path without the current directory; NULL: no path, or the source says it */
    PyObject *device; /* NULL: cpu */
    PyObject *backend;
    PyObject *how; /* a file of any format: the options of open_any; NULL: safetensors */
    core_framework framework;
    bool owned; /* pread */
} core_handle;

/* A handle over a file, of which it takes ownership even when it fails; it cannot be pickled. framework: a str. device: as for
 * safe_open, or NULL. */
PyObject *core_handle_over(core_state *state, core_file *file, PyObject *source,
                           PyObject *framework, PyObject *device);
/* The same with the framework and device of another handle. */
PyObject *core_handle_part(core_handle *whole, core_file *file);
/* The same file, device and all once more. */
PyObject *core_handle_again(core_handle *handle);
/* What the files were when they were opened, for pickles: a tuple. */
PyObject *core_handle_stamps(core_file *file);
/* The file with a count of one more, or NULL and "File is closed". */
core_file *core_handle_file(core_handle *handle);

PyObject *core_slice_new(core_handle *handle, core_file *file, const sft_tensor *tensor);
PyObject *core_stream_new(core_handle *handle, core_file *file, PyObject *args, PyObject *kwargs);

#endif
