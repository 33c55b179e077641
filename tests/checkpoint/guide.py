#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""guide.py --tool TOOL [--doc FILE [--write]] - the workflows of MindSpore Transformers' guide to safetensors weights, statement by
statement.

Needs mindspore, safetensors and safetensors_c (scripts/python_peers.sh). A Qwen2 of four layers lies here as Hugging Face has it, as a
training job of two times two ranks leaves it (files by ms.save_checkpoint, strategy by MindSpore's own classes), full, without
replicas and as .ckpt. Every statement is a command or a call in Python, and what it made is compared with the truth by the
reference package or with what MindSpore's own functions make of the same input. --doc: the table in FILE must be this one; --write
puts it there. Exit 1 if a statement does not work, or the table is another.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("GLOG_v", "3")

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore_peer import protobuf, save_rank, their_slice  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from safetensors_c import distributed  # noqa: E402
from safetensors_c.mindspore import Saver, load_into  # noqa: E402

LAYERS, HIDDEN, HEADS, KV, FFN, VOCAB = 4, 16, 4, 2, 24, 32
DP, MP = 2, 2
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCAB,
    "tie_word_embeddings": False,
}
# name in Hugging Face's, name in MindFormers 1.x, shape, dimension that model_parallel cuts
PER_LAYER = [
    ("self_attn.q_proj.weight", "attention.wq.weight", [HIDDEN, HIDDEN], 0),
    ("self_attn.q_proj.bias", "attention.wq.bias", [HIDDEN], 0),
    ("self_attn.k_proj.weight", "attention.wk.weight", [HIDDEN * KV // HEADS, HIDDEN], 0),
    ("self_attn.k_proj.bias", "attention.wk.bias", [HIDDEN * KV // HEADS], 0),
    ("self_attn.v_proj.weight", "attention.wv.weight", [HIDDEN * KV // HEADS, HIDDEN], 0),
    ("self_attn.v_proj.bias", "attention.wv.bias", [HIDDEN * KV // HEADS], 0),
    ("self_attn.o_proj.weight", "attention.wo.weight", [HIDDEN, HIDDEN], 1),
    ("mlp.gate_proj.weight", "feed_forward.w1.weight", [FFN, HIDDEN], 0),
    ("mlp.up_proj.weight", "feed_forward.w3.weight", [FFN, HIDDEN], 0),
    ("mlp.down_proj.weight", "feed_forward.w2.weight", [HIDDEN, FFN], 1),
    ("input_layernorm.weight", "attention_norm.weight", [HIDDEN], None),
    ("post_attention_layernorm.weight", "ffn_norm.weight", [HIDDEN], None),
]
ENDS = [
    ("model.embed_tokens.weight", "model.tok_embeddings.embedding_weight", [VOCAB, HIDDEN], 0),
    ("model.norm.weight", "model.norm_out.weight", [HIDDEN], None),
    ("lm_head.weight", "lm_head.weight", [VOCAB, HIDDEN], 0),
]
ROWS = []


def parameters():
    rows = [ENDS[0]]
    for i in range(LAYERS):
        rows += [(f"model.layers.{i}.{hf}", f"model.layers.{i}.{mf}", s, d) for hf, mf, s, d in PER_LAYER]
    return rows + ENDS[1:]


def strategy_of(dp, mp, optimizer=()):
    """MindSpore's protobuf: every parameter over a mesh of dp times mp; those of the optimizer's moments alike."""
    entries = []
    for _, name, shape, dim in parameters():
        where = [-1 if d != dim else 0 for d in range(len(shape))]
        entries += [(n + name, [dp, mp], where, 0, 0) for n in ("", *optimizer)]
    return protobuf(entries)


class Guide:
    def __init__(self, tool, base):
        self.tool, self.base = tool, base
        rng = np.random.default_rng(17)
        self.hf = {hf: rng.standard_normal(s).astype(np.float32) for hf, _, s, _ in parameters()}
        self.mf = {mf: self.hf[hf] for hf, mf, _, _ in parameters()}
        self.moments = {p + n: rng.standard_normal(v.shape).astype(np.float32)
                        for p in ("adam_m.", "adam_v.") for n, v in self.mf.items()}  # fmt: skip
        self.state = {"global_step": np.array([20], np.int32), "epoch_num": np.array([1], np.int32)}
        self.whole = {**self.mf, **self.moments, **self.state}
        self.make_hugging_face()
        self.make_jobs()

    def at(self, *parts):
        return os.path.join(self.base, *parts)

    def make_hugging_face(self):
        os.makedirs(self.at("hf"))
        names, files = list(self.hf), 4
        index = {"metadata": {"total_size": sum(v.nbytes for v in self.hf.values())}, "weight_map": {}}
        for k in range(files):
            part = names[k * len(names) // files : (k + 1) * len(names) // files]
            file = f"model-{k + 1:05}-of-{files:05}.safetensors"
            save_file({n: self.hf[n] for n in part}, self.at("hf", file), {"format": "pt"})
            index["weight_map"].update(dict.fromkeys(part, file))
        with open(self.at("hf", "model.safetensors.index.json"), "w") as f:
            json.dump(index, f)
        with open(self.at("hf", "config.json"), "w") as f:
            json.dump(CONFIG, f)

    def make_jobs(self):
        for dp, mp in ((DP, MP), (1, 2), (2, 4), (1, 1)):
            text = strategy_of(dp, mp, ("adam_m.", "adam_v."))
            os.makedirs(self.at(f"strategy_{dp}_{mp}"))
            for rank in range(dp * mp):
                with open(self.at(f"strategy_{dp}_{mp}", f"ckpt_strategy_rank_{rank}.ckpt"), "wb") as f:
                    f.write(text)
        shutil.copytree(self.at(f"strategy_{DP}_{MP}"), self.at("out", "strategy"))
        for rank in range(DP * MP):
            parts = self.part(rank, DP, MP)
            # of replicas the first data-parallel rank keeps the layers below, the second the others
            mine = {n: v for n, v in parts.items() if n in self.state or (".layers.0" in n) == (rank < MP)}
            few = {"full": parts, "few": mine}
            for form, tensors in few.items():
                save_rank(self.at("out" if form == "full" else "few", "checkpoint", f"rank_{rank}",
                                  f"qwen2_7b_rank_{rank}-1_20.safetensors"),
                          tensors, remove_redundancy=form == "few")  # fmt: skip
            save_rank(self.at("seed", f"rank_{rank}", f"qwen2_7b_rank_{rank}.safetensors"), parts)
            save_rank(self.at("ckpt", f"rank_{rank}", f"qwen2_7b_rank_{rank}-1_20.ckpt"), parts)
        shutil.copytree(self.at("out", "strategy"), self.at("few", "strategy"))

    def part(self, rank, dp, mp):
        out = dict(self.state)
        for _, name, shape, dim in parameters():
            where = [-1 if d != dim else 0 for d in range(len(shape))]
            for n in (name, "adam_m." + name, "adam_v." + name):
                out[n] = their_slice(self.whole[n], [dp, mp], where, 0, 0, rank).copy()
        return out

    # ------------------------------------------------------------ rows

    def run(self, command):
        words = ["safetensors" if w == "safetensors" else w for w in shlex.split(command)]
        return subprocess.run([self.tool, *words[1:]], cwd=self.base, capture_output=True, text=True)

    def row(self, statement, command, check, words=()):
        """One statement: the command succeeds, says these words, and check(self) is true of what it wrote."""
        r = self.run(command)
        lost = [w for w in words if w not in r.stdout + r.stderr]
        verdict = "works"
        if r.returncode != 0 or lost:
            verdict = f"fails: exit {r.returncode}, {(r.stderr or r.stdout).strip()[:200]}{lost}"
        else:
            said = check(self)
            if said is not True:
                verdict = f"wrong: {said}"
        ROWS.append((statement, command, verdict))

    def refused(self, statement, command, words):
        """One statement: the command fails with these words, and leaves no output."""
        r = self.run(command)
        output = command.split(" -o ")[1].split()[0] if " -o " in command else None
        lost = [w for w in words if w not in r.stderr]
        good = r.returncode == 1 and not lost and (output is None or not os.path.exists(self.at(output)))
        ROWS.append(
            (statement, command, "works" if good else f"exit {r.returncode}: {r.stderr.strip()[:200]}")
        )

    def python(self, statement, code, check):
        """One statement: the code in a directory with the files; check(self, names) is true of the names that it has then."""
        names = {"load_part": distributed.load_part, "load_into": load_into, "Saver": Saver, "rank": 1,
                 "net": self.net(self.part(1, 1, 2)), "whole_net": self.net(self.whole)}  # fmt: skip
        here = os.getcwd()
        os.chdir(self.base)
        try:
            exec(code, names)  # noqa: S102 - the lines of this file
            said = check(self, names)
            verdict = "works" if said is True else f"wrong: {said}"
        except Exception as error:
            verdict = f"fails: {type(error).__name__}: {error}"
        finally:
            os.chdir(here)
        ROWS.append((statement, code.replace("\n", "; "), verdict))

    def net(self, arrays):
        """What a process trains that holds these: parameters, with the optimizer's, of zeros."""
        kept = {n: v for n, v in arrays.items() if n not in self.state}
        return {n: ms.Parameter(ms.Tensor(np.zeros_like(v)), name=n) for n, v in kept.items()}

    def equal(self, tensors, truth):
        """Of MindSpore's tensors or parameters."""
        wrong = sorted(set(tensors) ^ set(truth))
        wrong = wrong or [n for n in truth if tensors[n].asnumpy().tobytes() != truth[n].tobytes()]
        return not wrong or f"{len(wrong)} differ: {wrong[:3]}"

    def same(self, path, truth):
        """The tensors of a file, or of all files of a directory."""
        path = self.at(path)
        files = [path] if os.path.isfile(path) else sorted(
            os.path.join(path, f) for f in os.listdir(path) if f.endswith(".safetensors"))  # fmt: skip
        got = {}
        for file in files:
            with safe_open(file, "np") as f:
                for name in f.keys():  # noqa: SIM118
                    if name in got:
                        return f"{name} is there twice"
                    got[name] = f.get_tensor(name)
        wrong = sorted(set(got) ^ set(truth)) or [n for n in truth if got[n].tobytes() != truth[n].tobytes()]
        return not wrong or f"{len(wrong)} differ: {wrong[:3]}"

    def ranks(self, path, dp, mp, name, only=None):
        for rank in range(dp * mp):
            truth = self.part(rank, dp, mp)
            if only is not None:
                truth = {n: v for n, v in truth.items() if n in only}
            said = self.same(os.path.join(path, name.format(rank=rank)), truth)
            if said is not True:
                return f"rank {rank}: {said}"
        return True


def has(path, *names):
    def check(g):
        lost = [n for n in names if not os.path.exists(g.at(path, n))]
        return not lost or f"{lost} missing of {sorted(os.listdir(g.at(path)))}"

    return check


def both(*checks):
    def check(g):
        for one in checks:
            said = one(g)
            if said is not True:
                return said
        return True

    return check


def map_is_true(path):
    """param_name_map.json names for every tensor but hyperparameters the file that has it."""

    def check(g):
        with open(g.at(path, "param_name_map.json")) as f:
            named = json.load(f)["weight_map"]
        for name, file in named.items():
            with safe_open(g.at(path, file), "np") as f:
                if name not in f.keys():  # noqa: SIM118
                    return f"{name} is not in {file}"
        return sorted(named) == sorted(set(g.whole) - set(g.state)) or "other names"

    return check


def as_theirs(g):
    """MindSpore's own script writes the same bytes."""
    ms.ckpt_to_safetensors(g.at("ckpt"), g.at("their_conversion"))
    for rank in range(DP * MP):
        name = os.path.join(f"rank_{rank}", f"qwen2_7b_rank_{rank}-1_20.safetensors")
        with (
            open(g.at("converted", name), "rb") as ours,
            open(g.at("their_conversion", name), "rb") as theirs,
        ):
            if ours.read() != theirs.read():
                return f"{name} differs from MindSpore's"
    return True


def complete_weights(g):
    g.row("Complete weights from Hugging Face: shards and model.safetensors.index.json",
          "safetensors join hf -o hf.safetensors", lambda g: g.same("hf.safetensors", g.hf))  # fmt: skip
    g.row("Complete weights of MindSpore, generated by the merge script after distributed training",
          "safetensors join out/checkpoint -o unified --unified --part-size 16KB",
          both(has("unified", "param_name_map.json", "hyper_param.safetensors"), lambda g: g.same("unified", g.whole)))  # fmt: skip
    ms.unified_safetensors(
        g.at("out", "checkpoint"), g.at("out", "strategy", "ckpt_strategy_rank_0.ckpt"), g.at("theirs")
    )
    g.row("... and read what MindSpore's own unified_safetensors wrote",
          "safetensors join theirs -o theirs.safetensors", lambda g: g.same("theirs.safetensors", g.whole))  # fmt: skip
    os.makedirs(g.at("ms_unified"))
    with open(g.at("unified", "param_name_map.json")) as f:
        named = json.load(f)
    parts = sorted({f for f in named["weight_map"].values() if f.startswith("part")})
    new = {f: f"model-{k + 1:05}-of-{len(parts):05}.safetensors" for k, f in enumerate(parts)}
    for file in os.listdir(g.at("unified")):
        if file.endswith(".safetensors"):
            shutil.copy(g.at("unified", file), g.at("ms_unified", new.get(file, file)))
    named["weight_map"] = {n: new.get(f, f) for n, f in named["weight_map"].items()}
    with open(g.at("ms_unified", "param_name_map.json"), "w") as f:
        json.dump(named, f)
    g.row("MindSpore's catalog: model-0000x-of-0000y, hyper_param.safetensors, param_name_map.json",
          "safetensors join ms_unified -o again.safetensors", lambda g: g.same("again.safetensors", g.whole))  # fmt: skip
    g.row("... and written so",
          "safetensors join out/checkpoint -o as_guide --unified --part-size 16KB --part-names model",
          both(has("as_guide", "model-00001-of-00007.safetensors", "model-00007-of-00007.safetensors", "param_name_map.json",
                   "hyper_param.safetensors"),
               map_is_true("as_guide"), lambda g: g.same("as_guide", g.whole)))  # fmt: skip


def distributed_weights(g):
    g.row("Distributed weights: rank_x/qwen2_7b_rank_x.safetensors",
          "safetensors join seed --layout out/strategy -o seed.safetensors", lambda g: g.same("seed.safetensors", g.whole))  # fmt: skip
    g.row("The format conversion script: distributed ckpt weights become safetensors",
          "safetensors convert ckpt -o converted", both(lambda g: g.ranks(
              "converted", DP, MP, "rank_{rank}/qwen2_7b_rank_{rank}-1_20.safetensors"), as_theirs))  # fmt: skip
    g.row("load_ckpt_format: ckpt or safetensors",
          "safetensors join ckpt --layout out/strategy -o from_ckpt.safetensors",
          lambda g: g.same("from_ckpt.safetensors", g.whole))  # fmt: skip
    g.row("remove_redundancy: weights without replicas are loaded",
          "safetensors join few/checkpoint -o few.safetensors", lambda g: g.same("few.safetensors", g.whole))  # fmt: skip
    g.row("callbacks.remove_redundancy: saved without replicas",
          "safetensors dedupe out/checkpoint -o deduped",
          lambda g: g.run("safetensors join deduped --layout out/strategy -o deduped.safetensors").returncode == 0
          and g.same("deduped.safetensors", g.whole))  # fmt: skip


def parts_of_a_set(g):
    """Ranks that are missing: refused with the tensor and the ranks, or --partial."""
    for directory, gone in (("half", (1, 3)), ("one", (1, 2, 3)), ("replicas", (2, 3))):
        shutil.copytree(g.at("out"), g.at(directory))
        for rank in gone:
            shutil.rmtree(g.at(directory, "checkpoint", f"rank_{rank}"))
    g.refused("A directory that lacks ranks is refused, and they are named",
              "safetensors join half/checkpoint -o half.safetensors", ["no file holds the box", "rank 1's"])  # fmt: skip
    g.refused("... by every command", "safetensors slice half/checkpoint --layout strategy_1_2 --rank 0 -o half.safetensors",
              ["no file holds the box", "rank 1's"])  # fmt: skip
    g.row("... unless replicas on other ranks stand in, which is said",
          "safetensors join replicas/checkpoint -o replicas.safetensors",
          lambda g: g.same("replicas.safetensors", g.whole), ["ranks 2-3 have no file"])  # fmt: skip
    whole = {n: v for n, v in g.whole.items() if g.part(0, DP, MP)[n].shape == v.shape}
    g.row("... or --partial takes the tensors that are whole, and names the others",
          "safetensors join one/checkpoint -o one.safetensors --partial", lambda g: g.same("one.safetensors", whole),
          ["1-3 have no file", "is left out"])  # fmt: skip


def loading(g):
    g.row("Online conversion: Hugging Face weights become a copy with MindSpore's names",
          "safetensors split hf -o ms_safetensors --names qwen2-mindformers --max-shard-size 8KB",
          lambda g: g.same("ms_safetensors", g.mf))  # fmt: skip
    g.row("auto_trans_ckpt, complete weights, use_parallel: sliced online for data_parallel 1, model_parallel 2",
          "safetensors slice hf --names qwen2-mindformers --layout strategy_1_2 --rank 1 -o rank_1.safetensors",
          lambda g: g.same("rank_1.safetensors", {n: v for n, v in g.part(1, 1, 2).items() if n in g.mf}))  # fmt: skip
    g.row("... for every rank at once",
          "safetensors reshard hf --names qwen2-mindformers --target-layout strategy_1_2 -o sliced",
          lambda g: g.ranks("sliced", 1, 2, "rank_{rank}/model.safetensors", only=g.mf))  # fmt: skip
    g.row("parallel_config of data_parallel 1, model_parallel 2 says it all: no strategy file",
          "safetensors slice hf --names qwen2-mindformers --layout dp=1,tp=2,vocab-parallel --rank 1 -o by_numbers.safetensors",
          lambda g: g.same("by_numbers.safetensors", {n: v for n, v in g.part(1, 1, 2).items() if n in g.mf}))  # fmt: skip
    g.row("use_parallel: False, complete weights on a single card",
          "safetensors join hf -o single.safetensors --names qwen2-mindformers",
          lambda g: g.same("single.safetensors", g.mf))  # fmt: skip
    g.row("Distributed weights by their own strategy: each rank reads its file",
          "safetensors check out/checkpoint", lambda g: True)  # fmt: skip
    g.row("Distributed weights by another strategy, src_strategy_path_or_dir: merged and sliced for data_parallel 2, model_parallel 4",
          "safetensors reshard out/checkpoint --source-layout out/strategy --target-layout strategy_2_4 -o wider"
          " --name 'rank_{rank}/qwen2_7b_rank_{rank}-1_20.safetensors'",
          lambda g: g.ranks("wider", 2, 4, "rank_{rank}/qwen2_7b_rank_{rank}-1_20.safetensors"))  # fmt: skip
    g.row("... under the names that the job gave them, with meta.json as MindFormers leaves it",
          "safetensors reshard out/checkpoint --target-layout strategy_2_4 -o kept"
          " --name 'rank_{rank}/{prefix}_rank_{rank}-{epoch}_{step}.safetensors'",
          both(lambda g: g.ranks("kept", 2, 4, "rank_{rank}/qwen2_7b_rank_{rank}-1_20.safetensors"),
               *(has("kept", f"rank_{rank}/meta.json") for rank in range(8))))  # fmt: skip
    g.row("... and found by resume_training", "safetensors resume-point kept", lambda g: True, ["1_20"])
    g.row("Merged offline, so that no source strategy is needed when the job starts",
          "safetensors reshard unified --target-layout strategy_2_4 -o from_unified",
          lambda g: g.ranks("from_unified", 2, 4, "rank_{rank}/model.safetensors"))  # fmt: skip
    g.row("resume_training: the newest complete step of /output/checkpoint",
          "safetensors resume-point out/checkpoint", lambda g: True, ["1_20"])  # fmt: skip
    g.row("Fine-tuned weights back to Hugging Face's names, without the optimizer",
          "safetensors join out/checkpoint --select 'model.*' --select lm_head.weight --names qwen2-mindformers --reverse-names"
          " --config hf/config.json -o back.safetensors",
          lambda g: g.same("back.safetensors", g.hf))  # fmt: skip


def steps(g):
    """Several steps, of many ranks and of one device; what is damaged or torn."""
    os.makedirs(g.at("card"))
    for name, gain in (("CKP-1_9", 1), ("CKP-1_10", 2)):
        save = [{"name": n, "data": ms.Tensor(v * gain)} for n, v in g.mf.items()]
        ms.save_checkpoint(
            save, g.at("card", name), format="safetensors", crc_check=True, append_dict={"epoch_num": 1}
        )
    twice = {n: v * 2 for n, v in g.mf.items()} | {"epoch_num": np.array(1)}
    once = dict(g.mf) | {"epoch_num": np.array(1)}
    g.row("A directory of one card, {prefix}-{epoch}_{step}.safetensors, with several steps: the newest",
          "safetensors join card -o newest.safetensors", lambda g: g.same("newest.safetensors", twice))  # fmt: skip
    g.row(
        "... or the one that is named",
        "safetensors join card --step 1_9 -o first.safetensors",
        lambda g: g.same("first.safetensors", once),
    )
    g.row(
        "crc_check: MindSpore's checksum of a file is compared",
        "safetensors verify card/CKP-1_10.safetensors",
        lambda g: True,
        [": ok"],
    )
    path = g.at("card", "CKP-1_10.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)[0]
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last ^ 1]))
    g.refused(
        "... and damage is found", "safetensors verify card/CKP-1_10.safetensors", ["is damaged: its crc_num"]
    )
    shutil.copytree(g.at("out"), g.at("torn"))
    for rank in (0, 2):
        name = g.at("torn", "checkpoint", f"rank_{rank}", f"qwen2_7b_rank_{rank}-1_%d.safetensors")
        shutil.copy(name % 20, name % 30)
    g.row("resume_training: a newer step that ranks lack is skipped, and said so",
          "safetensors resume-point torn/checkpoint", lambda g: True, ["1_20", "1_30", "is skipped"])  # fmt: skip
    shutil.move(g.at("torn", "strategy"), g.at("torn", "src_strategy"))
    g.row("src_strategy_path_or_dir: the strategy lies elsewhere",
          "safetensors resume-point torn/checkpoint --layout torn/src_strategy", lambda g: True, ["1_20"])  # fmt: skip
    g.row("A strategy whose names are not the model's: what it does not cut is said",
          "safetensors slice hf --layout strategy_1_2 --rank 0 -o uncut.safetensors", lambda g: True,
          ["50 of 51 tensors", "whole on every rank"])  # fmt: skip
    g.refused("... and refused where no name fits",
              "safetensors slice hf --drop lm_head.weight --layout strategy_1_2 --rank 0 -o wrong.safetensors", ["model.tok_embeddings"])  # fmt: skip
    with open(g.at("finetune.yaml"), "w") as f:
        f.write(
            "use_parallel: True\nparallel_config:\n  data_parallel: 1\n  model_parallel: 2\n  pipeline_stage: 1\n  vocab_emb_dp: False\n"
        )
    g.row("The job's configuration says the layout: parallel_config of finetune.yaml",
          "safetensors slice hf --names qwen2-mindformers --layout finetune.yaml --rank 1 -o by_yaml.safetensors",
          lambda g: g.same("by_yaml.safetensors", {n: v for n, v in g.part(1, 1, 2).items() if n in g.mf}))  # fmt: skip


def in_python(g):
    mine = {n: v for n, v in g.part(1, 1, 2).items() if n in g.mf}
    state = {n: v for n, v in g.part(1, 1, 2).items() if n not in g.state}
    g.python("Online loading of Hugging Face weights in a job: each rank reads its own bytes, under MindFormers' names",
             "part = load_part('hf', 'strategy_1_2', rank, framework='ms', names='qwen2-mindformers')",
             lambda g, n: g.equal(n["part"], mine))  # fmt: skip
    g.python("... into a network", "part = load_part('hf', 'dp=1,tp=2,vocab-parallel', rank, framework='ms', names='qwen2-mindformers')"
             "\nload_into(net, part, strict=False)",
             lambda g, n: g.equal({k: v for k, v in n["net"].items() if k in mine}, mine))  # fmt: skip
    g.python("Distributed weights by another strategy in a job, the optimizer's too",
             "part = load_part('out/checkpoint', 'strategy_1_2', rank, framework='ms')",
             lambda g, n: g.equal(n["part"], {**state, **g.state}))  # fmt: skip
    g.python("callbacks: checkpoint_format safetensors, prefix, save_checkpoint_steps, keep_checkpoint_max, async_save, crc_check",
             "saver = Saver('saved', 'qwen2_7b', keep_checkpoint_max=1, async_save=True, crc_check=True)"
             "\nsaver.save(net, 1, 20)\nsaver.save(net, 1, 40)\nsaver.close()",
             lambda g, n: sorted(f for f in os.listdir(g.at("saved", "rank_0")) if f != ".saver.lock") == ["meta.json", "qwen2_7b_rank_0-1_40.safetensors"]
             and set(ms.load_checkpoint(g.at("saved", "rank_0", "qwen2_7b_rank_0-1_40.safetensors"), format="safetensors", crc_check=True))
             == set(state) or sorted(os.listdir(g.at("saved", "rank_0"))))  # fmt: skip
    g.python("resume_training: True, the strategy unchanged", "point = Saver('saved', 'qwen2_7b').resume(net)",
             lambda g, n: (n["point"].epoch, n["point"].step) == (1, 40))  # fmt: skip
    g.python("resume_training: True from distributed weights of another strategy, here by one process",
             "point = Saver('new', 'qwen2_7b').resume(whole_net, source='out/checkpoint')",
             lambda g, n: (n["point"].epoch, n["point"].step, n["point"].extra["epoch_num"].asnumpy()[0]) == (1, 20, 1)
             and g.equal(n["whole_net"], {k: g.whole[k] for k in n["whole_net"]}))  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--doc")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        g = Guide(os.path.abspath(args.tool), base)
        for chapter in (complete_weights, distributed_weights, loading, steps, parts_of_a_set, in_python):
            chapter(g)
    text = "| | statement | command, or call in Python | verdict |\n|---|---|---|---|\n"
    for i, (statement, command, verdict) in enumerate(ROWS, start=1):
        text += f"| {i} | {statement} | `{command}` | {verdict} |\n"
    print(text)
    works = sum(verdict == "works" for *_, verdict in ROWS)
    print(f"{len(ROWS)} statements, {works} work")
    same = args.doc is None or in_document(args.doc, text, args.write)
    if not same:
        print(f"the table of {args.doc} is another")
    return 0 if works == len(ROWS) and same else 1


def in_document(path, text, write):
    begin, end = "<!-- guide.py -->\n", "<!-- end -->\n"
    with open(path, encoding="utf-8") as f:
        document = f.read()
    before, rest = document.split(begin)
    table, after = rest.split(end)
    if write:
        with open(path, "w", encoding="utf-8") as f:
            f.write(before + begin + text + end + after)
    return write or table == text


if __name__ == "__main__":
    sys.exit(main())
