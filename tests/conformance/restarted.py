"""A device that is lost (ANYCEND_FAULT), stopped and started again: python -m tests.conformance.restarted

Public names only: it runs with either torch_npu. Prints RESULT and, as JSON, what each step said.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch

import torch_npu
from torch_npu.npu._recovery import check_npu_tensor_is_safe


def said(call: Callable[[], object]) -> object:
    try:
        return call()
    except RuntimeError as error:
        known = ("FORCE STOP", "There is unsafe data in the input tensor", "507010")
        return next((words for words in known if words in str(error)), str(error)[:300])


def main() -> None:
    npu, x = torch_npu.npu, torch.ones(3, device="npu")
    found = []
    while not isinstance(found[-1:] and found[-1], str):
        found = [said(lambda: (x + 1).tolist())]  # until it is lost
    found += [npu.stop_device(0), said(lambda: (x + 1).tolist()), npu.restart_device(0), said(lambda: (x + 1).tolist())]
    npu.restart_device(0, rebuild_all_resources=True)
    found += [check_npu_tensor_is_safe(x), said(lambda: (x + 1).tolist())]
    x.copy_(torch.full((3,), 4.0))
    found += [check_npu_tensor_is_safe(x), said(lambda: (x + 1).tolist())]
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
