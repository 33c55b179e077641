#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""scan_holdout.py --tool TOOL [--table FILE] - techniques that were published against scanners of pickles (advisories of picklescan,
fickling, modelscan, modelaudit, PyTorch, and their issue trackers), by the names that they reach. Each name is written as every
form of a pickle (streams.py), a few of them in every wrapping; then the tricks that are no names. Nothing is loaded: the
streams hand a text to the name, and only the tool reads them. None may be called harmless. Standard library only."""

import argparse
import collections
import io
import pathlib
import struct
import sys
import tarfile
import tempfile
import zipfile

import streams
from compare import Tool

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from scratch import in_memory  # noqa: E402

in_memory()

# technique -> names, "module name": what the name is after the first blank
NAMES = {
    "builtins": """builtins eval|builtins exec|builtins compile|builtins getattr|builtins open|builtins __import__|builtins breakpoint|
        builtins globals|builtins vars|builtins setattr|builtins delattr|builtins input|builtins help|builtins __build_class__|
        builtins memoryview|builtins type|builtins map|builtins filter|builtins print|builtins exit|builtins super|builtins object.__subclasses__|
        __builtin__ eval|__builtin__ apply|__builtin__ execfile|__builtin__ file|__builtin__ reload|__builtin__ input|__builtin__ raw_input|
        __builtin__ getattr|__builtin__ compile|__builtins__ eval""",
    "processes": """os system|os popen|os execv|os spawnv|os fork|os putenv|os remove|posix system|nt system|subprocess Popen|subprocess run|
        subprocess check_output|subprocess getoutput|_posixsubprocess fork_exec|pty spawn|commands getoutput|popen2 popen2|popen2 Popen3|
        multiprocessing.util spawnv_passfds|multiprocessing.context Process|asyncio.unix_events _UnixSubprocessTransport._start|
        concurrent.futures.process ProcessPoolExecutor|platform popen|uuid _popen|uuid _get_command_stdout|imaplib IMAP4_stream|
        _pyrepl.pager pipe_pager|_pyrepl.pager tempfile_pager|pydoc pipepager|pydoc tempfilepager|pydoc pager|_osx_support _read_output|
        _osx_support _find_build_tool|_osx_support _find_appropriate_compiler|_aix_support _read_cmd_output|
        test.support.script_helper assert_python_ok|test.support.script_helper spawn_python|test.support.script_helper run_python_until_end|
        ctypes.util _findLib_gcc|distutils.spawn spawn|distutils.file_util write_file|mailcap findmatch|webbrowser open|cgitb lookup|
        nturl2path url2pathname|sysconfig _run_module|ensurepip _run_pip|ensurepip bootstrap|venv create|venv main|pip main|pip._internal main|
        pip._internal.cli.main main|pip._vendor.distlib.scripts ScriptMaker|zipapp create_archive|crypt crypt|getpass getpass""",
    "code": """code InteractiveInterpreter.runcode|code interact|codeop compile_command|runpy run_path|runpy _run_code|timeit timeit|timeit main|
        profile run|profile Profile.run|profile runctx|cProfile run|cProfile runctx|cProfile Profile.runctx|trace Trace.run|trace Trace.runctx|
        pdb run|pdb runeval|bdb Bdb.run|bdb Bdb.runeval|doctest debug_script|doctest run_docstring_examples|imp load_source|imp init_builtin|
        importlib import_module|importlib reload|importlib._bootstrap _load|_frozen_importlib _load|_imp create_dynamic|pkgutil resolve_name|
        pkgutil find_loader|zipimport zipimporter|zipimport zipimporter.load_module|site execsitecustomize|site addsitedir|unittest.mock _importer|
        unittest.mock _dot_lookup|unittest main|test.support run_code|types CodeType|types FunctionType|types MethodType|new code|new function|
        marshal loads|marshal load|pickle loads|pickle load|pickle Unpickler|_pickle loads|cPickle loads|pickle _Unpickler|shelve open|dbm open|
        copyreg add_extension|copyreg _extension_registry|copy_reg add_extension|annotationlib ForwardRef.evaluate|typing get_type_hints|
        typing ForwardRef._evaluate|inspect getattr_static|inspect unwrap|enum _EnumDict|dataclasses make_dataclass|dataclasses _create_fn|
        collections namedtuple|string Formatter.get_field|string.templatelib Template|_ast parse|ast parse|ast literal_eval|symtable symtable|
        py_compile compile|compileall compile_file|modulefinder ModuleFinder|lib2to3.pgen2.grammar Grammar.loads|
        lib2to3.pgen2.pgen ParserGenerator.make_label|lib2to3.pgen2.driver load_grammar|idlelib.autocomplete AutoComplete.get_entity|
        idlelib.autocomplete AutoComplete.fetch_completions|idlelib.calltip get_entity|idlelib.calltip Calltip.fetch_tip|
        idlelib.debugobj ObjectTreeItem.SetText|idlelib.pyshell ModifiedInterpreter.runcode|idlelib.pyshell ModifiedInterpreter.runcommand|
        idlelib.run Executive.runcode|tkinter Tcl|tkinter.filedialog test|turtle write_docstringdict|antigravity geohash|this s|
        user anything|imputil Importer|compiler compile|ihooks ModuleImporter|rexec RExec|Bastion Bastion|sets Set|dl open|thread start_new_thread|
        _thread start_new_thread|threading Thread|threading Timer|sched scheduler|atexit register|signal signal|weakref finalize|
        contextlib ExitStack.callback|asyncio run|asyncio.base_events BaseEventLoop|gc get_objects|sys modules|sys settrace|sys _getframe|sys addaudithook|
        faulthandler register|tracemalloc start|readline parse_and_bind|rlcompleter Completer|_interpreters run_string|_interpreters exec|
        _xxsubinterpreters run_string|_interpchannels send|_interpqueues put|concurrent.interpreters create|_testcapi run_in_subinterp|
        _testinternalcapi exec_interpreter|profiling.sampling anything|profiling.tracing run|_colorize set_theme|_zstd ZstdDecompressor|
        pathlib._os copyfile""",
    "attributes": """operator attrgetter|operator methodcaller|operator itemgetter|operator call|_operator attrgetter|_operator methodcaller|
        functools partial|functools reduce|functools partialmethod|functools singledispatch|_functools partial|itertools starmap|
        itertools chain.from_iterable|torch._utils _rebuild_tensor.__globals__|torch._utils _rebuild_tensor_v2.__globals__|
        collections OrderedDict.__reduce__.__self__|collections _sys.modules|collections abc.sys|argparse _os.system|torch os.system|torch hub.load|
        torch.serialization os.system|torch.storage os.system|numpy __builtins__|numpy __builtins__.get|numpy os.system|numpy.core.multiarray os|
        datetime sys.modules|pathlib os.system|pathlib Path.write_text|pathlib PosixPath.unlink|logging os.system|json.decoder c_scanstring.__self__|
        builtins dict.__class__.__subclasses__|copyreg _reconstructor.__globals__|collections Counter.__init__.__globals__|
        torch._C.__loader__ load_module|__main__ anything|__mp_main__ anything""",
    "files and net": """_io FileIO|_io open|_io open_code|io FileIO|io open|io open_code|_pyio open|_pyio FileIO|codecs open|tempfile NamedTemporaryFile|
        tempfile mkstemp|shutil rmtree|shutil copyfile|shutil move|shutil make_archive|tarfile open|zipfile ZipFile|gzip open|bz2 open|lzma open|
        fileinput input|linecache getline|linecache updatecache|logging FileHandler|logging.FileHandler anything|logging.handlers SocketHandler|
        logging.config listen|logging.config fileConfig|mmap mmap|sqlite3 connect|sqlite3.dbapi2 connect|_sqlite3 connect|ctypes CDLL|ctypes.util find_library|
        _ctypes dlopen|cffi FFI|socket create_connection|socket socket|_socket socket|ssl get_server_certificate|ssl SSLContext|urllib.request urlopen|
        urllib.request urlretrieve|urllib urlopen|urllib2 urlopen|http.client HTTPConnection|httplib HTTPConnection|http.server HTTPServer|
        SimpleHTTPServer test|BaseHTTPServer HTTPServer|SocketServer TCPServer|smtplib SMTP|ftplib FTP|poplib POP3|nntplib NNTP|telnetlib Telnet|
        imaplib IMAP4|xmlrpc.client ServerProxy|xmlrpclib ServerProxy|asyncore dispatcher|asynchat async_chat|wsgiref.simple_server make_server|
        requests get|requests.api get|aiohttp ClientSession|httpx get|xml.sax parse|xml.dom.minidom parse|configparser ConfigParser|netrc netrc|
        mailbox mbox|plistlib load|wave open|sndhdr what|imghdr what|filecmp cmp|glob glob|os.path exists|posixpath realpath|StringIO StringIO|
        _winreg SetValue|winreg SetValue|msvcrt putch|_winapi CreateProcess|pwd getpwall|spwd getspall|resource setrlimit|fcntl fcntl|termios tcsetattr""",
    "other packages": """torch load|torch.hub load|torch.hub load_state_dict_from_url|torch.jit load|torch.jit.unsupported_tensor_ops execWrapper|
        torch.utils.collect_env run|torch.utils.bottleneck.__main__ run_cprofile|torch.utils.bottleneck.__main__ run_autograd_prof|
        torch.utils._config_module load_config|torch.utils._config_module ConfigModule.load_config|torch._dynamo.guards GuardBuilder.get|
        torch.fx.experimental.symbolic_shapes ShapeEnv.evaluate_guards_expression|torch.utils.data.datapipes.utils.decoder basichandlers|
        torch._inductor.codecache compile_file|torch._inductor.codecache PyCodeCache.load|torch._inductor.runtime.compile_tasks _reload_python_module|
        torch.utils.cpp_extension load_inline|torch.distributed.rpc rpc_sync|torch.package PackageImporter|torch.fx.graph_module _deserialize_graph_module|
        torch.fx.graph_module reduce_graph_module|torch.serialization load|torch.storage _load_from_bytes|torch.multiprocessing spawn|
        torch.distributed.elastic.multiprocessing.api MultiprocessContext|torch.testing._internal.common_utils shell|torch.ops load_library|
        torch._ops _Ops.load_library|torch.classes load_library|numpy load|numpy fromfile|numpy memmap|numpy loadtxt|numpy savetxt|numpy ctypeslib.load_library|
        numpy.f2py.crackfortran getlincoef|numpy.f2py.crackfortran param_eval|numpy.f2py.crackfortran _eval_length|numpy.f2py.crackfortran myeval|
        numpy.f2py compile|numpy.testing._private.utils runstring|numpy.testing runstring|numpy.testing measure|numpy.distutils.exec_command exec_command|
        numpy.distutils.misc_util exec_mod_from_location|numpy.lib.npyio load|numpy.lib._npyio_impl load|numpy.ma.core frombuffer.__globals__|
        pandas read_pickle|pandas read_csv|pandas.io.pickle read_pickle|pandas.core.computation.eval eval|pandas DataFrame.eval|
        mlflow.projects.backend.local _run_entry_point|mlflow.pyfunc load_model|joblib load|joblib.numpy_pickle load|joblib.memory Memory|
        dill loads|dill._dill _create_function|dill._dill _load_type|dill._dill _import_module|cloudpickle loads|cloudpickle.cloudpickle _make_function|
        cloudpickle.cloudpickle _builtin_type|cloudpickle.cloudpickle subimport|cloudpickle.cloudpickle _function_setstate|
        cloudpickle.cloudpickle _make_skeleton_class|tensorflow.io write_file|tensorflow.python.ops.io_ops write_file|tensorflow load_library|
        keras.utils get_file|keras.src.utils.file_utils get_file|keras.models load_model|keras.config enable_unsafe_deserialization|
        keras.src.saving.serialization_lib enable_unsafe_deserialization|sklearn.utils._joblib load|skops.io loads|scipy.io loadmat|
        onnxruntime InferenceSession|paddle load|paddle.utils.cpp_extension load|yaml unsafe_load|yaml.constructor UnsafeConstructor|jinja2 Template|
        jinja2.environment Environment.from_string|setuptools setup|setuptools.build_meta build_wheel|pkg_resources run_script|
        _pytest._py.path LocalPath.sysexec|pytest main|IPython embed|fire Fire|fabric Connection|paramiko SSHClient|docker from_env|distributed Client|
        transformers.utils.import_utils _LazyModule|transformers pipeline|huggingface_hub snapshot_download|datasets load_dataset|xgboost Booster.load_model|
        catboost CatBoost.load_model|lightgbm Booster|sympy sympify|sympy.parsing.sympy_parser eval_expr|nltk download|smart_open open|fsspec open|
        boto3 client|sqlalchemy create_engine|redis Redis|celery Celery|ray init|dask compute|numba jit|cupy RawKernel|triton jit""",
}
CHOSEN = [
    ("os", "system"),
    ("builtins", "eval"),
    ("pkgutil", "resolve_name"),
    ("torch.hub", "load"),
    ("numpy.f2py.crackfortran", "myeval"),
]
S = streams
RUN = S.FORMS["global"]("os", "system")


def member(name, data, **fields):
    """A zip of one member, whose fields are then changed."""
    z = zipfile.ZipInfo(name)
    for key, value in fields.items():
        setattr(z, key, value)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as f:
        f.writestr(z, data)
    return out.getvalue()


def tar(data, name="data.pkl", mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as t:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def npy(stream):
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + stream


def swap(data, at, new):
    return data[:at] + new + data[at + len(new) :]


def tricks():
    """What is no name but a way: {label: bytes}"""
    zipped = S.in_zip(RUN)
    central = zipped.rindex(b"PK\x01\x02", 0, zipped.rindex(b"PK\x01\x02"))
    legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
    made = {
        "escape in a text": b"\x80\x02S'\\x6fs'\nS'\\x73ystem'\n\x93" + S.ARGUMENT + b"R.",
        "unicode escape": b"V\\u006fs\nV\\u0073ystem\n\x93" + S.ARGUMENT + b"R.",
        "octal escape": b"S'\\157s'\nS'system'\n\x93" + S.ARGUMENT + b"R.",
        "double quotes": b'S"os"\nS"system"\n\x93' + S.ARGUMENT + b"R.",
        "BINUNICODE8": b"\x80\x04\x8d"
        + struct.pack("<Q", 2)
        + b"os\x8d"
        + struct.pack("<Q", 6)
        + b"system\x93"
        + S.ARGUMENT
        + b"R.",
        "BINSTRING": b"T\x02\0\0\0osU\x06system\x93" + S.ARGUMENT + b"R.",
        "DUP as a name": b"\x80\x04\x8c\x02os2\x93" + S.ARGUMENT + b"R.",
        "memo overwritten": b"\x80\x04\x8c\x04mathq\x050\x8c\x02osq\x050\x8c\x06systemq\x060h\x05h\x06\x93"
        + S.ARGUMENT
        + b"R.",
        "memo of text keys": b"Vos\np05\n0Vsystem\np6\n0g5\ng06\n\x93" + S.ARGUMENT + b"R.",
        "memo by LONG_BINPUT": b"\x80\x04\x8c\x02osr\xff\x00\x01\x000\x8c\x06systemr\x00\x01\x01\x000j\xff\x00\x01\x00j\x00\x01\x01\x00\x93"
        + S.ARGUMENT
        + b"R.",
        "memo that is not set": b"h\x07" + RUN,
        "marks and pops": b"(((111" + RUN,
        "a list of a mark": b"(l0" + RUN,
        "text protocol in the middle": b"\x80\x04\x8c\x01a0\x80\x00" + RUN,
        "protocol 255": b"\x80\xff" + RUN,
        "second protocol mark": b"\x80\x02\x80\x05" + RUN,
        "frame beyond the end": b"\x80\x04\x95\xff\xff\xff\x7f\0\0\0\0"
        + S.FORMS["stack"]("os", "system")[2:],
        "frame of nothing": b"\x80\x04\x95" + bytes(8) + S.FORMS["stack"]("os", "system")[2:],
        "frame that is short": b"\x80\x04\x95\x03" + bytes(7) + S.FORMS["stack"]("os", "system")[2:],
        "frame in a frame": b"\x80\x04\x95\x40"
        + bytes(7)
        + b"\x95\x20"
        + bytes(7)
        + S.FORMS["stack"]("os", "system")[2:],
        "name in two steps": b"\x80\x02cbuiltins\ngetattr\n(cbuiltins\n__import__\n(S'os'\ntRS'system'\ntR(S'inert'\ntR.",
        "STACK_GLOBAL of bytes": b"\x80\x04C\x02osC\x06system\x93" + S.ARGUMENT + b"R.",
        "STACK_GLOBAL of a number": b"\x80\x04K\x01K\x02\x93)R.",
        "STACK_GLOBAL of a call": b"\x80\x04c_codecs\nencode\n(S'os'\ntR\x8c\x06system\x93)R.",
        "OBJ and POP": b"(cos\nsystem\nS'inert'\no0N.",
        "INST in a mark": b"((S'inert'\nios\nsystem\n1N.",
        "extension 1": b"\x80\x02\x82\x01)R.",
        "extension 2": b"\x80\x02\x83\x01\x01)R.",
        "extension 4": b"\x80\x02\x84\x01\x01\x01\x01)R.",
        "BUILD over a module": b"\x80\x02csys\nmodules\n}U\x04jsoncos\n_wrap_close\nsb.",
        "BUILD of _interpreters": b"\x80\x02c_interpreters\ncreate\n)R}U\x01aK\x01sb.",
        "setstate of a name": b"\x80\x02ccollections\nOrderedDict\n)R(cos\nsystem\nN\x86b.",
        "items into an object": b"\x80\x02cos\nenviron\nU\x01aU\x01bs.",
        "append to an object": b"\x80\x02csys\npath\nU\x01aa.",
        "reduce of a persistent id": b"\x80\x02U\x01aQ)R.",
        "long line": b"V" + b"a" * 70000 + b"\n0" + RUN,
        "many nones": b"N0" * 200000 + RUN,
        "many stops": b"N." * 50000 + RUN,
        "zeros before": bytes(8) + RUN,
        "behind a text": b"hello\n" + RUN,
        "behind JSON": b'{"a": 1}\n' + RUN,
        "no newline at the end": b"cos\nsystem",
        "a name and no more": b"cos\nsystem\n",
        "return in the names": b"cos\r\nsystem\r\n" + S.ARGUMENT + b"R.",
        "blank in a module": b"cos \nsystem\n)R.",
        "empty module": b"c\nsystem\n)R.",
        "dots before": b"c.os\nsystem\n)R.",
        "a legacy file's first pickle": b"N0" + RUN[:-1] + b"0" + legacy,
        "a legacy file's second": legacy[:14] + RUN + legacy[14:],
        "nested twice": S.nested(S.nested(RUN)),
        "nested text": b"\x80\x04" + S.short(RUN.decode()) + b".",
        "nested in a list": b"\x80\x04](" + S.nested(RUN)[2:-1] + b"e.",
        "nested bytearray": b"\x80\x05\x96" + struct.pack("<Q", len(RUN)) + RUN + b".",
        "nested, hex": b"\x80\x04" + S.short(RUN.hex()) + b".",
        "nested by protocol 0": b"S" + repr(RUN.decode()).encode() + b"\n.",
        "zip: wrong checksum": swap(zipped, central + 16, b"\1\2\3\4"),
        "zip: encrypted flag": swap(zipped, central + 8, b"\1\0"),
        "zip: another name inside": zipped.replace(b"archive/data.pkl", b"archive/data.txt", 1),
        "zip: text before": b"#!/bin/sh\n" + zipped,
        "zip: pickle before": RUN + zipped,
        "zip: pickle behind": zipped + RUN,
        "zip: no directory": zipped[: zipped.index(b"PK\x01\x02")],
        "zip: odd extension": S.in_zip(RUN, "archive/weights.jpeg"),
        "zip: no extension": S.in_zip(RUN, "x"),
        "zip: directory entry": S.in_zip(RUN, "data.pkl/"),
        "zip: python": S.in_zip(b"import os\n", "archive/code/__torch__.py"),
        "zip: upward": S.in_zip(RUN, "../data.pkl"),
        "zip: stored bzip2": S.in_zip(RUN, method=zipfile.ZIP_BZIP2),
        "zip: stored lzma": S.in_zip(RUN, method=zipfile.ZIP_LZMA),
        "zip: hidden member": zipped[:central] + member("x", RUN)[: -22 - 47] + zipped[central:],
        "tar": tar(RUN),
        "tar: odd name": tar(RUN, "readme.txt"),
        "tar.gz": tar(RUN, mode="w:gz"),
        "tar.bz2": tar(RUN, mode="w:bz2"),
        "tar.xz": tar(RUN, mode="w:xz"),
        "tar: upward": tar(RUN, "../../x.pkl"),
        "gzip of gzip": S.WRAPS["gzip"](S.WRAPS["gzip"](RUN)),
        "gzip of zip": S.WRAPS["gzip"](zipped),
        "gzip: two members": S.WRAPS["gzip"](b"N.") + S.WRAPS["gzip"](RUN),
        "7z": b"7z\xbc\xaf\x27\x1c\0\4" + bytes(24) + RUN,
        "rar": b"Rar!\x1a\x07\x01\0" + RUN,
        "lz4": b"\x04\x22\x4d\x18\x64\x40\xa7" + RUN,
        "zstd": b"\x28\xb5\x2f\xfd" + RUN,
        "npy of objects": npy(RUN),
        "npz of objects": S.in_zip(npy(RUN), "w.npy"),
        "npz inside .keras": S.in_zip(S.in_zip(npy(RUN), "w.npy"), "_layer_checkpoint_dependencies.npz"),
        "random bytes": bytes(range(255, 0, -1)) * 4,
        "empty": b"",
        "program": b"\x7fELF\2\1\1" + bytes(100),
        "windows program": b"MZ" + bytes(200),
        "shell script": b"#!/bin/sh\nid\n",
        "python": b"import os\nos.system('id')\n",
        "html": b"<html><script>alert(1)</script></html>",
    }
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--table", type=pathlib.Path)
    given = parser.parse_args()
    cases = []
    for technique, listed in NAMES.items():
        for pair in filter(None, (p.strip() for p in listed.split("|"))):
            module, name = pair.split(" ", 1)
            cases += [
                (technique, "%s, %s" % (pair, form), make(module, name))
                for form, make in streams.FORMS.items()
            ]
    for module, name in CHOSEN:
        for form, make in streams.FORMS.items():
            cases += [
                ("wrapped", "%s %s, %s, %s" % (module, name, form, wrap), put(make(module, name)))
                for wrap, put in streams.WRAPS.items()
                if wrap != "bare"
            ]
    cases += [("tricks", label, data) for label, data in tricks().items()]
    counts = collections.defaultdict(collections.Counter)
    harmless, table = [], []
    with tempfile.TemporaryDirectory() as scratch:
        paths = {}
        for i, (technique, label, data) in enumerate(cases):
            path = pathlib.Path(scratch) / ("%05d.bin" % i)
            path.write_bytes(data)
            paths[str(path)] = (technique, label)
        tool = Tool(given.tool, scratch)
        for file, verdict, _ in tool.scan(paths):
            technique, label = paths.get(file, ("", file))
            counts[technique][verdict] += 1
            table.append("%s\t%s\t%s\n" % (technique, label, verdict))
            if verdict not in ("dangerous", "unknown"):
                harmless.append("%s: %s is %s" % (technique, label, verdict))
    judged = sum(sum(c.values()) for c in counts.values())
    for text in harmless[:60]:
        print("FAULT", text)
    if given.table:
        given.table.write_text("".join(table), encoding="utf-8")
    print("%-16s %7s %10s %8s %9s" % ("technique", "files", "dangerous", "unknown", "harmless"))
    for technique, row in counts.items():
        print(
            "%-16s %7d %10d %8d %9d"
            % (technique, sum(row.values()), row["dangerous"], row["unknown"], row["harmless"])
        )
    print(
        "scan_holdout: %d inputs, %d without a verdict, %d called harmless"
        % (len(cases), len(cases) - judged, len(harmless))
    )
    return 1 if harmless or judged != len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
