"""torchvision's own training scripts (references/), as they stand: classification with its recipe, similarity.

No index serves them: an archive does, made in a clone of pytorch/vision by
`git archive 49496c4f LICENSE references | xz > $ANYCEND_THIRD/torchvision_references.tar.xz`, or of the same folders in
Debian's source package pytorch-vision (0.21.0 was tried: all three rows pass). On the npu
`from torch_npu.contrib import transfer_to_npu` comes first and the script is told --device cuda; on the CPU --device
cpu. With two ranks the classification script is CUDA's alone: there CudaIsTheCpu stands in. The data are small pictures
whose colour is their class.
"""

from __future__ import annotations

import builtins
import contextlib
import random
import runpy
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import numpy
import torch
from PIL import Image

from tests.clients import harness
from tests.clients.programs.megatron_gpt import CudaIsTheCpu

CLASSES, SIZE = 8, 64  # the scripts count a guess as right among five, too
# At a higher rate ResNet18 with so few pictures is chaotic: the CPU in float32 is then as far from float64 as the NPU.
COMMON = "--model resnet18 --batch-size 8 --workers 0 --epochs 2 --lr 0.0001 --print-freq 1"
CROPS = "--train-crop-size 64 --val-crop-size 64 --val-resize-size 72"
# Of the README's recipe, what needs no more than a few pictures: every augmentation, schedule and average of it.
RECIPE = """
    --auto-augment ta_wide --random-erase 0.1 --mixup-alpha 0.2 --cutmix-alpha 1.0 --label-smoothing 0.1
    --lr-scheduler cosineannealinglr --lr-warmup-epochs 1 --lr-warmup-method linear --lr-warmup-decay 0.01
    --norm-weight-decay 0.0 --weight-decay 2e-05 --clip-grad-norm 1.0 --model-ema --opt adamw --lr 0.001
"""


def references() -> Path:
    found = (Path(place) / "references" for place in sys.path)
    return next(place for place in found if (place / "classification" / "train.py").is_file())


def picture(kind: int, draw: numpy.random.Generator) -> Image.Image:
    colour = numpy.array([64 + 128 * (kind >> bit & 1) for bit in range(3)])
    return Image.fromarray((colour + draw.integers(-40, 40, (SIZE, SIZE, 3))).clip(0, 255).astype(numpy.uint8))


def image_folder(root: Path) -> Path:
    """train/<class>/<n>.png and val/<class>/<n>.png; by every rank for itself, so that none waits."""
    draw = numpy.random.default_rng(0)
    for part, count in (("train", 4), ("val", 2)):
        for kind in range(CLASSES):
            (root / part / f"class{kind}").mkdir(parents=True, exist_ok=True)
            for number in range(count):
                picture(kind, draw).save(root / part / f"class{kind}" / f"{number}.png")
    return root


def fashion(root: Path) -> Path:
    """FashionMNIST's files, as torchvision reads them: it downloads nothing where they are."""
    raw = root / "FashionMNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    draw = numpy.random.default_rng(0)
    for part, count in (("train", 24), ("t10k", 12)):
        labels = numpy.arange(count, dtype=numpy.uint8) % CLASSES
        pixels = (labels[:, None, None] * 25 + draw.integers(0, 40, (count, 28, 28))).astype(numpy.uint8)
        for name, head, data in (
            ("images-idx3", [2051, count, 28, 28], pixels),
            ("labels-idx1", [2049, count], labels),
        ):
            (raw / f"{part}-{name}-ubyte").write_bytes(numpy.array(head, ">i4").tobytes() + data.tobytes())
    return root


@contextlib.contextmanager
def as_it_stands(what: harness.Run, folder: Path) -> Iterator[None]:
    """What the scripts change for good, put back behind each: modules by short names, print, the process group."""
    said, found = builtins.print, set(sys.modules)
    sys.path.insert(0, str(folder))
    random.seed(0)
    if what.device == "npu":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - found:
            if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]
        builtins.print = said
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


@contextlib.contextmanager
def ranks_on_the_cpu() -> Iterator[None]:
    """The classification script with ranks knows nccl and cuda alone."""
    group, data_parallel = torch.distributed.init_process_group, torch.nn.parallel.DistributedDataParallel
    with (
        CudaIsTheCpu(),
        mock.patch("torch.cuda.set_device"),
        mock.patch("torch.distributed.init_process_group", lambda **named: group(**named | {"backend": "gloo"})),
        mock.patch("torch.nn.parallel.DistributedDataParallel", lambda model, device_ids: data_parallel(model)),
    ):
        yield


def classification(what: harness.Run, options: str) -> list[float]:
    folder = references() / "classification"
    losses: list[float] = []
    with as_it_stands(what, folder):
        import utils

        update = utils.MetricLogger.update

        def seen(self, **meters):
            losses.extend([meters["loss"]] if "loss" in meters else [])
            return update(self, **meters)

        utils.MetricLogger.update = seen
        data = image_folder(what.folder / f"pictures{what.rank}")
        place = ["--device", "cuda" if what.device == "npu" else "cpu", "--output-dir", str(what.folder / "saved")]
        half = ["--amp"] if what.precision == "fp16" and what.device == "npu" else []
        sys.argv[1:] = [*f"{COMMON} {CROPS} {options}".split(), *place, *half, "--data-path", str(data)]
        apart = what.device == "cpu" and what.world > 1
        # At the script's own first scale, 65536, gradients overflow: its first steps would be left out.
        scaler = partial(torch.cuda.amp.GradScaler, init_scale=256.0)
        with (
            ranks_on_the_cpu() if apart else contextlib.nullcontext(),
            mock.patch.object(torch.cuda.amp, "GradScaler", scaler),
        ):
            runpy.run_path(str(folder / "train.py"), run_name="__main__")
    return losses


@harness.run
def similarity(what: harness.Run) -> list[float]:
    folder = references() / "similarity"
    losses: list[float] = []
    with as_it_stands(what, folder):
        import loss

        forward = loss.TripletMarginLoss.forward

        def seen(self, *arguments):
            result = forward(self, *arguments)
            losses.append(result[0].item())
            return result

        loss.TripletMarginLoss.forward = seen
        sampled = "--labels-per-batch 2 --samples-per-label 2 --eval-batch-size 4"
        options = f"{sampled} --epochs 1 --workers 0 --print-freq 1 --margin 1"
        data = fashion(what.folder)
        sys.argv[1:] = [*options.split(), "--dataset-dir", str(data), "--save-dir", str(data)]
        runpy.run_path(str(folder / "train.py"), run_name="__main__")
    return losses


for name, options in (("plain", ""), ("recipe", RECIPE)):
    harness.named(name)(partial(classification, options=options))


if __name__ == "__main__":
    harness.main()
