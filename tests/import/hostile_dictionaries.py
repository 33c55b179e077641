#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_dictionaries.py --tool TOOL - dictionaries of pickles that are settings: texts in them that programs import, call or execute.

Each is judged as the same member of a JSON file is, in a plain pickle of every protocol, in zip and in npy; genuine neighbours
of each kind stay harmless. The hostile ones are inert: they name what would act. Bounds: scan_cases.py. Standard library only."""

import io
import json
import pathlib
import pickle
import struct
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scan_cases import D, H, U, case, program  # noqa: E402

CALL = "__import__('os').system('id')"
CFG = (
    "model = dict(\n    type='FasterRCNN',\n    backbone=dict(depth=50, out_indices=(0, 1, 2, 3), norm_cfg=dict(requires_grad=True)),\n"
    "    x=['a', 1.5e-4, -1, None, \"b\", r'c'],\n    head=dict(\n        type='X',\n    ))\n# remark: f(x)\ntrain_cfg = None\n"
    "test_cfg = {'a': 1, 'b': model}\nwork_dir = './work_dirs/x'\n"
)
DICTIONARIES = [
    # Lightning 2.1 to 2.5, load_from_checkpoint
    ({"hyper_parameters": {"_instantiator": "evil.fn", "a": 1}}, U),
    ({"hyper_parameters": {"_instantiator": "os.system"}}, D),
    ({"hyper_parameters": {"_instantiator": "evil"}}, U),
    (
        {
            "hyper_parameters": {
                "_instantiator": "lightning.pytorch.cli.instantiate_module",
                "lr": 0.1,
                "optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.1}},
            },
            "epoch": 3,
        },
        H,
    ),
    # pyannote.audio, Model.from_pretrained
    ({"pyannote.audio": {"architecture": {"module": "evil", "class": "X"}}}, U),
    ({"pyannote.audio": {"architecture": {"module": "os", "class": "system"}}}, D),
    (
        {
            "pyannote.audio": {
                "architecture": {"module": "pyannote.audio.models.segmentation", "class": "PyanNet"},
                "versions": {"torch": "2.0.1"},
            }
        },
        H,
    ),
    # mmengine, Config.fromstring(cfg, '.py')
    ({"meta": {"cfg": "import evil\nmodel=dict()\n"}}, U),
    ({"message_hub": {"runtime_info": {"cfg": CALL + "\n"}}}, D),
    ({"meta": {"cfg": "dict = exec\nx = dict('1')\n"}}, U),
    ({"meta": {"cfg": "model=dict(type='os.system')\n"}}, D),
    ({"meta": {"cfg": "x = [f for f in (exec,)][0]('1')\n"}}, U),
    ({"meta": {"cfg": "x = evil(\n1)\n"}}, U),
    ({"meta": {"cfg": "@evil\nclass A: pass\n"}}, U),
    ({"meta": {"cfg": "x = f'{evil()}'\n"}}, U),
    ({"meta": {"cfg": "x = (evil\n('1'))\n"}}, U),
    ({"meta": {"cfg": "custom_imports = dict(imports=['evil'])\n"}}, U),
    ({"meta": {"cfg": "x = {'type': 'os.system'}\n"}}, D),
    ({"meta": {"cfg": "x = dict(a=1).__class__\n"}}, U),
    ({"meta": {"cfg": CFG, "epoch": 12}}, H),
    ({"cfg": "configs/a.yaml"}, H),
    ({"train_args": {"cfg": None, "model": "yolov8n.pt", "data": "coco.yaml", "tracker": "botsort.yaml"}}, H),
    # hydra and NeMo, also as texts
    ({"hyper_parameters": {"cfg": {"_target_": "os.system"}}}, D),
    ({"cfg": {"_target_": "nemo.collections.asr.models.EncDecCTCModel", "optim": {"name": "adamw"}}}, H),
    ({"cfg": {"a": [{"b": ({"_target_": "evil.f"},)}]}}, U),
    ({"config": json.dumps({"_target_": "os.system"})}, D),
    ({"config": " " * 3000 + json.dumps({"a": {"_target_": "os.system"}}, indent=1)}, D),
    ({"config": ["x" * 600, json.dumps({"_target_": "os.system"})]}, D),
    ({"config": json.dumps({"_target_": "torch.nn.Linear", "in_features": 2})}, U),
    ({"config": json.dumps({"model_type": "bert", "layers": [1, 2]})}, H),
    ({"plugins": ["a.b", ["evil.mod.X"]]}, U),
    ({"plugins": ("evil.mod.X",)}, U),
    ({"plugins": {"evil.mod.X"}}, U),
    ({"target": "evil.mod.X"}, U),
    ({"class_path": "x" * 600 + ".f"}, U),
    ({"x": {"user_dir": "evil"}}, U),
    # Ultralytics
    ({"names": CALL}, D),
    ({"names": {0: "person", 1: "hair drier", 2: "car (small)"}}, H),
    ({"names": {0: CALL}}, D),
    # transformers
    ({"auto_map": {"AutoModel": "evil--m.X"}}, U),
    ({"chat_template": "{{ cycler.__init__.__globals__.os.popen('id').read() }}"}, D),
    ({"chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}, H),
    ({"trust_remote_code": True}, U),
    ({"trust_remote_code": False}, H),
    ({"system": "a" * 600 + "{{ x.__class__.__mro__ }}"}, D),
    # a module and a function of it
    ({"mod": "os", "call": "system"}, D),
    ({"a": "Popen", "x": {"package": "subprocess", "what": "Popen"}}, D),
    ({"module_path": "evil", "class_name": "X"}, H),
    ({"module": "os", "platform": "linux", "level": "run"}, H),
    ({"kv_connector_module_path": "evil"}, U),
    ({"uses": "evil.mod.comp"}, U),
    # plain values under everyday words
    (
        {
            "args": {
                "lr": 0.1,
                "model": "resnet50",
                "optimizer": "sgd",
                "scheduler": "cosine",
                "sampler": "random",
                "callbacks": ["early_stop"],
                "type": "adam",
                "dataset": "/data/x",
                "class_names": ["a", "b"],
                "transform": "resize",
                "backend": "nccl",
                "resume": "runs/last.pt",
            },
            "arch": "vit_base",
        },
        H,
    ),
    ({"param_groups": [{"lr": 0.1, "name": "decoder", "params": [0, 1]}], "state": {}}, H),
    ({"layer_map": {"fc1.weight": "encoder.fc1.weight"}}, H),
    ({"module": "encoder", "name": "x", "epoch": 1}, H),
    ({"vocab": {"os.system": 1, "a.b": 2}, "itos": ["the", "of", "a-b"]}, H),
]


class One(pickle._Pickler):  # pylint: disable=protected-access
    """Each item by itself, as protocol 0 has it."""

    def _batch_setitems(self, items, *_):
        for k, v in items:
            self.save(k)
            self.save(v)
            self.write(b"s")


def one(value):
    out = io.BytesIO()
    One(out, 2).dump(value)
    return out.getvalue()


def npy(body):
    head = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


def zipped(body):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("m/data.pkl", body)
        z.writestr("m/version", "3\n")
        z.writestr("m/byteorder", "little")
    return out.getvalue()


def dictionaries():
    for value, verdict in DICTIONARIES:
        for protocol in range(6):
            if protocol != 1 or verdict == H:
                try:
                    body = pickle.dumps(value, protocol)
                except RecursionError:
                    continue
                if not any(isinstance(v, set) for v in value.values()) or protocol >= 4:
                    case("a%d.pkl" % protocol, body, verdict)
        if not any(isinstance(v, set) for v in value.values()):
            case("one.ckpt", one(value), verdict)
        case("a.npy", npy(pickle.dumps(value, 4)), verdict)
        case("a.pt", zipped(pickle.dumps(value, 2 if "plugins" not in value else 4)), verdict)


def memo():
    """Keys and values that are taken from the memo; a dictionary that is made by DICT; a pickle that fails."""
    text = b"\x8c%c%s"
    key, value = text % (8, b"_target_"), text % (9, b"os.system")
    case("get.pkl", b"\x80\x04" + key + b"\x940" + value + b"\x940}h\x00h\x01s.", D)
    case("dict.pkl", b"\x80\x04(" + key + value + b"d.", D)
    case("lists.pkl", b"\x80\x04(" + text % (7, b"plugins") + b"(" + text % (8, b"evil.a.B") + b"ld.", U)
    case("fails.pkl", b"\x80\x04}" + key + value + b"sR.", U, without="config-target")
    case("state.pkl", b"\x80\x04ccollections\nOrderedDict\n)R}" + key + value + b"sb.", D)
    case("ordered.pkl", b"\x80\x04ccollections\nOrderedDict\n)R" + key + value + b"s.", D)
    case(
        "apart.pkl",
        b"\x80\x04}"
        + text % (6, b"module")
        + text % (4, b"evil")
        + b"s"
        + text % (1, b"x")
        + b"}"
        + text % (1, b"y")
        + b"K\x01ss"
        + text % (5, b"class")
        + text % (1, b"X")
        + b"s.",
        U,
    )
    case(
        "two.pkl",
        b"\x80\x04]}"
        + text % (6, b"module")
        + text % (4, b"evil")
        + b"sa}"
        + text % (5, b"class")
        + text % (1, b"X")
        + b"sa.",
        H,
    )


def many():
    """Large ones are judged to their end, at no great cost."""
    plain = {"key%d" % i: "the value %d" % i for i in range(400000)}
    case("many.pkl", pickle.dumps(plain, 4), H)
    case("late.pkl", pickle.dumps(dict(plain, z={"_target_": "os.system"}), 4), D)
    case("dots.pkl", pickle.dumps({"names": ["f.%d" % i for i in range(300000)]}, 4), H)
    case("deep.pkl", b"\x80\x04" + b"}\x8c\x01a" * 200000 + b"N" + b"s" * 200000 + b".", H)
    case("lists.pkl", b"\x80\x04}\x8c\x01a" + b"]" * 200000 + b"\x8c\x05a.b.c" + b"a" * 200000 + b"s.", H)
    case(
        "marks.pkl",
        b"\x80\x04}\x8c\x06plugin" + b"(" * 200000 + b"\x8c\x08evil.a.B" + b"t" * 200000 + b"s.",
        U,
    )
    case(
        "skips.pkl",
        b"\x80\x04}\x8c\x01a]" + b"(" * 100000 + b"K\x00" + b"]\x8c\x01xa0" * 1000000 + b".",
        "not-dangerous",
    )
    case("json.pkl", pickle.dumps({"a": ['{"b": 1}'] * 200000}, 4), H)


if __name__ == "__main__":
    sys.exit(program((dictionaries, memo, many)))
