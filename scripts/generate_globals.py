#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""generate_globals.py [--stdlibs DIR] [--python PYTHON ...] - writes src/import/pickle/globals_std.c: the names that a
pickle of weights has no business with. Prints what changed; with --check, exits 1 if anything would.

Where the names of modules come from:
  - the package `stdlibs` of PyPI, as published (--stdlibs: a directory with it; `pip download stdlibs`, unpacked),
    which lists the standard library of each Python: 2.7, 3.0 to 3.15;
  - every interpreter given with --python: its built-in modules, what lies in its library directory, and
    sys.stdlib_module_names where there is one;
  - EXTRA below, for what neither lists (platforms, builds, test helpers).
A module that is already in the file stays there: the union only grows. ROOTS and DANGEROUS are written here by hand.
"""

import argparse
import pathlib
import re
import subprocess
import sys

OUT = pathlib.Path(__file__).resolve().parents[1] / "src/import/pickle/globals_std.c"

# Private, of other platforms, of tests, of Python's own distribution; and of 2.x, where spelling differs.
EXTRA = """
_aix_support _osx_support _pyrepl _colorize _sysconfig _android_support _apple_support _ios_support _interpreters
_interpchannels _interpqueues _zstd _remote_debugging _types _winapi _wmi _overlapped _msi _scproxy _xxsubinterpreters
_xxinterpchannels _testcapi _testinternalcapi _testbuffer _testmultiphase _testimportmultiple _testclinic
_testexternalinspection _ctypes_test xxsubtype xxlimited xxlimited_35 concurrent compression annotationlib pip
setuptools pkg_resources ensurepip venv wheel distutils _distutils_hack idlelib lib2to3 turtledemo test unittest
profiling pathlib string _bootlocale _sysconfigdata py_compile pyclbr zipapp imputil ihooks rexec Bastion bsddb
bsddb3 dl new user thread dummy_thread commands popen2 sets compiler httplib StringIO cStringIO cPickle UserDict
UserList UserString urllib2 urlparse robotparser cookielib Cookie BaseHTTPServer SimpleHTTPServer CGIHTTPServer
DocXMLRPCServer SimpleXMLRPCServer xmlrpclib HTMLParser htmllib sgmllib htmlentitydefs ConfigParser Queue
SocketServer Tkinter Tix tkFileDialog ScrolledText Dialog FixTk anydbm whichdb dumbdbm dbhash gdbm md5 sha mhlib
mimetools MimeWriter mimify multifile rfc822 posixfile statvfs stringold strop toaiff audiodev sunaudiodev
linuxaudiodev ossaudiodev fpformat fpectl future_builtins hotshot exceptions os2emxpath macostools MacOS Carbon
imageop imgfile cl al fl sv SUNAUDIODEV
""".split()

# Never: a script's own classes lie there.
NOT = {"__main__", "this", "antigravity", "__future__"}

# Reach everything from anywhere: also as a part of a dotted name ("torch.serialization.os").
ROOTS = """
os nt posix ntpath posixpath sys subprocess builtins __builtin__ socket shutil runpy pty ctypes _ctypes importlib
commands pickle _pickle cPickle marshal code codeop imp pip __import__ eval exec execfile compile getattr setattr
globals locals vars open file input breakpoint
""".split()

# Outside the standard library: "module name", name * for all, module ending in . for all below it, too.
DANGEROUS = """
torch load
torch save
torch compile
torch.serialization *
torch.hub *
torch.storage _load_from_bytes
torch.jit *
torch.jit. *
torch.ops load_library
torch._ops *
torch.classes load_library
torch._classes *
torch._C *
torch._C. *
torch.library *
torch.utils.cpp_extension *
torch.utils.collect_env *
torch.utils.bottleneck. *
torch.utils.benchmark. *
torch.utils.data.datapipes. *
torch.utils.data.dataloader *
torch.utils.data._utils. *
torch.utils.tensorboard. *
torch.utils.file_baton *
torch.utils.hipify. *
torch.utils.dlpack *
torch.utils._config_module *
torch.utils._freeze *
torch.utils.model_zoo *
torch.utils.show_pickle *
torch.utils._import_utils *
torch.utils._cpp_embed_headers *
torch.utils.serialization. *
torch._utils_internal *
torch._appdirs *
torch._weights_only_unpickler *
torch._sources *
torch._import_utils *
torch._vendor. *
torch.distributed. *
torch.multiprocessing. *
torch._inductor. *
torch._dynamo. *
torch._functorch. *
torch._export. *
torch._higher_order_ops. *
torch._lazy. *
torch._library. *
torch._numpy. *
torch._logging. *
torch._strobelight. *
torch.compiler. *
torch.export. *
torch.package. *
torch.profiler. *
torch.autograd.profiler *
torch.fx. *
torch.testing. *
torch.onnx. *
torch.backends. *
torch.cuda._memory_viz *
torchvision.datasets. *
torchaudio.datasets. *
numpy load
numpy loads
numpy loadtxt
numpy genfromtxt
numpy fromfile
numpy fromregex
numpy fromfunction
numpy fromiter
numpy frompyfunc
numpy apply_along_axis
numpy apply_over_axes
numpy vectorize
numpy piecewise
numpy memmap
numpy save
numpy savez
numpy savez_compressed
numpy savetxt
numpy test
numpy source
numpy lookfor
numpy safe_eval
numpy DataSource
numpy.f2py *
numpy.f2py. *
numpy.distutils. *
numpy.testing. *
numpy.lib. *
numpy.ctypeslib *
numpy.ctypeslib. *
numpy.compat. *
numpy.ma. *
numpy._pytesttester *
numpy._core._internal *
numpy.core._internal *
numpy._utils. *
scipy.io. *
scipy._lib. *
scipy.datasets. *
scipy.weave. *
sklearn.datasets. *
sklearn.externals. *
sklearn.utils._joblib *
sklearn.utils._testing *
cloudpickle *
cloudpickle. *
dill *
dill. *
joblib *
joblib. *
jsonpickle *
jsonpickle. *
pickle5 *
pickle5. *
klepto. *
requests *
requests. *
urllib3. *
httpx *
httpx. *
aiohttp *
aiohttp. *
websockets. *
paramiko *
paramiko. *
fabric. *
invoke. *
sh *
plumbum. *
pexpect *
pexpect. *
ptyprocess. *
psutil *
psutil. *
sympy *
sympy. *
pandas eval
pandas read_pickle
pandas read_csv
pandas read_table
pandas read_fwf
pandas read_json
pandas read_html
pandas read_xml
pandas read_excel
pandas read_parquet
pandas read_feather
pandas read_orc
pandas read_sql
pandas read_sql_query
pandas read_sql_table
pandas read_hdf
pandas read_clipboard
pandas read_sas
pandas read_spss
pandas read_stata
pandas read_gbq
pandas to_pickle
pandas test
pandas HDFStore
pandas ExcelFile
pandas ExcelWriter
pandas.io. *
pandas.core.computation. *
pandas.compat. *
pandas.util. *
pandas._testing. *
mlflow *
mlflow. *
wandb *
wandb. *
bentoml. *
zenml. *
ray *
ray. *
dask *
dask. *
distributed. *
celery. *
twisted. *
tornado. *
gevent. *
eventlet. *
flask. *
django. *
werkzeug. *
jinja2. *
mako. *
chevron. *
yaml *
yaml. *
ruamel. *
fsspec. *
s3fs. *
gcsfs. *
smart_open. *
boto3. *
botocore. *
huggingface_hub *
huggingface_hub. *
transformers.dynamic_module_utils *
transformers.utils.hub *
transformers.pipelines. *
datasets.load *
datasets. *
nltk. *
tensorflow load_op_library
tensorflow load_library
tensorflow py_function
tensorflow numpy_function
tensorflow.io. *
tensorflow.raw_ops *
tensorflow.saved_model *
tensorflow.keras.models *
tensorflow.keras.utils *
tensorflow.keras.layers Lambda
tensorflow.python. *
keras.models load_model
keras.layers Lambda
keras.utils *
keras.saving. *
keras.src.saving. *
keras.src.utils. *
keras.src.layers.core.lambda_layer *
paddle load
paddle.framework.io *
paddle.framework.io_utils *
paddle.utils. *
paddle.hub *
mindspore.train.serialization *
onnxruntime. *
onnx.reference. *
onnx.hub *
jax.tools. *
numba. *
llvmlite. *
cffi *
cffi. *
Cython. *
pyximport. *
pybind11. *
triton. *
cupy.cuda.compiler *
cupy _core
IPython *
IPython. *
ipykernel. *
jupyter_client. *
notebook. *
nbformat. *
pytest *
_pytest. *
py *
nose. *
doit. *
conda. *
virtualenv. *
poetry. *
uv. *
build. *
hatchling. *
wheel. *
git *
git. *
docker. *
apt *
apt. *
win32com. *
win32api *
win32process *
pythoncom *
wmi *
pyautogui *
pynput. *
keyboard *
code *
bpython. *
ptpython. *
prompt_toolkit. *
pygments. *
attr._make *
attrs._make *
pydantic.deprecated. *
lxml. *
bs4. *
sqlalchemy. *
psycopg2. *
pymysql. *
redis. *
pymongo. *
kombu. *
zmq. *
mpi4py. *
pyspark. *
h2o. *
rpy2. *
jpype. *
clr *
faiss read_index
dateutil. *
pyodide *
js *
""".strip().splitlines()

HEAD = """/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/globals_std.c - names of modules, for verdicts: the top level of Python's standard library
 * (2.7 to 3.15, all platforms) and of what is installed with it, those that run things whatever they
 * are called through, and names of other packages that load or run code. Data only, written by
 * scripts/generate_globals.py: change it there.
 */
