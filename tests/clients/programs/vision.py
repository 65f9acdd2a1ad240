"""timm, torchvision, torchmetrics, MONAI and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tests.clients import harness


def pictures(what: harness.Run, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight, of four kinds that show."""
    labels = torch.arange(8) % 4
    noise = torch.randn(8, 3, size, size, generator=torch.Generator().manual_seed(0))
    return (noise * 0.1 + labels[:, None, None, None] / 4).to(what.place), labels.to(what.place)


def steps(what: harness.Run, model: nn.Module, loss: Callable[[nn.Module], torch.Tensor], count: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, eps=1e-5)
    scaler = torch.amp.GradScaler(what.device, init_scale=256.0, enabled=what.precision == "fp16")
    losses = []
    for _ in range(count):
        with what.autocast():
            found = loss(model)
        scaler.scale(found).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(found.item())
    return losses


def classify(what: harness.Run, model: nn.Module, size: int) -> list[float]:
    x, y = pictures(what, size)
    return steps(what, model.to(what.place), lambda m: nn.functional.cross_entropy(m(x).float(), y), 8)


@harness.run
def timm_mobilenet(what: harness.Run) -> list[float]:
    import timm

    return classify(what, timm.create_model("mobilenetv3_small_050", num_classes=4, drop_rate=0.0), 32)


@harness.run
def timm_vit(what: harness.Run) -> list[float]:
    import timm

    return classify(what, timm.create_model("vit_tiny_patch16_224", num_classes=4, img_size=32, depth=2), 32)


@harness.run
def torchvision_resnet(what: harness.Run) -> list[float]:
    import torchvision

    # Of 32 pixels the last stage keeps one: normalized over eight numbers a channel, which makes 2e-3 of rounding.
    return classify(what, torchvision.models.resnet18(num_classes=4), 48)


@harness.run
def monai_unet(what: harness.Run) -> list[float]:
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,)).to(what.place)
    volume = torch.randn(2, 1, 8, 8, 8, generator=torch.Generator().manual_seed(0))
    inside, volume = (volume > 0.5).long().to(what.place), volume.to(what.place)
    loss = DiceLoss(to_onehot_y=True, softmax=True)
    return steps(what, model, lambda m: loss(m(volume).float(), inside), 10)


@harness.run
def geometric(what: harness.Run) -> list[float]:
    from torch_geometric.nn import GATConv, GCNConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(8, 16), GATConv(16, 4, heads=2, concat=False)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x, edges).relu(), edges)

    generator = torch.Generator().manual_seed(0)
    x, edges = torch.randn(40, 8, generator=generator), torch.randint(0, 40, (2, 160), generator=generator)
    labels = x[:, :4].argmax(1).to(what.place)
    x, edges = x.to(what.place), edges.to(what.place)
    return steps(what, Net().to(what.place), lambda m: nn.functional.cross_entropy(m(x, edges).float(), labels), 20)


@harness.run
def metrics(what: harness.Run) -> list[float]:
    """No losses: figures, of answers in two batches."""
    import torchmetrics

    generator = torch.Generator().manual_seed(0)
    answers = torch.randn(64, 4, generator=generator).softmax(1)
    labels = torch.randint(0, 4, (64,), generator=generator)
    kinds = {"task": "multiclass", "num_classes": 4}
    all_of_them = torchmetrics.MetricCollection([
        torchmetrics.Accuracy(**kinds), torchmetrics.F1Score(**kinds, average="macro"), torchmetrics.AUROC(**kinds),
        torchmetrics.ConfusionMatrix(**kinds), torchmetrics.CalibrationError(**kinds),
    ]).to(what.place)  # fmt: skip
    for part in range(2):
        all_of_them.update(answers.chunk(2)[part].to(what.place), labels.chunk(2)[part].to(what.place))
    return [number for value in all_of_them.compute().values() for number in value.flatten().float().tolist()]


if __name__ == "__main__":
    harness.main()
