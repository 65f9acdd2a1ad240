"""Files written on a GPU, and files written here."""

from __future__ import annotations

import io
import zipfile

import pytest
import torch

VALUES = torch.arange(4.0)


def written(tensor: torch.Tensor, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(tensor, buffer, **options)
    buffer.seek(0)
    return buffer


def written_on_a_gpu(location: bytes) -> io.BytesIO:
    """A file as torch.save makes it, with the storage's tag changed to a GPU's."""
    source, target = zipfile.ZipFile(written(VALUES)), io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                tag = b"X\x03\x00\x00\x00cpu"
                assert tag in data
                data = data.replace(tag, b"X" + len(location).to_bytes(4, "little") + location)
            out.writestr(name, data)
    target.seek(0)
    return target


@pytest.mark.parametrize(
    "options, device",
    [
        ({}, "npu:1"),
        ({"weights_only": False}, "npu:1"),
        ({"map_location": "cpu"}, "cpu"),
        ({"map_location": "cuda:0"}, "npu:0"),
        ({"map_location": torch.device("cuda")}, "npu:0"),
        ({"map_location": torch.device("npu", 0)}, "npu:0"),
        ({"map_location": {"cuda:1": "cuda:0"}}, "npu:0"),
        ({"map_location": {"cuda:1": "cpu"}}, "cpu"),
        ({"map_location": lambda storage, location: storage}, "cpu"),
        ({"map_location": lambda storage, location: storage.cuda(0)}, "npu:0"),
        ({"map_location": lambda storage, location: storage.cuda()}, "npu:0"),
    ],
)
def test_a_file_of_a_gpu(options: dict, device: str) -> None:
    loaded = torch.load(written_on_a_gpu(b"cuda:1"), **options)
    assert loaded.device == torch.device(device)
    assert torch.equal(loaded.cpu(), VALUES)


def test_a_gpu_that_is_not_here_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="map_location"):
        torch.load(written_on_a_gpu(b"cuda:99"))


@pytest.mark.parametrize("map_location", ["cuda", "cuda:0", torch.device("cuda:0"), {"npu:0": "cuda:0"}], ids=str)
def test_a_file_of_an_npu(map_location) -> None:
    loaded = torch.load(written(VALUES.cuda()), map_location=map_location)
    assert loaded.device == torch.device("npu", 0)
    assert torch.equal(loaded.cpu(), VALUES)


def test_a_model_and_its_optimizer() -> None:
    model = torch.nn.Linear(3, 2).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device="cuda")).sum().backward()
    optimizer.step()
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    buffer.seek(0)
    state = torch.load(buffer, map_location="cuda:0", weights_only=True)
    other = torch.nn.Linear(3, 2).cuda()
    other.load_state_dict(state["model"])
    torch.optim.Adam(other.parameters()).load_state_dict(state["optimizer"])
    assert torch.equal(other.weight, model.weight)


def test_storages() -> None:
    storage = torch.UntypedStorage(8, device="cuda:1")
    assert storage.device == torch.device("npu", 1)
    assert isinstance(storage, torch.UntypedStorage)
    assert VALUES.untyped_storage().cuda().device == torch.device("npu", 0)
    assert VALUES.untyped_storage().cuda(1).device == torch.device("npu", 1)
    assert torch.UntypedStorage(8).device == torch.device("cpu")


@pytest.mark.parametrize("map_location", ["cuda:0", "cuda", torch.device("cuda")], ids=str)
def test_scripted_modules(map_location) -> None:
    module = torch.jit.script(torch.nn.Linear(3, 2))
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer, map_location=map_location)
    assert loaded.weight.device == torch.device("npu", 0)
    assert torch.equal(loaded.weight.cpu(), module.weight)


def test_a_dictionary_of_places_means_the_npus(tmp_path):
    """Of a checkpoint that was saved here, as of one that was saved on a GPU."""
    torch.save({"w": torch.arange(3.0, device="cuda:0")}, tmp_path / "saved.pt")
    for places, index in (({"cuda:0": "cuda:1"}, 1), ({"npu:0": "cuda:1"}, 1), ({"cuda:1": "cuda:0"}, 0)):
        loaded = torch.load(tmp_path / "saved.pt", map_location=places)["w"]
        assert loaded.device == torch.device("npu", index) and loaded.tolist() == [0, 1, 2]
