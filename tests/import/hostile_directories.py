#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_directories.py --tool TOOL [--keep DIRECTORY] - directories of models, as their tools leave them, fed to scan.

The directory, a snapshot of Hugging Face's cache and the cache exit with 0; then one file at a time is added that acts, or of
which nothing can be told, and must be found. All payloads are inert. Standard library only.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from content_files import JPEG, PIECES, SVG, onnx, onnx_node, png, safetensors  # noqa: E402
from content_templates import GENUINE  # noqa: E402
from hostile_proto import field  # noqa: E402
from scan_cases import D, H, U, js, program, scan  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Judge:
    """What scan says of directories, against what it must say."""

    def __init__(self, tool):
        self.tool, self.asked, self.bad = tool, 0, 0

    def need(self, good, what):
        self.asked += 1
        if not good:
            self.bad += 1
            print(what, file=sys.stderr)

    def expect(self, folder, verdict, rule, what):
        run, results, _ = scan(self.tool, folder)
        got = [r for r in results if r["verdict"] != H]
        worst = D if any(r["verdict"] == D for r in got) else U if got else H
        rules = {f["rule"] for r in got for f in r["findings"]}
        nameless = [
            r["file"]
            for r in results
            if r["verdict"] == H
            and r["format"] == "unknown"
            and r["findings"][:1] != [f for f in r["findings"] if f["rule"] == "link-directory"][:1]
        ]
        self.need(not nameless, f"{what}: harmless, but nothing says what they are: {nameless[:5]}")
        self.need(
            worst == verdict and run.returncode == (verdict != H) and (rule is None or rule in rules),
            f"{what}: {worst} {sorted(rules)}, status {run.returncode}, expected {verdict} {rule}: "
            f"{[r['file'] for r in got][:5]} {run.stderr.decode()[:300]}",
        )


# ---------------------------------------------------------------- what real tools leave


