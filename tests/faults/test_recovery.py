"""stop_device, restart_device: a program goes on after its device was lost, or a task of it hung."""

from __future__ import annotations

import json

from tests.core.tools import run

TRAINING = """
import json, sys, torch
from torch_npu.npu._recovery import check_npu_tensor_is_safe
device = torch.device("npu")

def made():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    return model, torch.optim.Adam(model.parameters(), 0.01)

def saved(model, optimizer):
    copied = lambda tree: torch.utils._pytree.tree_map(lambda x: x.cpu().clone() if torch.is_tensor(x) else x, tree)
    return copied(model.state_dict()), copied(optimizer.state_dict())

data = torch.randn(10, 32, 8, generator=torch.Generator().manual_seed(1))
losses, errors, step = {}, [], 0
model, optimizer = made()
checkpoint, at = saved(model, optimizer), 0
while step < 10:
    try:
        optimizer.zero_grad()
        loss = model(data[step].to(device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses[step] = loss.item()
        step += 1
        if step % 3 == 0:
            checkpoint, at = saved(model, optimizer), step
    except RuntimeError as error:
        errors.append(str(error))
        first = next(model.parameters())
        stopped = torch.npu.stop_device(0)
        for use in (lambda: first + 1, torch.empty(3, device=device).zero_):
            try:
                use()
            except RuntimeError as again:
                errors.append(str(again))
        torch.npu.restart_device(0, rebuild_all_resources=True)
        found = [stopped, check_npu_tensor_is_safe(first)]
        part = lambda: first.data[:1].copy_(torch.ones(1, 8))
        for use in (lambda: first + 1, first.cpu, lambda: first[0, 0].item(), part):
            try:
                use()
            except RuntimeError as again:
                found.append("There is unsafe data in the input tensor" in str(again))
        model.load_state_dict(checkpoint[0])
        found.append(check_npu_tensor_is_safe(first))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        optimizer.load_state_dict(checkpoint[1])
        del error
        step = at
print(json.dumps({"losses": list(losses.values()), "errors": errors, "found": found if errors else []}))
"""


def trained(**env: str) -> dict:
    return json.loads(run(TRAINING, **env).stdout.strip().splitlines()[-1])


def test_a_training_whose_device_is_lost_goes_on_from_its_checkpoint_with_the_same_losses():
    plain, lost = trained(), trained(ANYCEND_FAULT="device0:lost:260")
    assert plain["errors"] == []
    assert "device 0 is lost" in lost["errors"][0] and len(lost["errors"]) == 3
    assert all("FORCE STOP" in text and "restart_device(0)" in text for text in lost["errors"][1:])
    assert lost["found"] == [0, False, True, True, True, True, True]
    assert lost["losses"] == plain["losses"] and len(plain["losses"]) == 10


def test_a_task_that_hangs_is_stopped_from_another_thread():
    program = """
import json, threading, torch
x = torch.ones(3, device="npu")
torch.npu.synchronize()
y = x + x
threading.Timer(0.3, lambda: torch.npu.stop_device("npu:0")).start()
try:
    torch.npu.synchronize()
    error = ""
except RuntimeError as e:
    error = f"{type(e).__name__}: {e}"
while True:  # the other thread comes back
    try:
        x + 1
    except RuntimeError as e:
        break
other = torch.ones(2, device="npu:1").tolist()
torch.npu.restart_device(0)
print(json.dumps([error, (x + x).tolist(), other]))
"""
    error, after, other = json.loads(run(program, ANYCEND_FAULT="aclnnAdd:hang").stdout.strip().splitlines()[-1])
    assert error.startswith("AcceleratorError: npu: FORCE STOP: aclrtSynchronizeDevice") and "107022" in error
    assert after == [2, 2, 2] and other == [1, 1]


def test_a_restart_marks_nothing_unless_everything_is_rebuilt_and_the_check_is_wanted():
    program = """
import json, torch
from torch_npu.npu import _recovery as r
x = torch.ones(3, device="npu")
side = torch.npu.Stream()
found = []
for flags in ((False, False), (True, True), (True, False)):
    torch.npu.restart_device(torch.device("npu", 0), *flags)
    with torch.npu.stream(side):
        new = torch.ones(2, device="npu").tolist()
        found.append([r.check_npu_tensor_is_safe(x), r.get_npu_tensor_unsafe_check_flag(), new])
        side.synchronize()
r.update_npu_tensor_to_safe(x)
found.append((x + 1).tolist())
r.mark_all_npu_tensor_unsafe(0)
r.set_npu_tensor_unsafe_check_flag(False)
found.append((x + 1).tolist())
unsafe, safe = lambda: r.check_npu_tensor_is_safe("x"), lambda: r.update_npu_storage_to_safe(x)
for wrong in (unsafe, safe, lambda: torch.npu.stop_device(99)):
    try:
        wrong()
    except RuntimeError as error:
        found.append(str(error))
print(json.dumps(found))
"""
    *states, safe, unchecked, a, b, c = json.loads(run(program).stdout.strip().splitlines()[-1])
    assert states == [[True, False, [1, 1]], [True, False, [1, 1]], [False, True, [1, 1]]]
    assert safe == unchecked == [2, 2, 2]
    assert "Tensor, not str" in a and "UntypedStorage, not Tensor" in b and "invalid device index 99" in c


def test_memory_that_grows_stays_unsafe():
    program = """
import torch, torch_npu
y = torch.ones(4, device="npu")
torch.npu.restart_device(0, rebuild_all_resources=True)
y.untyped_storage().resize_(4096)
try:
    y.sum()
except RuntimeError as error:
    print(error)
y.untyped_storage().resize_(16)
y.copy_(torch.zeros(4))
print(y.sum().item())
"""
    done = run(program)
    assert "There is unsafe data in the input tensor (Float of sizes [4])" in done.stdout, done.stderr
    assert done.stdout.endswith("0.0\n")
