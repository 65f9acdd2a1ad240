"""Lightning's Trainer by the names a user gives it: accelerator, strategy, precision; a checkpoint, and on from it."""

from __future__ import annotations

import logging

import lightning as light
import torch
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import nn

from tests.clients import harness

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}


class Own(Accelerator):
    """An accelerator as projects write it for a device that Lightning does not know."""

    def setup_device(self, device: torch.device) -> None:
        torch.npu.set_device(device)

    def teardown(self) -> None:
        torch.npu.empty_cache()

    @staticmethod
    def parse_devices(devices: int) -> list[int]:
        return list(range(devices))

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("npu", number) for number in devices]

    @staticmethod
    def auto_device_count() -> int:
        return torch.npu.device_count()

    @staticmethod
    def is_available() -> bool:
        return torch.npu.is_available()

    @staticmethod
    def name() -> str:
        return "own"


class Net(light.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.net = nn.Sequential(convolution, nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 4))
        self.losses: list[float] = []
        self.dtypes: set[torch.dtype] = set()

    def training_step(self, batch, index):
        scores = self.net(batch[0])
        self.dtypes.add(scores.dtype)
        loss = nn.functional.cross_entropy(scores, batch[1])
        self.log("loss", loss, sync_dist=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("right", (self.net(batch[0]).argmax(1) == batch[1]).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


def trainer(what: harness.Run, epochs: int, **options: object) -> light.Trainer:
    made = light.Trainer(
        max_epochs=epochs, logger=False, precision=PRECISIONS[what.precision],
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(what.folder), gradient_clip_val=1.0,
        **options,
    )  # fmt: skip
    if scaler := getattr(made.precision_plugin, "scaler", None):
        # Of its 65536 the first gradients overflow on two ranks: a step would be skipped, which the CPU does not do.
        scaler.load_state_dict({**scaler.state_dict(), "scale": 256.0})
    return made


def pictures() -> torch.utils.data.DataLoader:
    y = torch.arange(32) % 4
    x = torch.randn(4, 3, 16, 16)[y] + 0.1 * torch.randn(32, 3, 16, 16)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)


@harness.run
def fit(what: harness.Run) -> list[float]:
    """Trains, writes a checkpoint, reads it into a new model and goes on; one device, or ddp over the ranks."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = pictures()
    how = {"accelerator": what.device, "devices": what.world, "strategy": "ddp" if what.world > 1 else "auto"}
    first, second = Net(), Net()
    trained = trainer(what, 3, **how)
    trained.fit(first, data, data)
    again = trainer(what, 6, **how)
    again.fit(second, data, data, ckpt_path=trained.checkpoint_callback.best_model_path, weights_only=False)

    assert again.global_step == 6 * 8 // what.world, again.global_step
    assert again.callback_metrics["right"].item() == 1.0
    if what.device == "npu":
        assert again.strategy.root_device == what.place and next(second.parameters()).device.type == "cpu"
        assert second.dtypes == {what.dtype}, second.dtypes
        scaler = getattr(again.precision_plugin, "scaler", None)
        assert (scaler is not None and scaler.get_scale() == 256.0) == (what.precision == "fp16")
    if what.world > 1:
        gathered = [torch.zeros(4, device=what.place) for _ in range(what.world)]
        torch.distributed.all_gather(gathered, second.net[-1].bias.detach().to(what.place))
        assert torch.equal(*gathered)
    return first.losses + second.losses


@harness.run
def own_accelerator(what: harness.Run) -> list[float]:
    """A strategy object with its device, whose accelerator is somebody's own: its precision is the NPU's, too."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data, net = pictures(), Net()
    own = {"strategy": SingleDeviceStrategy(what.place, accelerator=Own())}
    made = trainer(what, 3, **own if what.device == "npu" else {"accelerator": "cpu"})
    made.fit(net, data, data)
    assert net.dtypes == {what.dtype}, net.dtypes
    return net.losses


if __name__ == "__main__":
    harness.main()