def write_model(folder):
    """A directory as transformers and its tools leave it."""

    def put(name, data):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())

    put(
        "README.md",
        "---\nlicense: apache-2.0\ntags: [text]\n---\n# Model\n```python\nimport os\n```\nclass of models\nwith text\n",
    )
    put("LICENSE", "Apache License\n")
    put("USE_POLICY.md", "words\n")
    put(".gitattributes", "*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
    put(
        "config.json",
        js({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_scaling": None}),
    )
    put("generation_config.json", js({"eos_token_id": [1, 2], "transformers_version": "4.50.0"}))
    put(
        "tokenizer.json",
        js({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}),
    )
    put("tokenizer_config.json", js({"chat_template": GENUINE[2], "tokenizer_class": "LlamaTokenizer"}))
    put("chat_template.jinja", GENUINE[0])
    put("special_tokens_map.json", js({"eos_token": {"content": "</s>", "lstrip": False}}))
    put("vocab.json", js({"a": 0, "b": 1}))
    put("merges.txt", "#version: 0.2\na b\n")
    put("vocab.txt", "cat\ndog\n[PAD]\n")
    put("tokenizer.model", PIECES)
    put("preprocessor_config.json", js({"image_mean": [0.5, 0.5, 0.5]}))
    put(
        "model.safetensors.index.json",
        js({"metadata": {"total_size": 8}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}),
    )
    put("model-00001-of-00001.safetensors", safetensors({"format": "pt"}))
    put("images/example.png", png())
    put("images/photo.jpg", JPEG)
    put("images/logo.svg", SVG % "")
    put("hyperparams.yaml", "lr: 1e-4\nlayers: [1, 2]\n")
    put("1_Pooling/config.json", js({"word_embedding_dimension": 8}))
    put(
        "modules.json",
        js([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]),
    )
    put(".cache/huggingface/.gitignore", "*")
    put(".cache/huggingface/download/config.json.metadata", "a" * 40 + "\n" + "b" * 64 + "\n1700000000.0\n")
    put(".cache/huggingface/download/config.json.lock", b"")
    for name in ("keras.keras",):
        put(name, (HERE / "fixtures" / name).read_bytes())
    shutil.copytree(HERE / "fixtures" / "tf-saved", folder / "saved")


def write_cache(folder):
    """The same as Hugging Face's cache has it: links into blobs. Returns the snapshot."""
    plain = folder / "plain"
    write_model(plain)
    hub = folder / "models--org--name"
    snapshot = hub / "snapshots" / ("c" * 40)
    (hub / "blobs").mkdir(parents=True)
    for i, path in enumerate(sorted(p for p in plain.rglob("*") if p.is_file() and ".cache" not in p.parts)):
        blob = hub / "blobs" / f"{i:064x}"
        link = snapshot / path.relative_to(plain)
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("c" * 40)
    (hub / ".no_exist" / ("c" * 40)).mkdir(parents=True)
    (hub / ".no_exist" / ("c" * 40) / "adapter_config.json").write_bytes(b"")
    shutil.rmtree(plain)
    return hub, snapshot


# ---------------------------------------------------------------- what is added

# (name, bytes, verdict of the directory with it, rule)
ADDED = [
    ("modeling_x.py", b"x = 1\n", U, "code-file"),
    (".git/hooks/post-checkout", b"#!/bin/sh\nid\n", D, "git-hook"),
    (".git/config", b"[core]\n\tfsmonitor = id\n", U, "git-config"),
    ("x.pth", b"import os\n", D, "code-file"),
    (".hidden/a.pkl", b"cos\nsystem\n(S'id'\ntR.", D, "global"),
    ("auto.json", js({"auto_map": {"A": "b.C"}}), U, "remote-code"),
    ("labels.txt", b"cos\nsystem\n(S'id'\ntR.", D, "global"),
    ("unknown.dat", os.urandom(64), U, None),
    ("saved/variables/other.data-00000-of-00001", b"\0" * 64, U, None),
    ("CMakeLists.txt", b"project(x)\n", U, "code-file"),
    ("pyproject.toml", b"[build-system]\n", U, "code-file"),
    ("package.json", js({"scripts": {"postinstall": "id"}}), U, "code-file"),
    (".vscode/tasks.json", js({"tasks": []}), U, "code-file"),
    (".github/workflows/a.yml", b"on: push\n", U, "code-file"),
    ("Dockerfile.gpu", b"FROM x\n", U, "code-file"),
    (
        ".claude/settings.json",
        js({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "id"}]}]}}),
        U,
        "code-file",
    ),
    (".mcp.json", js({"mcpServers": {"x": {"command": "id"}}}), U, "code-file"),
    (".cursor/mcp.json", js({}), U, "code-file"),
    (".yarnrc.yml", b"yarnPath: ./x\n", U, "code-file"),
    ("cloudbuild.yaml", b"steps: []\n", U, "code-file"),
    ("deno.json", js({"tasks": {"a": "id"}}), U, "code-file"),
    (".eslintrc", js({"plugins": ["x"]}), U, "code-file"),
    ("x.code-workspace", js({"tasks": {}}), U, "code-file"),
    (".drone.yml", b"a: b\n", U, "code-file"),
    ("lefthook.yml", b"a: b\n", U, "code-file"),
    ("devbox.json", js({"shell": {"init_hook": "id"}}), U, "code-file"),
    (".aider.conf.yml", b"lint-cmd: id\n", U, "code-file"),
    ("Makefile", b"all:\n", U, "code-file"),
    ("run.bat", b"dir\n", U, "code-file"),
    ("docker-compose.yml", b"a: b\n", U, "code-file"),
    ("kernel.json", js({"attn_implementation": "owner/repository"}), U, "remote-code"),
    ("kernels.json", js({"attn_implementation": {"text": "owner/repository@main:f"}}), U, "remote-code"),
    (
        "adapter_config.json",
        js({"auto_mapping": {"base_model_class": "X", "parent_library": "my_module"}}),
        U,
        "remote-code",
    ),
    (
        "adapter_config.json",
        js({"auto_mapping": {"base_model_class": "X", "parent_library": "os"}}),
        D,
        "remote-code",
    ),
    ("model_index.json", js({"_class_name": "P", "unet": ["my_module", "X"]}), U, "remote-code"),
    ("model_index.json", js({"_class_name": ["pipeline", "X"]}), U, "remote-code"),
    ("saved/checkpoint", b'model_checkpoint_path: "/tmp/x"\n', U, "tf-state"),
]


