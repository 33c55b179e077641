# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Image models: collections of networks, their loaders and adapters."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from record import program

ENVIRONMENT = "torch"


@program("timm", modules=("safetensors.torch",))
def timm_(log):
    import timm
    from timm.models import load_checkpoint, load_state_dict
    from timm.models._hub import load_state_dict_from_path, save_for_hf

    torch.manual_seed(1)
    model = timm.create_model("mobilenetv3_small_050", num_classes=5)
    save_for_hf(model, "hub", safe_serialization=True)
    log.tensors("state", load_state_dict("hub/model.safetensors", use_ema=False))
    back = timm.create_model("mobilenetv3_small_050", num_classes=5, checkpoint_path="hub/model.safetensors")
    log.tensors("model", back.state_dict())
    log.value("keys", load_checkpoint(back, "hub/model.safetensors", strict=True))
    log.tensors(
        "directory", log.call("directory", load_state_dict_from_path, Path("hub")) or {"none": torch.ones(1)}
    )
    log.tensors("local", timm.create_model("local-dir:hub", pretrained=True).state_dict())
    log.call(
        "other size",
        timm.create_model,
        "mobilenetv3_small_050",
        num_classes=7,
        checkpoint_path="hub/model.safetensors",
    )
    log.broken("hub/model.safetensors", lambda: load_state_dict("hub/model.safetensors"))


@program("open_clip", distribution="open_clip_torch", modules=("safetensors.torch",))
def open_clip_(log):
    import open_clip
    from open_clip.factory import load_checkpoint, load_state_dict
    from open_clip.push_to_hf_hub import save_config_for_hf  # noqa: F401
    from safetensors.torch import save_file

    small = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16},
        "text_cfg": {"context_length": 8, "vocab_size": 50, "width": 16, "heads": 2, "layers": 1},
    }
    torch.manual_seed(2)
    model = open_clip.CLIP(**small)
    save_file(model.state_dict(), "open_clip_model.safetensors")
    log.tensors("state", load_state_dict("open_clip_model.safetensors"))
    other = open_clip.CLIP(**small)
    log.value("keys", load_checkpoint(other, "open_clip_model.safetensors"))
    log.tensors("model", other.state_dict())
    log.broken("open_clip_model.safetensors", lambda: load_state_dict("open_clip_model.safetensors"))


@program("kornia", modules=("safetensors.torch",))
def kornia_(log):
    """Its own reader, written from the format's page, on what the package writes."""
    import kornia
    from kornia.core.safetensors import check_safetensors, load_safetensors
    from safetensors.torch import save_file, save_model

    torch.manual_seed(3)
    net = kornia.feature.HardNet(pretrained=False)
    save_model(net, "hardnet.safetensors", metadata={"name": "hardnet"})
    save_file(
        {
            "a": torch.rand(3, 2).half(),
            "b": torch.arange(7),
            "c": torch.rand(2).bfloat16(),
            "d": torch.tensor(True),
        },
        "types.safetensors",
    )
    for name in ("hardnet", "types"):
        log.value("check", check_safetensors(f"{name}.safetensors"))
        log.tensors(name, load_safetensors(f"{name}.safetensors"))
    log.tensors("part", load_safetensors("hardnet.safetensors", include=lambda n: n.endswith("0.weight")))
    log.broken("types.safetensors", lambda: load_safetensors("types.safetensors"))


@program("spandrel", modules=("safetensors.torch",))
def spandrel_(log):
    from safetensors.torch import save_file
    from spandrel import ModelLoader
    from spandrel.architectures.Compact import Compact
    from spandrel.architectures.ESRGAN import ESRGAN

    torch.manual_seed(4)
    made = {
        "compact": Compact(num_feat=8, num_conv=2, upscale=2),
        "esrgan": ESRGAN(num_filters=8, num_blocks=1, scale=4),
    }
    for name, net in made.items():
        save_file(net.state_dict(), f"{name}.safetensors")
        model = ModelLoader("cpu").load_from_file(f"{name}.safetensors")
        log.value(name, (model.architecture.name, model.scale, model.size_requirements, model.tags))
        log.tensors(name, model.model.state_dict())
        log.tensors(f"{name} image", [model(torch.ones(1, 3, 16, 16)).detach()])
    log.broken("compact.safetensors", lambda: ModelLoader().load_from_file("compact.safetensors"))


@program("segmentation-models-pytorch", modules=("safetensors.torch",))
def segmentation(log):
    import segmentation_models_pytorch as smp

    torch.manual_seed(5)
    model = smp.Unet("resnet18", encoder_weights=None, decoder_channels=(16, 8, 8, 4, 4), classes=2)
    model.save_pretrained("unet")
    log.tensors("unet", smp.from_pretrained("unet").state_dict())
    log.tensors("class", smp.Unet.from_pretrained("unet").state_dict())
    log.broken(
        "unet/model.safetensors",
        lambda: smp.from_pretrained("unet"),
        only={"cut", "empty", "header cut", "tensor renamed"},
    )


@program("torchvision", modules=("safetensors.torch",))
def torchvision_(log):
    import torchvision
    from safetensors.torch import load_file, load_model, save_file, save_model

    torch.manual_seed(6)
    for name, more in {
        "squeezenet1_1": {},
        "resnet18": {"num_classes": 3},
        "shufflenet_v2_x0_5": {"num_classes": 4},
    }.items():
        net = getattr(torchvision.models, name)(**more)
        save_model(net, f"{name}.safetensors")
        fresh = getattr(torchvision.models, name)(**more)
        log.value(f"{name} keys", load_model(fresh, f"{name}.safetensors"))
        log.tensors(name, fresh.state_dict())
    net = net.to(memory_format=torch.channels_last)
    log.call("channels last", save_file, net.state_dict(), "last.safetensors")
    log.value("channels last as a model", save_model(net, "last-model.safetensors"))
    log.tensors("channels last", load_file("last-model.safetensors"))
    log.call("strict", load_model, torchvision.models.resnet18(num_classes=4), "resnet18.safetensors")
    log.call("other", load_model, torchvision.models.squeezenet1_1(), "resnet18.safetensors")
    log.value(
        "loose",
        log.call(
            "loose", load_model, torchvision.models.squeezenet1_1(), "resnet18.safetensors", strict=False
        ),
    )


@program("lycoris", distribution="lycoris-lora", modules=("safetensors.torch",))
def lycoris_(log):
    from lycoris import LycorisNetwork, create_lycoris_from_weights
    from lycoris.utils import precalculate_safetensors_hashes

    torch.manual_seed(7)
    made = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    LycorisNetwork.apply_preset({"target_module": [], "target_name": ["0", "2"]})
    for algo in ("lora", "loha", "lokr"):
        torch.manual_seed(8)
        net = copy.deepcopy(made)
        wrapped = LycorisNetwork(net, 1.0, lora_dim=2, alpha=1, network_module=algo)
        wrapped.apply_to()
        wrapped.save_weights(f"{algo}.safetensors", torch.float16, {"algo": algo, "made": "here"})
        log.value(f"{algo} hash", precalculate_safetensors_hashes(wrapped.state_dict()))
        again, weights = create_lycoris_from_weights(1.0, f"{algo}.safetensors", copy.deepcopy(made))
        log.tensors(algo, weights)
        again.apply_to()
        log.tensors(f"{algo} network", again.state_dict())
    log.broken(
        "lora.safetensors",
        lambda: create_lycoris_from_weights(1.0, "lora.safetensors", made),
        only={"cut", "empty", "no JSON"},
    )