#include "import/pickle/globals_std.h"
"""


def of_stdlibs(where):
    names = set()
    for path in sorted(pathlib.Path(where).rglob("stdlibs/py*.py")):
        if not re.fullmatch(r"py27|py3\d+", path.stem):
            continue
        space = {}
        exec(compile(path.read_text(), str(path), "exec"), space)  # plain lists of names
        for value in space.values():
            if isinstance(value, (set, frozenset, list, tuple)):
                names |= {str(n) for n in value}
    if not names:
        raise SystemExit("%s: no lists of stdlibs there" % where)
    return names


ASK = r"""
import os, sys
names = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
lib = os.path.dirname(os.__file__)
for where in (lib, os.path.join(lib, "lib-dynload"), os.path.join(lib, "lib-tk")):
    for f in (os.listdir(where) if os.path.isdir(where) else ()):
        path = os.path.join(where, f)
        if f.endswith((".py", ".so", ".pyd")):
            names.add(f.split(".")[0])
        elif os.path.isdir(path) and os.path.exists(os.path.join(path, "__init__.py")):
            names.add(f)
sys.stdout.write("\n".join(sorted(names)))
"""


def of_python(python):
    return set(
        subprocess.run([python, "-c", ASK], stdout=subprocess.PIPE, check=True).stdout.decode().split()
    )


def listed(text, name):
    body = re.search(r"%s\[\] = \{(.*?)\};" % name, text, re.S).group(1)
    return re.findall(r'"([^"]*)"', body)


def array(comment, name, count, values):
    rows, line = [], "   "
    for v in values:
        word = ' "%s",' % v
        if len(line) + len(word) > 99:
            rows.append(line)
            line = "   "
        line += word
    rows.append(line)
    return (
        "\n/* %s */\n/* clang-format off */\nconst char *const %s[] = {\n%s\n};\n/* clang-format on */\nconst size_t %s = sizeof %s / sizeof %s[0];\n"
        % (comment, name, "\n".join(rows), count, name, name)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdlibs")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    before = OUT.read_text()
    names = set(listed(before, "sft__import_std_modules")) | set(EXTRA)
    for more in [of_stdlibs(args.stdlibs)] if args.stdlibs else []:
        names |= more
    for python in args.python:
        names |= of_python(python)
    names = {n.split(".")[0] for n in names} - NOT
    names = sorted((n for n in names if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", n)), key=lambda n: n.encode())
    roots = sorted(set(ROOTS), key=lambda n: n.encode())
    dangerous = sorted(set(DANGEROUS), key=lambda n: n.encode())
    after = HEAD + array(
        "In byte order: searched by halves.", "sft__import_std_modules", "sft__import_std_module_count", names
    )
    after += array(
        "Reach everything from anywhere: also as a part of a dotted name. In byte order.",
        "sft__import_root_modules",
        "sft__import_root_module_count",
        roots,
    )
    after += array(
        'Outside the standard library: "module name", name * for all, module ending in . for all below.\n * In byte order.',
        "sft__import_dangerous",
        "sft__import_dangerous_count",
        dangerous,
    )
    if any(len(entry.split()[0]) > 64 for entry in dangerous):
        raise SystemExit("a module of more than 64 bytes: see LISTED_MOST in globals.c")
    print(
        "%d modules (%d before), %d roots, %d other names"
        % (len(names), len(listed(before, "sft__import_std_modules")), len(roots), len(dangerous))
    )
    if args.check:
        return int(after != before)
    OUT.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