def check_added(judge, model):
    for name, data, verdict, rule in ADDED:
        path = model / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        judge.expect(model, verdict, rule, name)
        path.unlink()
        if name.startswith(".") and "/" in name:
            shutil.rmtree(model / name.split("/")[0])


def check_own(judge, model):
    """What the libraries' own settings name, and git's own files, stay harmless."""
    (model / "self").symlink_to(".")
    judge.expect(model, H, None, "a link to the directory itself")
    (model / "self").unlink()
    for name, value in (
        (
            "model_index.json",
            {
                "_class_name": "P",
                "unet": ["diffusers", "X"],
                "safety_checker": [None, None],
                "text": ["transformers", "Y"],
                "watermark": ["stable_diffusion", "Z"],
            },
        ),
        ("kernel.json", {"attn_implementation": "flash_attention_2"}),
        (
            "adapter_config.json",
            {"auto_mapping": {"parent_library": "transformers.models.bert.modeling_bert"}},
        ),
        ("package.json", {"name": "x"}),
    ):
        (model / name).write_bytes(js(value))
    judge.expect(model, H, None, "what their own libraries have")
    for name in (
        ".git/HEAD",
        ".git/description",
        ".git/hooks/pre-commit.sample",
        ".git/refs/heads/main",
        ".git/config",
    ):
        path = model / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[core]\n\tbare = false\n" if name.endswith("config") else "ref: refs/heads/main\n")
    judge.expect(model, H, None, "git's own texts")


def check_empty(judge, empty):
    empty.mkdir()
    for options, status in (
        (["--json"], 1),
        (["--allow-unknown"], 0),
        (["--json", "--allow-unknown"], 0),
        ([], 1),
    ):
        run = subprocess.run(
            [judge.tool, "scan", *options, str(empty)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        said = [json.loads(line) for line in run.stdout.splitlines()] if "--json" in options else []
        right = not said or (said[0]["verdict"] == U and said[0]["findings"][0]["rule"] == "empty")
        judge.need(
            run.returncode == status and right and ("--json" in options) == bool(said),
            f"an empty directory, {options}: status {run.returncode}, {run.stdout[:200]}",
        )


def check_lost(judge, lost):
    """A model without its data, and a file that is not there."""
    lost.mkdir()
    outside = (
        field(1, 4)
        + field(2, 1)
        + field(8, "x")
        + field(13, field(1, "location") + field(2, "gone.bin"))
        + field(14, 1)
    )
    (lost / "a.onnx").write_bytes(onnx(onnx_node("Custom", "my.domain"), tensors=[outside]))
    run, results, _ = scan(judge.tool, lost)
    rules = {f["rule"] for r in results for f in r["findings"]}
    judge.need(
        run.returncode == 1 and len(results) == 1 and {"not-read", "onnx-domain"} <= rules,
        f"ONNX without its data: status {run.returncode}, {rules} {run.stderr[:200]}",
    )
    run, results, _ = scan(judge.tool, lost / "nothing.pt")
    judge.need(
        run.returncode == 3
        and len(results) == 1
        and results[0]["verdict"] == U
        and results[0]["findings"][0]["rule"] == "not-read",
        f"a file that is not there: status {run.returncode}, {results}",
    )


def check_directories(tool, work):
    judge = Judge(tool)
    model = work / "model"
    write_model(model)
    judge.expect(model, H, None, "a model's directory")
    hub, snapshot = write_cache(work / "cache")
    judge.expect(snapshot, H, None, "a snapshot of the cache")
    judge.expect(hub, H, None, "the cache of a model")
    check_added(judge, model)
    check_own(judge, model)
    check_empty(judge, work / "empty")
    check_lost(judge, work / "lost")
    print(f"{judge.asked} checks of directories, {judge.bad} faults")
    return judge.bad


if __name__ == "__main__":
    sys.exit(program((), check_directories))
