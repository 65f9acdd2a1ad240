"""The wheel's graph mode (torchair): imported, refused by name when it compiles, and the device works afterwards."""

from __future__ import annotations

import torch


def main() -> None:
    import torch_npu  # noqa: F401  makes torchair known

    # isort: split
    import torchair

    model = torch.nn.Linear(4, 4).npu()
    compiled = torch.compile(model, backend=torchair.get_npu_backend(), dynamic=False)
    try:
        compiled(torch.ones(2, 4).npu())
    except Exception as error:
        print("REFUSED", str(error).replace("\n", " "))
    print("THEN", (torch.ones(3).npu() + 1).tolist())


if __name__ == "__main__":
    main()
