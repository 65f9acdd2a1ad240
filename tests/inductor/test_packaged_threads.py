"""Threads of a packaged model: none waits with the interpreter's lock, calls and new weights have their turns."""

from __future__ import annotations

import torch

from tests.core import tools
from tests.inductor.models import perceptron

HELD = f"""
import ctypes, sys, threading, time
import torch, torch_npu
acl = ctypes.CDLL({str(tools.LIBRARY)!r})
Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
kept = []
def behind_python(act):
    '''Calls act() while the stream waits for another thread of Python.'''
    opened = threading.Event()
    kept.append(Function(lambda _: opened.wait()))
    stream = ctypes.c_void_p(torch.npu.current_stream().native_handle)
    assert acl.aclrtLaunchHostFunc(stream, kept[-1], None) == 0
    threading.Timer(0.7, opened.set).start()
    start = time.monotonic()
    act()
    waited = time.monotonic() - start
    torch.npu.synchronize()
    return waited
path, weights = {{path!r}}, torch.load({{weights!r}})
x = torch.ones(4, 8).npu()
loaded = torch._inductor.aoti_load_package(path)
single = torch._inductor.aoti_load_package(path, run_single_threaded=True)
first = loaded(x)[0].tolist()
assert single(x)[0].tolist() == first
def fill(model):
    for _ in range(1200):  # a stream holds 1,024 tasks
        y = model(x)[0]
    filled.append((time.monotonic(), y))
def at_once(*acts):
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
filled = []
assert behind_python(lambda: fill(loaded)) > 0.5
assert behind_python(lambda: at_once(*[lambda m=m: fill(m) for m in (loaded, loaded, single, single)])) > 0.5
assert all(y.tolist() == first for _, y in filled) and len(filled) == 5
# A call that fails, beside others.
def fails():
    for _ in range(300):
        try:
            loaded(x.cpu())
        except RuntimeError as error:
            assert "argument 0 of this model must be on npu:0" in str(error)
        else:
            raise AssertionError
at_once(fails, lambda: fill(loaded), fails, lambda: fill(loaded))
assert all(y.tolist() == first for _, y in filled) and len(filled) == 7
# Weights that change between calls, not within one: the sum of two of them is 0 at any time.
def of(k):
    given = {{{{name: torch.zeros_like(value) for name, value in weights.items()}}}}
    given["layers.2.bias"] += k
    given["layers.3.weight"] += 1
    given["layers.3.bias"] -= 16 * k
    return {{{{name: value.npu() for name, value in given.items()}}}}
sets = [of(k) for k in range(3)]
loaded.load_constants(sets[0], check_full_update=True)
torn, ended = torch.zeros((), device="npu"), threading.Event()
def calls():
    total = torch.zeros((), device="npu")
    while not ended.is_set():
        total += loaded(x)[0].abs().sum()
    torn.add_(total)
    torch.npu.synchronize()
def changes():
    for i in range(60):
        loaded.load_constants(sets[i % 3], check_full_update=True)
    ended.set()
at_once(calls, changes)
assert torn.item() == 0
# Of two runners one is always in use: a call ends when another one has begun, unless that waits for its turn.
pair = torch._inductor.package.load_package(path, num_runners=2)
turn, begun, changed = threading.Condition(), [], []
within = torch.library.Library("aten", "IMPL")
def meets(bias, a, b, *, beta=1, alpha=1, out):
    with turn:
        begun.append(a)
        mine = len(begun)
        turn.notify_all()
        turn.wait_for(lambda: len(begun) > mine, timeout=0.1)
    return out.copy_(a @ b + bias)
within.impl("addmm.out", meets, "PrivateUse1", allow_override=True)
def without_pause():
    while not changed and len(begun) < 4000:
        pair(x)
def change():
    with turn:
        turn.wait_for(lambda: len(begun) > 8)
    pair.load_constants(sets[1], check_full_update=True)
    changed.append(len(begun))
at_once(without_pause, without_pause, change)
assert changed[0] < 1000, changed  # 4,000: only when the calls had ended
del within
assert pair(x)[0].abs().sum().item() == 0
# From within: an operator in Python that the model calls.
within, said = torch.library.Library("aten", "IMPL"), []
def addmm(bias, a, b, *, beta=1, alpha=1, out):
    try:
        loaded.load_constants(sets[0], check_full_update=True)
    except RuntimeError as error:
        said.append(str(error))
    return out.copy_(a @ b + bias)
within.impl("addmm.out", addmm, "PrivateUse1", allow_override=True)
loaded(x)
del within
torch.npu.synchronize()
assert said and all("a compiled model is called from within itself" in text for text in said), said
on_npu = {{{{name: value.npu() for name, value in weights.items()}}}}
behind_python(lambda: loaded.load_constants(on_npu, check_full_update=True))
behind_python(lambda: loaded.load_constants(weights, check_full_update=True, allow_h2d_copy=True))
behind_python(lambda: torch._inductor.aoti_load_package(path))
del single
behind_python(lambda: globals().pop("loaded"))
"""

# The interpreter ends while a thread waits for the device. The thread begins later than the interpreter's own wait, so
# it reaches the limit of waits later, too, and asks for the lock while the process naps on its way out.
ENDS = f"""
import ctypes, threading, time
import torch, torch_npu
last = torch._inductor.aoti_load_package({{path!r}})
given = {{{{name: value.npu() for name, value in torch.load({{weights!r}}).items()}}}}
torch.npu.synchronize()
acl, libc = ctypes.CDLL({str(tools.LIBRARY)!r}), ctypes.CDLL(None)
nap = ctypes.cast(libc.usleep, ctypes.c_void_p)
stream = ctypes.c_void_p(torch.npu.current_stream().native_handle)
assert acl.aclrtLaunchHostFunc(stream, nap, ctypes.c_void_p(2500000)) == 0
assert libc.__cxa_atexit(nap, ctypes.c_void_p(1000000), None) == 0
def waits():
    time.sleep(0.4)
    last.load_constants(given, check_full_update=True)
threading.Thread(target=waits, daemon=True).start()
"""


def test_nothing_waits_with_the_lock_of_the_interpreter(tmp_path):
    """A full stream, new weights, loading and the end of a model, while a function of Python is on the stream. Threads
    then call one model side by side: with wrong arguments, with changing weights, from within and at the end."""
    path, weights = perceptron()
    torch.save({name: value.cpu() for name, value in weights.items()}, tmp_path / "weights")
    tools.run(HELD.format(path=path, weights=str(tmp_path / "weights")), timeout=60)
    tools.run(ENDS.format(path=path, weights=str(tmp_path / "weights")), timeout=60, ACL_DEVICE_SYNC_TIMEOUT="1")
