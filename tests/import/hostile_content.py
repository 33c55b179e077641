#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_content.py --tool TOOL [--keep DIRECTORY] - what acts in files that are no pickles, fed to scan.

Texts, JSON, Keras configurations, graphs of TensorFlow and ONNX, templates, TorchScript code, images and what lies in
archives. Each case is (name of the file, bytes, verdict, rule that must be among the findings or None). All payloads are
inert: they name what would act, and are never given to a loader. Bounds: scan_cases.py. Then some of the files are cut
at every byte. Directories: hostile_directories.py. Standard library only.
"""

import base64
import gzip
import json
import pathlib
import pickle
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from content_files import (
    CODE,
    DENSE,
    GIF,
    JPEG,
    LAMBDA,
    PIECES,
    SVG,
    WEBP,
    function,
    gguf,
    graph,
    keras,
    model,  # noqa: E402
    node,
    onnx,
    onnx_node,
    png,
    safetensors,
    saved_model,
)
from content_templates import GENUINE, HOSTILE  # noqa: E402
from hostile import Member, make_zip  # noqa: E402
from hostile_proto import field, varint  # noqa: E402
from scan_cases import D, H, U, case, js, program  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


# ---------------------------------------------------------------- Keras


def keras_cases():
    case("config.json", js(model(DENSE)), H, None)
    case(
        "lambda.json",
        js(model(DENSE, keras("Lambda", {"name": "l", "function": LAMBDA}))),
        D,
        "keras-lambda",
        True,
    )
    case(
        "lambda-old.json",
        js(
            {
                "class_name": "Sequential",
                "config": {
                    "layers": [
                        {
                            "class_name": "Lambda",
                            "config": {
                                "function": [CODE, None, None],
                                "function_type": "lambda",
                                "module": "__main__",
                            },
                        }
                    ]
                },
            }
        ),
        D,
        "keras-lambda",
    )
    case("lambda-named.json", js(model(keras("Lambda", {"function": "my_function"}))), U, "keras-lambda")
    case("module.json", js(model(keras("function", "system", "os", "function"))), D, "keras-module")
    case("module-own.json", js(model(keras("Layer", None, "mypackage.layers"))), U, "keras-module")
    case(
        "module-escaped.json",
        js(model(keras("function", "system", "OS", "function"))).replace(b'"OS"', b'"\\u006fs"'),
        D,
        "keras-module",
    )
    case(
        "module-first.json",
        b'{"module": "keras.layers", "module": "os", "class_name": "function", "config": "system"}',
        D,
        "keras-module",
    )
    case(
        "get_file.json",
        js(model(keras("function", "get_file", "keras.utils", "function"))),
        D,
        "keras-module",
    )
    case(
        "get_file-src.json", js(model(keras("get_file", {}, "keras.src.utils.file_utils"))), D, "keras-module"
    )
    case(
        "unsafe.json",
        js(model(keras("function", "enable_unsafe_deserialization", "keras.config", "function"))),
        D,
        "keras-module",
    )
    case(
        "unsafe-word.json",
        js(model(keras("Activation", {"activation": "enable_unsafe_deserialization"}))),
        D,
        "keras-module",
    )
    case("builtin.json", js(model(keras("function", "eval", "builtins", "function"))), D, "keras-module")
    case(
        "builtin-own.json", js(model(keras("function", "my_relu", "builtins", "function"))), U, "keras-custom"
    )
    case("registered.json", js(model(keras("Mine", None, None, "package>Mine"))), U, "keras-custom")
    case("saving.json", js(model(keras("load_model", {}, "keras.saving"))), D, "keras-module")
    for path in ("/etc/passwd", "../../x", "https://example.org/v.txt"):
        case("vocabulary.json", js(model(keras("StringLookup", {"vocabulary": path}))), D, "keras-file")
    case(
        "vocabulary-own.json",
        js(model(keras("TextVectorization", {"vocabulary": "vocab.txt"}))),
        U,
        "keras-file",
    )
    case("vocabulary-list.json", js(model(keras("StringLookup", {"vocabulary": ["a", "b"]}))), H)
    case("operator.json", js(model({"class_name": "TFOpLambda", "config": {"function": "math.add"}})), H)
    case(
        "operator-file.json",
        js(model({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}})),
        D,
        "keras-operator",
    )
    case(
        "class-custom.json",
        js(model(DENSE, {"class_name": "Custom>MyLayer", "config": {"name": "m"}})),
        U,
        "keras-custom",
    )
    case("class-adam.json", js(model(DENSE, {"class_name": "Custom>Adam", "config": {"name": "m"}})), H)
    case(
        "class.json", js(model(DENSE, {"class_name": "MyLayer", "config": {"name": "m"}})), U, "keras-custom"
    )
    case(
        "class-registered.json",
        js(model(DENSE, keras("MyLayer", {"name": "m"}, None, "MyLayer"))),
        U,
        "keras-custom",
    )
    case(
        "loss.json",
        js(dict(model(DENSE), training_config={"loss": "my_loss", "metrics": ["accuracy"]})),
        U,
        "keras-custom",
    )
    case(
        "metrics.json",
        js(dict(model(DENSE), training_config={"loss": "mse", "metrics": ["accuracy", "my_metric"]})),
        U,
        "keras-custom",
    )
    case(
        "metrics-own.json",
        js(dict(model(DENSE), training_config={"loss": "mse", "metrics": ["accuracy", "AUC", "mae"]})),
        H,
    )
    case(
        "activation-own.json",
        js(model({"class_name": "Dense", "config": {"activation": "my_activation"}})),
        U,
        "keras-custom",
    )
    case("activation.json", js(model(keras("Activation", {"activation": "relu"}))), H)


# ---------------------------------------------------------------- JSON


def target_cases():
    """What loaders import by a configuration's word, in JSON and YAML; and what they may."""
    own = [
        "torch.nn.Linear",
        "torch.nn.modules.activation.Tanh",
        "torch.optim.AdamW",
        "torch.nn.functional.relu",
        "ldm.models.diffusion.ddpm.LatentDiffusion",
        "sgm.modules.GeneralConditioner",
        "nemo.collections.asr.models.EncDecCTCModel",
        "pyannote.audio.pipelines.SpeakerDiarization",
        "torchtune.models.llama3.llama3_8b",
        "transformers.LlamaConfig",
        "torch.ops.aten.linear.default",
        "math.floor",
        "_operator.add",
    ]
    foreign = [
        ("evil.mod.Klass", U),
        ("evil.run", U),
        ("torch.hub.load", D),
        ("torch.nn.modules.os.system", D),
        ("torch.ops.load_library", D),
        ("subprocess.Popen", D),
        ("torch.nn.Linear.__init__", D),
        ("torch.nn.evil.run", U),
        ("_operator.methodcaller", D),
        ("os.system", D),
    ]
    for key in (
        "_target_",
        "class_path",
        "_component_",
        "target",
        "class",
        "cls",
        "activation_fn",
        "activation_function",
        "entry_point",
    ):
        for value, verdict in [*foreign, *((name, H) for name in own)]:
            case(
                "a.json",
                js({"model": {key: value, "params": {}}}),
                verdict,
                None if verdict == H else "config-target",
            )
            case(
                "a.yaml",
                f"model:\n  {key}: {value}\n  params: {{}}\n",
                verdict,
                None if verdict == H else "config-target",
            )
    for value, verdict in foreign[:1] + foreign[5:6]:
        for text in (
            "{'target': '%s'}",
            "target:\n  %s\n",
            "target: >-\n  %s\n",
            "target: &a %s\n",
            "? target\n: %s\n",
            'target: "%s"',
            "a: {target: %s}",
            "target: !!str %s\n",
            "pipeline:\n  name: %s\n",
            "- match: x\n  replace:\n    class: %s\n",
            "plugins:\n  - %s\n",
            "target:\r\n  %s\r\n",
            "a: &x %s\ntarget: *x\n",
        ):
            case("b.yaml", text % value, verdict, "config-target")
        case("b.yaml", 'target: "%s"\n' % value.replace("e", "\\x65", 1), verdict, "config-target")
        case("b.jsonl", '{"a": 1}\nno JSON\n{"target": "%s"}\n' % value, verdict, "config-target")
        case(
            "router_config.json",
            js({"types": {"a": value.lower()}, "structure": {}}),
            verdict,
            "config-target",
        )
        case("b.json", js({"plugins": [value]}), verdict, "config-target")
        case("b.json", js({"name": value, "x": 1}), verdict, "config-target")
    for text in (
        '{"_target_": ["os", "system"]}',
        '{"custom_imports": {"imports": ["evil"]}}',
        '{"loader_module": "evil"}',
        '{"user_dir": "evil"}',
        '{"json://{\\"py/object\\":\\"os.system\\"}": 1}',
        '{"py/set": []}',
        '{"lc": 1, "type": "constructor", "id": ["evil", "X"]}',
    ):
        case("c.json", text, U, None)
    for text in (
        "custom_imports:\n  imports: [evil]\n",
        "loader_module: evil\n",
        "py/set: []\n",
        "trust_remote_code: yes\n",
        "{trust_remote_code: 1}\n",
    ):
        case("c.yaml", text, U, None)
    case("long.yaml", "abc: d.e\n" * 1300000, H)
    case("longer.yaml", "a: b\n" * 5100000, U, "text")
    case("long.toml", "a = b.c\n" * 1500000, H)
    case("list.yaml", "files:\n" + "- b\n" * 3000000, H)
    case("list.yaml", "plugins:\n" + "- b\n" * 3000000, D, "too-many")
    case("long.jsonl", '{"a": "b.c"}\n[[[\n' * 500000, H)
    case("d.toml", '[model]\n_target_ = "os.system"\n', D, "config-target")
    case("d.toml", 'x = {target = "evil.mod.Klass"}\n', U, "config-target")
    case("d.toml", '[model]\ntarget = "torch.nn.Linear"\nlr = 1.5\nname = "a.b"\ntarget = "x.json"\n', H)
    case("d.json", js({"a": js({"_target_": "os.system"}).decode()}), U, "config-target")
    case("d.json", js({"a": js({"b": "the _target_ key"}).decode()}), H)
    case("d.yaml", "plugins:\n  - a\n  - evil.mod.Plugin\n  - 'os.system'\n", D, "config-target")
    case("d.yaml", "files:\n  - a.b\n  - test.json\n", H)
    case("c.yaml", "py/object: os.system\n", D, "config-target")
    case(
        "c.json", js({"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}), D, "remote-code"
    )
    case("c.json", js({"lc": 5, "id": [1, 2], "types": ["a"]}), H)
    case(
        "c.json",
        js(
            {
                "loader_module": "mlflow.sklearn",
                "user_dir": None,
                "_target_": None,
                "class": "dog",
                "plugin": True,
            }
        ),
        H,
    )
    case(
        "c.yaml",
        "loader_module: mlflow.pytorch\nuser_dir: null\ntrust_remote_code: false\nclass: dog\nplugins: []\nname: a.b\n",
        H,
    )
    case("c.jsonl", '{"a": 1}\n{"b": [1, 2], "text": "os.system is a function"}\n\n"x"\n', H)
    for value in (1, "true", [1], "yes"):
        case("trust.json", js({"trust_remote_code": value}), U, "remote-code")
    for value in (False, None, 0, "false", "no"):
        case("trust.json", js({"trust_remote_code": value}), H)
    case(
        "modular_model_index.json",
        js({"_class_name": "X", "unet": ["diffusers", "X", {"repo": "e/x", "type_hint": ["evil", "X"]}]}),
        U,
        "remote-code",
    )
    case(
        "modular_model_index.json",
        js(
            {"_class_name": "X", "unet": ["diffusers", "X", {"repo": "e/x", "type_hint": ["diffusers", "X"]}]}
        ),
        H,
    )
    case(
        "kernel.json",
        js({"kernel_config": {"kernel_mapping": {"RMSNorm": {"cuda": "evil/repo:X"}}}}),
        U,
        "remote-code",
    )
    prompt = {"_type": "prompt", "template_format": "jinja2", "input_variables": []}
    case("prompt.json", js({**prompt, "template": "{{ x.__class__.__mro__ }}"}), D, "template")
    case("prompt.json", js({**prompt, "template": "{{ x['a' ~ 'b'] }}"}), U, "template")
    case("prompt.json", js({**prompt, "template": "{{ question }}"}), H, "template")
    case("other.json", js({"custom": "{{ self.__init__.__globals__ }}"}), D, "template")
    case("other.json", js({"custom": "the words __globals__ and {question}"}), H)


def spec(kind, context):
    """A specification of a tree, as torch.utils._pytree.treespec_dumps writes it: context is JSON, or a text of JSON."""
    leaf = {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])


def exported_cases():
    """What torch.export.load() imports and ExportedProgram.module() executes."""

    def program(tree, *guards):
        return js(
            {
                "graph_module": {
                    "module_call_graph": [
                        {
                            "fqn": "",
                            "signature": {"in_spec": tree, "out_spec": spec("builtins.tuple", "null")},
                        }
                    ]
                },
                "guards_code": list(guards),
            }
        )

    def default(module, name):
        return {"default_factory_module": module, "default_factory_name": name, "dict_context": ["k"]}

    def member(fqn):
        return json.dumps([{"__enum__": True, "fqn": fqn, "name": "a"}])

    for module, name, verdict in (
        ("builtins", "list", H),
        ("builtins", "dict", H),
        ("collections", "OrderedDict", H),
        ("os", "getcwd", D),
        ("evil", "X", U),
        ("evil.mod", "X", U),
        ("builtins", "memoryview", U),
        ("subprocess", "Popen", D),
    ):
        rule = None if verdict == H else "config-target"
        tree = spec("collections.defaultdict", default(module, name))
        case("model.json", program(tree), verdict, rule)
        case("tree.json", tree.encode(), verdict, rule)
        case("deeper.json", program(spec("builtins.tuple", tree)), verdict, rule)
        case("blank.json", program("\n " + tree.replace(":", " : ")), verdict, rule)
        case(
            "disguise.json",
            program(tree.replace("default", "d\\u0065fault").replace("builtins", "b\\u0075iltins")),
            verdict,
            rule,
        )
    for fqn, verdict in (("evil:X", U), ("evil.mod:X.y", U), ("evil", U), ("os:system", D)):
        tree = spec("builtins.dict", member(fqn))
        for text in (
            tree,
            tree.replace("__enum__", "__enu\\u006d__"),
            tree.replace("__enum__", "__enu\\\\u006d__"),
            spec("builtins.tuple", tree),
        ):
            case("model.json", program(text), verdict, "config-target")
    case("model.json", program(spec("builtins.dict", '["x", "a b", "d\\\\u00e9j\\u00e0", "fqn"]')), H)
    case(
        "notes.json",
        js(
            {
                "a": "[the words default_factory_module and __enum__]",
                "fqn": "layers.0:x",
                "b": "[\\u0041-\\u005a]+\\d",
            }
        ),
        H,
    )
    case("regex.json", js({"pattern": {"Regex": "[^\\r\\n\\p{L}\\u0020]?\\p{L}+|[\\u00e0]"}}), H)
    genuine = [
        "L['x'].size()[0] == 3",
        "((6*L['x'].size()[0]) % (2*(L['x'].size()[0] // 2))) == 0",
        "L['y'].size()[1] != max(1, L['x'].size()[1] // 2)",
        "L['args'][0]['a b'].field.size()[2] <= 64",
        "L['mode'] == 'sum (all)'",
        "math.isnan(L['x'])",
        "L['x'] == -math.inf",
        "L['x'] == 1.5e-06",
        "not (L['x'].size()[0] == 1 and L['y'].stride()[0] != 1)",
        "L['x'].storage_offset() == 0",
        "Eq(Mod(s0, 8), 0)",
        "L['d\u00e9'] == None",
    ]
    case("model.json", program(spec("builtins.tuple", "null"), *genuine), H)
    for text, verdict in (
        ("(x for x in [1]).gi_frame.f_builtins['eval']('1')", U),
        ("license._Printer__setup()", D),
        ("input()", U),
        ("exit()", U),
        ("delattr(math,'sin')", U),
        ("math.__dict__['__loader__']", D),
        ("L['x'].numpy().tofile('/tmp/x')", U),
        ("L['x'].apply_(eval)", U),
        ("L['x'].apply_ (eval)", U),
        ("(L['x'].apply_)(eval)", U),
        ("L['x'].f[0](1)", U),
        ("L['x']._f", U),
        ("globals()['__builtins__']['exec']('import evil')", D),
        ("f'{evil(1)}'", U),
        ("L['a'] == '\", evil(), \"'", U),
        ("L['a'] == '\\x22, evil(), \\x22'", U),
        ("1if evil() else 2", U),
        ("1\nevil()", U),
        ("L['x'] #", U),
        ("evil", U),
        ("math.evil", U),
        ("(a := evil)", U),
        ("lambda: 1", U),
        ("max(['id'], key=os.system)", U),
        ("L['x", U),
        ("\u212f\u1d5bal(1)", U),
    ):
        case("model.json", program(spec("builtins.tuple", "null"), genuine[0], text), verdict, "config-code")
    case("model.json", js({"guards_code": {"evil()": 1}}), U, "config-code")


def json_cases():
    pickle = b"cos\nsystem\n(S'id'\ntR."
    case("plain.json", b'{"a": [1, 2.5, true, null, "x"], "b": {"c": -0.0}}\n', H, None, True)
    case("python.json", b'{"time_step_limit": [0.0, Infinity], "x": NaN, "y": -Infinity}', H)
    case("bom.json", b'\xef\xbb\xbf{"a": 1}', H)
    case("nothing-behind.json", b'{"a": 1} x', U, "json")
    case("cut.json", b'{"a": ', U, "json")
    case("deep.json", b"[" * 200 + b"]" * 200, U, "json")
    case("deeper.json", b"[" * 4000000, U, "json")
    case("config.json", js({"model_type": "llama", "hidden_size": 64}), H)
    case("nested.json", js({"_type": "torch.nested._internal.nested_tensor.NestedTensor"}), H)
    case("nested_os.json", js({"_type": "torch.nested._internal.os.system"}), D)
    case(
        "auto_map.json", js({"model_type": "x", "auto_map": {"AutoModel": "modeling_x.X"}}), U, "remote-code"
    )
    case("trust.json", js({"trust_remote_code": True}), U, "remote-code")
    case("trust-not.json", js({"trust_remote_code": False}), H)
    case(
        "pipelines.json",
        js({"custom_pipelines": {"x": {"impl": "pipe.P", "pt": ["AutoModel"]}}}),
        U,
        "remote-code",
    )
    case("target.json", js({"model": {"_target_": "os.system", "command": "id"}}), D, "config-target")
    case("target-own.json", js({"_target_": "my.models.Net"}), U, "config-target")
    case(
        "jsonpickle.json",
        js({"py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["id"]}]}),
        D,
        "config-target",
    )
    case("jsonpickle-type.json", js({"py/object": "subprocess.Popen"}), D, "config-target")
    case(
        "schema.json",
        js({"__class__": "Popen", "__module__": "subprocess", "__loader__": "ObjectNode"}),
        D,
        "config-target",
    )
    case("modules.json", js([{"idx": 0, "type": "sentence_transformers.models.Transformer"}]), H)
    for key in ("_component_", "target"):
        case(
            "%s.json" % key,
            js({"model": {key: "subprocess.Popen", "params": {"args": "id"}}}),
            D,
            "config-target",
        )
        case(
            "%s.yaml" % key, "model:\n  %s: os.system\n  params:\n    command: id\n" % key, D, "config-target"
        )
        case("%s-quoted.yml" % key, "model: {'%s': \"os.system\"}\n" % key, D, "config-target")
    case("component.yaml", "model:\n  _component_: torchtune.evil\n", U, "config-target")
    case(
        "targets.json",
        js(
            {
                "target": "cpu",
                "targets": ["q_proj"],
                "target_modules": "model.layers",
                "x": {"target": "test.json"},
            }
        ),
        H,
    )
    case("program.json", js({"nodes": [{"target": "torch.ops.aten.linear.default"}]}), H)
    for op, verdict in (
        ("aten._assert_tensor_metadata.default", H),
        ("aten.from_file.default", U),
        ("evil.op.default", U),
        ("higher_order.call_torchbind", U),
    ):
        case("program.json", js({"nodes": [{"target": "torch.ops." + op}]}), verdict)
    for text, verdict in (
        ("Symbol('s77', positive=True, integer=True)", H),
        ("Max(2, s0 - 1)", H),
        ("64", H),
        ("Add(FloorDiv(Symbol('s77', positive=True, integer=True), Integer(2)), Integer(4))", H),
        ("__import__('os').system('id')", D),
        ("open(1)", U),
        ("s0.func", U),
        ("Symbol('a').x", U),
    ):
        case("program.json", js({"range": {"expr_str": text}}), verdict)  # sympy evaluates it
    exported_cases()
    case(
        "targets.yaml",
        "target: cpu\ntarget_modules: [q_proj]\nx:\n  target: test.csv\nurl: example.com\nv: 1.2.3\n",
        H,
    )
    target_cases()
    wrapper = {
        "module": "keras.layers",
        "class_name": "TorchModuleWrapper",
        "config": {"name": "x", "module": "gAQu"},
        "registered_name": None,
    }
    case("wrapper.json", js(wrapper), D, "keras-torch")
    case(
        "saved.json",
        js({**wrapper, "class_name": "TFSMLayer", "config": {"filepath": "/tmp/x"}}),
        U,
        "keras-saved-model",
    )
    case("x/modules.json", js([{"idx": 0, "type": "evil.Module"}]), U, "remote-code")
    case("base64.json", js({"state": base64.b64encode(pickle).decode()}), D, "global")
    case(
        "base64-escaped.json",
        js({"state": base64.b64encode(pickle).decode()}).replace(b"Y29z", b"\\u005929z"),
        D,
        "global",
    )
    case("words.json", js({"a": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ", "b": "0" * 64}), H)
    case(
        "tokenizer.json",
        js(
            {
                "version": "1.0",
                "model": {
                    "type": "BPE",
                    "vocab": {"a": 0, "get_file": 1, "auto": 2},
                    "merges": ["a b", "ab c"],
                },
            }
        ),
        H,
    )
    case("duplicates.json", b'{"' + b'a": 1, "' * 300000 + b'b": 2}', H)


# ---------------------------------------------------------------- templates


def rendered_cases():
    """Templates under any key, in JSON and YAML, in each kind of quotes."""
    hostile = (
        (U, "{{ ([lipsum]|map(attribute='__GLOBALS__'|lower)|first)('id')|list }}"),
        (U, "{{ x | map (attribute = 'a' ~ 'b') }}"),
        (U, "{{ x|map(attribute='a''b') }}"),
        (U, "{{ x|groupby(k) }}"),
        (U, "{{ x|selectattr('a' ~ 'b')|list }}"),
        (U, "{{ x|map(f) }}"),
        (U, "{{ x|map(*a) }}"),
        (U, "{{ x|map(**{'attribu' ~ 'te': 'b'}) }}"),
        (U, "{{ x|sort(attribute='A'|lower) }}"),
        (U, "{{ (x|first)['o'~'s']['po'~'pen']('id') }}"),
        (U, "{% set s = self %}{{ s['_TEMPLATE'|lower] }}"),
        (U, "{{ ns['GI_F'.lower()] }}"),
        (U, "{{ don't }} {{ x|map(attribute='A'|lower) }}"),
        (U, "{# {{ x|map(attribute='A'|lower) }}"),
        (D, "{{ self['_TEMPLATEreference__context'|replace('TEMPLATE','Template')] }}"),
        (D, "{{ x|map( 'attr' , 'a') }}"),
        (D, "{{ x |\tattr('a') }}"),
        (D, "{{ self [k] }}"),
    )
    harmless = (
        "{{ tools | map(attribute='function') | map(attribute='name') | join(', ') }}",
        "{{ x|selectattr('role', 'equalto', 'user')|list }}",
        "{{ task }} {%- for tool in tools.values() %}{{ tool['name'] }}: {{ tool.args[k] }}{% endfor %}",
        "{{ x|groupby('a.b') }}{{ x|map('upper')|list }}",
        "{{ x|sort(attribute='name', reverse=true)|sum(attribute='n') }}",
        "{{ a['x'] ~ b['y'] }}{{ x[i + 1] }}{{ x if 'a' in ['a', 'b'] else y }}",
        "{{\"a\": 1}} def f(self): return self['a' + b]",
        "{{ .System }}{{ range .Messages }}{{ . | attribute }}{{ end }}",
        "a {{don't}} self attr",
        "${{ matrix.os }} {{#if x}}<a attribute=b>{{/if}}",
        "{{ 2 * x | round(2) }} \\frac{{a}}{b}",
        "{{ x[-5:] }}{{ 'a' * 3 }}{{ {'a': 1}['a'] }}",
    )
    for verdict, text in hostile + tuple((H, t) for t in harmless):
        rule = None if verdict == H else "template"
        case("prompt.json", js({"system_prompt": text}), verdict, rule)
        case("prompts.yaml", "a:\n  system_prompt: %s\n" % json.dumps(text), verdict, rule)
        case("single.yaml", "a: '%s'\n" % text.replace("'", "''"), verdict, rule)
        case("block.yaml", "b: |\n  %s\n" % text, verdict, rule)
    case("braces.yaml", "a: " + "{{" * 2000000 + "\n", H)
    case("nested.yaml", "a: " + ("{{ x[ " * 4000 + "\n") * 300, U, "template")
    case("nested.json", js({"a": "{{ self " + "{{ a[ 'x' " * 800000}), U, "template")


def template_cases():
    for i, text in enumerate(GENUINE):
        case("chat_template.jinja", text, H, "template", i == 2)
        case("tokenizer_config.json", js({"chat_template": text, "eos_token": "</s>"}), H, "template")
    for i, (verdict, text) in enumerate(HOSTILE):
        case(f"{i}.jinja", text, verdict, "template")
        case("tokenizer_config.json", js({"chat_template": text}), verdict, "template")
    bad = HOSTILE[0][1]
    case("chat_template.json", js({"chat_template": [{"name": "default", "template": bad}]}), D, "template")
    case("processor_config.json", js({"chat_template": {"default": bad}}), D, "template")
    case("big.jinja", "{{ a }}" * 400000, U, "template")
    case("wide.jinja", "{% set a = " + "b + " * 3000 + "c %}", H)
    case("many.jinja", ("{% set a = 'x' ~ b %}{{ x[a] }}" * 20000), U, "template")


# ---------------------------------------------------------------- graphs


def graph_cases():
    plain = graph(
        node("a", "Placeholder"),
        node("b", "MatMul"),
        node("c", "StatefulPartitionedCall"),
        functions=function("f", node("r", "ReadVariableOp"), node("i", "Identity")),
    )
    saver = function("__inference__traced_save_1", node("SaveV2", "SaveV2"), node("m", "MergeV2Checkpoints"))
    case("saved_model.pb", saved_model(plain), H, None, True)
    case("saved_model.pb", saved_model(graph(node("a", "NoOp"), functions=saver)), H)
    for op in (
        "WriteFile",
        "ReadFile",
        "ImmutableConst",
        "MatchingFiles",
        "PyFunc",
        "EagerPyFunc",
        "PyFuncStateless",
        "RpcCall",
        "TFRecordDataset",
        "DebugIdentityV3",
        "LoadLibrary",
    ):
        case("saved_model.pb", saved_model(graph(node("x", op))), D, "tf-operator")
        case(
            "saved_model.pb",
            saved_model(graph(node("a", "NoOp"), functions=function("f", node("x", op)))),
            D,
            "tf-operator",
        )
        case("frozen.pb", graph(node("a", "NoOp"), node("x", op)), D, "tf-operator", op == "WriteFile")
    case("frozen.pb", plain, H)
    case("saved_model.pb", saved_model(graph(node("x", "SaveV2"))), U, "tf-operator")
    case("saved_model.pb", saved_model(graph(node("x", "MyCustomOp"))), U, "tf-operator")
    case(
        "saved_model.pb",
        saved_model(graph(node("x", "PrintV2", output_stream="file:///tmp/x"))),
        D,
        "tf-operator",
    )
    case("saved_model.pb", saved_model(graph(node("x", "PrintV2", output_stream="stderr"))), H)
    case(
        "saved_model.pb",
        saved_model(graph(node("x", "DecodeProtoV2", descriptor_source="/etc/x"))),
        D,
        "tf-operator",
    )
    case("saved_model.pb", saved_model(plain, field(6, field(2, "../../etc/passwd"))), D, "tf-asset")
    lambda_json = js(model(keras("Lambda", {"function": LAMBDA})))
    case(
        "saved_model.pb",
        saved_model(plain, field(7, field(1, field(4, field(1, "_tf_keras_layer") + field(3, lambda_json))))),
        D,
        "keras-lambda",
    )
    case(
        "keras_metadata.pb",
        field(1, field(2, 1) + field(3, "root") + field(4, "l") + field(5, lambda_json)),
        D,
        "keras-lambda",
    )
    case("saved_model.pb", saved_model(plain)[:-3], U, None)
    case("saved_model.pb", field(1, 1) + varint(2 << 3 | 2) + b"\xff" * 9 + b"\1", U, None)
    case("model.onnx", onnx(onnx_node("Add"), onnx_node("Gelu", "com.microsoft")), H, None)
    case("model.onnx", onnx(onnx_node("PyOp", "ai.onnx.contrib")), D, "onnx-operator", True)
    case("model.onnx", onnx(onnx_node("Thing", "my.domain")), U, "onnx-domain")
    case(
        "model.onnx",
        onnx(
            onnx_node("Thing", "my.domain"),
            more=field(25, field(1, "Thing") + field(10, "my.domain") + field(7, onnx_node("Add"))),
        ),
        H,
    )
    case(
        "model.onnx",
        onnx(
            onnx_node("Add"),
            more=field(25, field(1, "F") + field(10, "d") + field(7, onnx_node("PyOp", "d"))),
        ),
        D,
        "onnx-operator",
    )
    for op, domain in (
        ("Add", ""),
        ("Upsample", "ai.onnx"),
        ("TreeEnsemble", "ai.onnx.ml"),
        ("QLinearAdd", "com.microsoft"),
        ("Adam", "ai.onnx.preview.training"),
        ("Conv", "com.microsoft.nchwc"),
        ("Affine", ""),
    ):
        case("model.onnx", onnx(onnx_node(op, domain)), H)
    for op, domain in (
        ("NoSuchOp", ""),
        ("add", ""),
        ("Add", "ai.onnx.ml"),
        ("NoSuchOp", "com.microsoft"),
        ("", ""),
        ("TritonOp", "com.microsoft"),
        ("Snpe", "com.microsoft"),
        ("EfficientNMS_TRT", ""),
    ):
        case("model.onnx", onnx(onnx_node(op, domain)), U, "onnx-operator")
    own = field(25, field(1, "Thing") + field(10, "my.domain") + field(7, onnx_node("Add")))
    case("model.onnx", onnx(onnx_node("Other", "my.domain"), more=own), U, "onnx-domain")  # not that function
    case(
        "model.onnx",
        onnx(onnx_node("NoSuchOp"), more=field(25, field(1, "NoSuchOp") + field(7, onnx_node("Add")))),
        H,
    )
    for path, verdict in (("/tmp/x.so", D), ("../x.bin", D), ("x.bin", U)):
        context = field(5, field(1, "ep_cache_context") + field(4, path) + field(20, 3))
        case("model.onnx", onnx(onnx_node("EPContext", "com.microsoft", context)), verdict, "onnx-external")
    inner = field(5, field(1, "then") + field(6, field(1, onnx_node("PyFunc", "x"))) + field(20, 5))
    case("model.onnx", onnx(onnx_node("If", "", inner)), D, "onnx-operator")
    for where in ("/etc/passwd", "../../x", "..\\x", "C:\\x"):
        outside = (
            field(1, 1)
            + field(2, 1)
            + field(8, "o")
            + field(13, field(1, "location") + field(2, where))
            + field(14, 1)
        )
        case("model.onnx", onnx(onnx_node("Add"), tensors=[outside]), D, "onnx-external")
    program = field(
        1, field(1, 0) + field(2, 0) + field(4, field(3, "matmul")) + field(4, field(3, "py_func"))
    )
    case("model.pdmodel", program, D, "paddle-operator")
    for name, verdict in (
        ("1.relu", H),
        ("0.parameter", H),
        ("2.yield", H),
        ("1.load_combine", D),
        ("1.save_", D),
        ("1.py_func", D),
        ("1.read_file", D),
        ("3.evil", U),
        ("custom_op.evil", U),
        ("1.r\\u0065lu", U),
    ):
        ops = (
            '{"#":"block_0","args":[],"ops":[{"#":"%s","A":[{"AT":{"#":"0.a_str","D":"x"},"N":"name"}],"I":[],"O":[]}]}'
            % name
        )
        case(
            "model.json",
            (
                '{"base_code":{"magic":"pir","version":4},"program":{"regions":[{"#":"region_0","blocks":[%s]}]}}'
                % ops
            ).encode(),
            verdict,
            None if verdict == H else "paddle-operator",
        )


# ---------------------------------------------------------------- texts and images


def text_cases():
    case("README.md", "# A model\n\nSome text.\n", H)
    case("LICENSE", "Apache License\n", H)
    case("NOTICE-2", "words\n", H)
    case("vocab.txt", "[PAD]\n[UNK]\n".encode() + "größe\n漢字\n".encode(), H)
    case("merges.txt", "#version: 0.2\na b\n", H)
    case(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n", H)
    case("table.csv", "a,b\n1,2\n", H)
    case("words.bin", "words under a name of nothing\n", U)
    case("words", "words under a name of nothing\n", U)
    case("README.md", b"text\0with a zero", U)
    case("README.md", b"\xff\xfet\0e\0x\0t\0", U)
    case("README.md", b"latin \xe4", U)
    case("README.md", b"cos\nsystem\n(S'id'\ntR.", D, "global")
    evil = b"cos\nsystem\n(S'id'\ntR."
    for name in ("a.txt", "a.md", "a.csv", "a.yaml", "a.toml", "vocab.txt", "LICENSE"):
        case(name, b"# hi\n" + evil, D, "global")  # f.readline(); pickle.load(f)
        case(name, b"one\ntwo\r\n" * 1000 + evil + b"\nmore\n", D, "global")
    case("a.txt", b"words\nI1\n.\n" + evil, D, "global")
    case("a.txt", b"words\n" + evil[:-1] + b"words", D, "global")
    case("a.txt", b"words\n(ios\nsystem\nwords", D, "global")
    case("a.txt", b"words\n(imy-pkg\nmy-f\nwords", U, "global")
    case(
        "a.txt", b"words\n(ios\nsystemX", D, "global"
    )  # Python's own code calls what the end of the file cuts
    case("a.json", b'{"a":\n' + evil, D, "global")
    for name in ("my-pkg", "my pkg", "@pkg", "pkg/sub", "p,q"):
        case("README.txt", b"c%s\nmyfunc\n(tR." % name.encode(), U, "global")
        case("README.txt", b"c%s\nmyfunc\n(tR and words" % name.encode(), U, "global")
        case("README.txt", b"words\nc%s\nmyfunc\n(tR and words" % name.encode(), U, "global")
        case("README.txt", b"words\nc%s\nmyfunc\n.\n" % name.encode(), U, "global")
    case("README.txt", "cat food\nis great\n\n(including this\n or that)\ncats and\ndogs\n", H, "global")
    case("AUTHORS", "Christopher\ncjc7373\nClark Boylan\nClaudio J\nColin\nRoland M\n", H)
    case("COPYING", "(c) Somebody\n\nPermission is granted\nof this\n", H)
    case("table.csv", "c1,c2\n0.1,0.2\n2.5,3\ncab,2\n0,1\n", H)
    case("vocab.txt", "[UNK]\ncast\ncastle\ncos\nsystem\n(\n)\nR\n2.5\ni\nin\nS\n", H)
    case("README.md", "#!/bin/sh\nid\n", U, "code-file")
    case("modeling_x.py", "class X: pass\n", U, "code-file")
    case("setup.sh", "id\n", U, "code-file")
    case("native.so", b"\x7fELF" + bytes(60), U, "code-file")
    case("x.pth", "import os; os.system('id')\n", D, "code-file")
    case("x.pth", "/some/path\n", U, "code-file")
    case("notebook.ipynb", js({"cells": []}), U, "code-file")
    case("page.html", "<html></html>\n", U, "code-file")
    case("config.yaml", "a: 1\nb: [x, !!str y, !!python/tuple [1]]\nc: 'no!'\nd: a != b\n", H)
    case("config.yaml", "a: !!python/object/apply:os.system ['id']\n", D, "yaml-tag")
    case("config.yml", "a: !<tag:yaml.org,2002:python/name:os.system>\n", D, "yaml-tag")
    case("config.yaml", "a: !apply:os.system ['id']\n", D, "yaml-tag")
    case("config.yaml", "a: !new:my.Class\n", U, "yaml-tag")
    case("config.yaml", "%TAG ! tag:yaml.org,2002:python/\n---\na: !name:os.system\n", D, "yaml-tag")
    case("config.yaml", "m:\n  _target_: os.system\n", D, "config-target")
    case("config.yaml", "m:\n  _target_: my.collections.asr.X\n", U, "config-target")
    for text in (
        '"_target_": os.system\n_args_: [id]\n',
        "{'_target_': os.system}\n",
        "? _target_\n: os.system\n",
        "a: &k _target_\n*k : os.system\n",
        '"_tar\\x67et_": os.system\n',
        '"_tar\\u0067et_" : os.system\n',
        "{_target_: os.system}",
        "_target_ : os.system\n",
        'a: {b: [{"_target_":os.system}]}\n',
        "? |-\n  _target_\n: os.system\n",
        "x: &x {_target_: os.system}\ny:\n  <<: *x\n",
        '"_tar\\\n  get_": os.system\n',
        "_target_: !!str os.system\n",
        "_target_: &a os.system\n",
        "_target_: >-\n  os.system\n",
        "a: os.system\nb: &b os.system\n_target_: *b\n",
        '_target_: "os\\x2esystem"\nb: os.system\n',
        "class_path: os.system\n",
    ):
        case("config.yaml", text, D, "config-target")
    case("config.yaml", "chat_template: \"{{ x.__class__.__init__.__globals__['os'] }}\"\n", D, "template")
    case("config.yaml", "a: {{ values }}\n", H)
    case("config.yaml", '"\\U0000005ftarget_": my.Class\n', U, "config-target")
    case("config.yaml", "a: 1\u2028!!python/object/apply:os.system ['id']\n", D, "yaml-tag")
    case("config.yaml", "\ufeff!!python/object/apply:os.system ['id']\n", D, "yaml-tag")
    case("config.yaml", "a: !!py%74hon/object/apply:os.system ['id']\n", U, "yaml-tag")
    case("config.yaml", "- !<tag:yaml.org,2002:python%2fobject/apply:os.system> ['id']\n", U, "yaml-tag")
    case("config.yaml", "a: \"a\\tb\\x41\"\nb: 'C:\\dir'\ntarget_: 5\n", H)
    case("image.png", png((b"tEXt", b"a\0b")), H, None, True)
    case("image.png", png(end=b"cos\nsystem\n"), D, "global")
    case("image.png", png(end=b"some bytes"), U)
    case("image.png", png()[:-1], U)
    case("image.png", png().replace(b"IDAT", b"JDAT"), U)
    case("image.jpg", JPEG, H, None, True)
    case("image.jpg", JPEG + b"PK\3\4", U)
    case("image.gif", GIF, H, None, True)
    case("image.gif", GIF + b"x", U)
    case("image.webp", WEBP, H)
    case("image.webp", WEBP + b"x", U)
    case("image.svg", SVG % "", H)
    for bad in (
        "<script>x</script>",
        "<a href='javascript:x'/>",
        "<rect onload='x'/>",
        "<rect\nonclick = 'x'/>",
    ):
        case("image.svg", SVG % bad, U, "svg")
    for bad in (
        "<s:script xmlns:s='http://www.w3.org/2000/svg'>x</s:script>",
        "<a href='&#106;avascript:x'/>",
        "<foreignObject/>",
        "<style>@import 'x.css';</style>",
        "<style>a{fill:url(http://x)}</style>",
        "<animate/>",
        "<set/>",
        "<image href='x.svg'/>",
        "<image href='data:image/svg+xml;base64,AA=='/>",
        "<rect s:onload='x'/>",
        "<use href='x.svg#a'/>",
        "<text>&x;</text>",
        "<?xml-stylesheet href='x'?>",
        "<style><![CDATA[@import 'x']]></style>",
        "<rect style='fill:&#117;rl(x)'/>",
        "<g",
        "<iframe/>",
        "<style>a{b:\\75rl(x)}</style>",
        "<rect xml:base='javascript:'/>",
        "<handler/>",
    ):
        case("image.svg", SVG % bad, U, "svg")
    for bad in (
        "<rect fill='&#117;rl(http://e)'/>",
        "<rect fill='u&#x72;l(http://e)'/>",
        "<rect style=\"fill:image-set('http://e' 1x)\"/>",
        "<rect fill='url&#40;http://e)'/>",
    ):
        case("image.svg", SVG % bad, U, "svg")
    for good in (
        "<text>&#97;&#64;b &#x2014;</text>",
        "<path d='M0 0&#10;L1 1'/>",
        "<text font-family='&#39;A&#39;'>a</text>",
        "<rect fill='url(#a)'/>",
    ):
        case("image.svg", SVG % good, H)
    case("image.svg", "<!DOCTYPE svg [<!ENTITY x 'y'>]>" + SVG % "", U, "svg")
    case("image.svg", "<html>" + SVG % "", U, "svg")
    case("image.svg", "<?xml version='1.0' encoding='UTF-7'?>" + SVG % "", U, "svg")
    case("image.svg", "words", U, "svg")
    case(
        "image.svg",
        "<?xml version='1.0' encoding='utf-8' standalone='no'?>\n<!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN'\n"
        "  'http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd'>\n<!-- one -->"
        + SVG
        % (
            "<metadata><rdf:RDF xmlns:rdf='r'><cc:Work><dc:type rdf:resource='http://purl.org/dc/dcmitype/StillImage'/></cc:Work></rdf:RDF>"
            "</metadata><defs><style type='text/css'>*{stroke-linejoin: round}</style><clipPath id='p'><rect/></clipPath></defs>"
            "<g clip-path='url(#p)' style=\"fill: url('#q')\"><use xlink:href='#p'/><text>a &amp; b &#65; c</text></g>"
            "<image href='data:image/png;base64,AAAA'/>"
        ),
        H,
    )
    case("tokenizer.model", PIECES, H, None, True)
    case("tokenizer.model", PIECES + field(9, "more"), U)
    case("tokenizer.model", PIECES[:-1], U)
    case(".gitkeep", b"", H)
    case("empty.json", b"", U)
    case("config.json", "# hi\nauto_map: x\n", U, "json")
    case("config.json", "words", U, "json")
    case("config.json", " \n", U, "json")
    case("config.json", "{} {}", U, "json")
    case("config.json", '{"a": 1,}', U, "json")
    case("config.json", " -1.5\n", H)
    case("config.json", '"a text"', H)


# ---------------------------------------------------------------- members of archives


def archive_cases():
    code = (
        "class M(Module):\n  training : bool\n  def forward(self: __torch__.M,\n      x: Tensor) -> Tensor:\n"
    )
    base = [
        Member("m/data.pkl", b"\x80\2}q\0."),
        Member("m/version", b"3\n"),
        Member("m/byteorder", b"little"),
        Member("m/constants.pkl", b"\x80\2)."),
    ]

    def script(body):
        return make_zip(base + [Member("m/code/__torch__.py", (code + body).encode())])

    case("script.pt", script("    return torch.add(x, ops.prim.NumToTensor(1), alpha=1)\n"), "not-dangerous")
    case("script.pt", script('    torch.save(x, "/tmp/x")\n    return x\n'), D, "torchscript-code")
    case("script.pt", script('    return torch.from_file("/etc/passwd", False, 1)\n'), D, "torchscript-code")
    case(
        "script.pt", script('    return ops.aten.from_file("/etc/passwd", False, 1)\n'), D, "torchscript-code"
    )
    case("script.pt", script('    return ops.image.read_file("/etc/passwd")\n'), D, "torchscript-code")
    case("script.pt", script("    return ops.mine.thing(x)\n"), U, "torchscript-code")
    case("script.pt", script('    return torch . save(x, "a")\n'), D, "torchscript-code")
    case("script.pt", script('    _0 = """a"b"""; torch.save(x, "a")\n'), U, "torchscript-code")
    case("script.pt", script('    eval("1")\n'), D, "torchscript-code")
    config = js(model(keras("Lambda", {"function": LAMBDA})))
    case(
        "model.keras",
        make_zip(
            [Member("metadata.json", b"{}"), Member("config.json", config), Member("model.weights.h5", b"x")]
        ),
        D,
        "keras-lambda",
    )


# ---------------------------------------------------------------- real writers, metadata


def real_cases():
    """fixtures/content: see make_content.py."""
    expected = {
        "lambda.keras": (D, "keras-lambda"),
        "lambda.h5": (D, "keras-lambda"),
        "lambda-old.h5": (D, "keras-lambda"),
        "plain.keras": (H, None),
        "plain.h5": (H, None),
        "writes.pb": (D, "tf-operator"),
        "computes.pb": (H, None),
        "fingerprint.pb": (H, None),
        "writes.ptl": (D, "torchscript-code"),
        "computes.ptl": (U, "torchscript"),
    }
    for path in sorted((HERE / "fixtures" / "content").iterdir()):
        case(path.name, path.read_bytes(), *expected[path.name])


def base64_cases():
    """The dress of base64 that decoders of Python and YAML take, in texts, YAML and pickles."""
    code = base64.b64encode(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.").decode()
    rows = [code[i : i + 16] for i in range(0, len(code), 16)]
    old = base64.b64encode(b"cos\nsystem\n(S'id'\ntR.").decode()
    dresses = {
        "crlf": "\r\n".join(rows),
        "spaces": " ".join(code[i : i + 4] for i in range(0, len(code), 4)),
        "junk": ".".join(code[i : i + 7] for i in range(0, len(code), 7)),
        "colon": "x:" + code,
        "word": "pickle " + code,
        "middle": "a text before " + code + " and after",
        "prefix": "base64:" + code,
        "bytes": "b'%s'" % code,
    }
    for name, text in dresses.items():
        case(name + ".txt", "hello\n" + text + "\n", D, "base64")
        case(name + ".yaml", "a: !!binary |\n  " + text.replace("\n", "\n  ") + "\nb: 1\n", D, "base64")
        case(name + "-quoted.yaml", 'a: "%s"\n' % text.replace("\r\n", "\\r\\n"), D, "base64")
        case(name + ".json", js({"a": text}), D, "base64")
        case(name + ".pkl", pickle.dumps({"a": text}, 4), D, "base64")
    case(
        "old.yaml",
        "a: !!binary |\n  " + "\n  ".join(old[i : i + 8] for i in range(0, len(old), 8)) + "\n",
        D,
        "base64",
    )
    case("picture.yaml", "a: !!binary |\n  " + base64.b64encode(bytes(range(256))).decode() + "\n", H)
    case("words.txt", "gAS and gAQ words, eJaaaaaaaaaaaaa.a H4sI.aaaa of no meaning: gAV.\n" * 20, H)
    case("words.pkl", pickle.dumps({"a": "gASa words of no meaning eJx"}, 4), H)
    case(
        "gzip.pkl",
        pickle.dumps({"a": gzip.compress(b"cos\nsystem\n(S'id'\ntR.")}, 4),
        D,
        "global",
        without="base64",
    )


def metadata_cases():
    pickle = base64.b64encode(b"cos\nsystem\n(S'id'\ntR.").decode()
    case("model.safetensors", safetensors({"format": "pt"}), H)
    case("model.safetensors", safetensors({"state": pickle}), D, "global")
    case(
        "model.safetensors",
        safetensors({"config": json.dumps({"_target_": "os.system"})}),
        D,
        "config-target",
    )
    case("model.safetensors", safetensors({"words": "a" * 4000}), H)
    case(
        "model.safetensors",
        safetensors(
            {"w": json.dumps({"class": "dog", "type": "torch.nested._internal.nested_tensor.NestedTensor"})}
        ),
        H,
    )
    case("model.gguf", gguf(**{"tokenizer.chat_template": GENUINE[0]}), H, "template")
    case("model.gguf", gguf(**{"tokenizer.chat_template": HOSTILE[0][1]}), D, "template")
    case("model.gguf", gguf(**{"tokenizer.chat_template.tool_use": HOSTILE[0][1]}), D, "template")
    case("model.gguf", gguf(**{"some.key": pickle}), D, "global")


if __name__ == "__main__":
    sys.exit(
        program(
            (
                keras_cases,
                json_cases,
                rendered_cases,
                template_cases,
                graph_cases,
                text_cases,
                archive_cases,
                real_cases,
                base64_cases,
                metadata_cases,
            )
        )
    )
