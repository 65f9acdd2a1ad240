"""Each operator as the first of a process. The first one loads and prepares libraries, in an order that depends on it.

    python first_operators.py table              the expressions below: results equal the CPU's
    python first_operators.py database COUNT     PyTorch's operators: the outcome is that of the same call later on

A parent imports torch and the plugin and computes nothing on the NPU; each operator has a child forked from it, whose
libraries are loaded as in a new process. Prints what is wrong as JSON: name → text. It imports nothing of the tests, so
that any environment's Python can run it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

import torch

# `t` puts a tensor on the device, x and y are 3 × 4 and on it.
EXPRESSIONS = """
x + y | x.exp() | x.sum() | x @ y.T | x.nonzero() | torch.where(t(torch.tensor(37))) | x[x > 0]
torch.where(x > 0, x, y) | x.unique() | x.masked_select(y > 0) | x.sort(1) | x.topk(2) | x.cumsum(0) | x.argmax(1)
x.max() | torch.cat([x, y]) | torch.stack([x, y]) | x[:, t(torch.tensor([0, 2]))]
x.index_select(0, t(torch.tensor([1]))) | x.softmax(1) | torch.nn.functional.layer_norm(x, [4])
torch.nn.functional.conv2d(x.view(1, 1, 3, 4), y.view(1, 1, 3, 4))
torch.nn.functional.cross_entropy(x, t(torch.tensor([0, 1, 2])))
torch.nn.functional.embedding(t(torch.tensor([1])), x) | x.half() | x.zero_() | torch.zeros_like(x) | x.T.contiguous()
torch._foreach_add([x, y], 1.0) | x.std() | x.repeat(2, 2) | x.flip(0)
torch.nn.functional.max_pool2d(x.view(1, 3, 4), 2) | (x == y).all() | x.bool().any().item()
torch.arange(5, device=x.device) | x.tril() | x.addmm(x @ y.T, y) | torch.linalg.norm(x) | torch.equal(x, x)
"""


def in_child(body: Callable[[], object]) -> object:
    """What `body` returns in a child of this process; its traceback, as a str in a list, if it raises."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = body()
        except BaseException:  # noqa: BLE001 (the parent reports it)
            answer = [traceback.format_exc()]
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else [f"the process ended with {os.waitstatus_to_exitcode(status)}"]


def evaluate(expression: str, device: str) -> object:
    x = torch.linspace(-2, 3, 12).view(3, 4).to(device)
    y = torch.linspace(1, -1, 12).view(3, 4).to(device)
    return eval(expression, {"torch": torch, "x": x, "y": y, "t": lambda tensor: tensor.to(device)})


def to_cpu(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    return [to_cpu(v) for v in value] if isinstance(value, (list, tuple)) else value


def table() -> dict[str, str]:
    wrong = {}
    for expression in [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in line.split("|")]:

        def body(expression=expression):
            got = to_cpu(evaluate(expression, "npu"))
            torch.testing.assert_close(got, to_cpu(evaluate(expression, "cpu")), check_layout=False)
            x = torch.ones(2).npu()  # and nothing is broken for the next
            assert (x + x).tolist() == [2, 2]
            return None

        if failed := in_child(body):
            wrong[expression] = failed[0]
    return wrong


def outcome(operator, dtype: torch.dtype) -> str:
    """Values as text, or the error."""
    torch.manual_seed(5)
    sample = next(iter(operator.sample_inputs("cpu", dtype)))
    sample = sample.transform(lambda v: v.to("npu") if isinstance(v, torch.Tensor) else v)
    try:
        result = to_cpu(operator(sample.input, *sample.args, **sample.kwargs))
    except Exception as error:  # noqa: BLE001 (an outcome like any other)
        return f"{type(error).__name__}: {error}"
    if "empty" in operator.name:  # no values to compare
        result = [v.shape for v in (result if isinstance(result, list) else [result])]
    return repr(result)


def database(count: int) -> dict[str, str]:
    from torch.testing._internal.common_methods_invocations import op_db

    operators = [op for op in op_db if torch.float32 in op.dtypes]
    operators = operators[:: max(1, len(operators) // count)][:count]

    def first(i: int):
        return [in_child(lambda: outcome(operators[i], torch.float32))]

    def later():
        ready = torch.ones(2).npu()
        assert (ready + ready).tolist() == [2, 2]
        return {"outcomes": [outcome(operator, torch.float32) for operator in operators]}

    expected = in_child(later)
    if isinstance(expected, list):
        return {"all": expected[0]}
    wrong = {}
    for i, operator in enumerate(operators):
        (got,) = first(i)
        if got != expected["outcomes"][i]:
            wrong[operator.name] = f"first: {got}\nlater: {expected['outcomes'][i]}"
    return wrong


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads of the parent would be missing in its children
    import torch_npu  # noqa: F401

    torch.testing.assert_close(torch.ones(1), torch.ones(1))  # imports much, here once

    print(json.dumps(table() if sys.argv[1] == "table" else database(int(sys.argv[2]))))
