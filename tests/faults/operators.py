"""Every operator of CANN's that the plugin calls fails once, in one process:

python -m tests.faults.operators error|kernel [NAMES]

`error`: the first call of each function's phase one fails, and the first of its phase two. `kernel`: the task of its
first call, and two later ones. The calls are the samples of PyTorch's databases (tests/upstream), of the NPU's own
operators (tests/npu_ops) and EXPRESSIONS. One that fails is tried again until it is not struck; then it has to be
right. NAMES: a regular expression on the samples' names, of some of them. Prints JSON: what each fault raised, and what
was not right.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

STRUCK = re.compile(r"(?:^|: )(\w+): npu: .*as ANYCEND_FAULT asks \((\w+):\w+(?::\d+)?\)", re.S)
TRIES = 40  # of a sample: each strikes one function, in one of its phases
SAMPLES = 2
# Types of the databases that together reach what the plugin has of a type's own.
DTYPES = "float32,int64,complex64,bool,float16"
FORMS = ("forward", "gradient", "inplace", "out")

# Calls that no sample makes, of what names_of says. Right is what the CPU computes.
FOREACH = "acos asin atan cos cosh erf erfc exp expm1 log log10 log1p log2 sigmoid sin sinh tan tanh"
EXPRESSIONS = [
    "torch.tensor(2.0) + x",
    "torch.rsub(x, 2)",
    "torch.rsub(x, torch.tensor(2.0))",
    "torch.aminmax(x)",
    "torch.ops.aten._aminmax(x)",
    "torch._amp_update_scale_(x[0, 0].clone(), torch.ones_like(i[0, 0], dtype=torch.int32), x[0, 0] * 0, 2.0, 0.5, 20)",
    "torch.bitwise_or(i, 3)",
    "torch.bitwise_xor(i, 3)",
    "torch.nn.functional.embedding(i[0, :2], x.clone(), max_norm=0.5)",
    "torch.floor_divide(x, torch.tensor(0.3))",
    "torch.isin(x, 0.1)",
    "torch.isin(0.1, x)",
    "torch.logspace(0, 1, 5, device=device)",
    "torch.range(0, 4, device=device)",
    "torch.pdist(x)",
    "torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 9)",
    "torch.fake_quantize_per_channel_affine(x, x[:, 0], i[:, 0].int(), 0, 0, 9)",
    "torch.remainder(5, x)",
    "torch.xlogy(x, 2.0)",
    "torch.xlogy(2.0, x)",
    "torch.nn.functional.unfold(image, 2)",
    "torch.nn.functional.fold(x.reshape(1, 4, 3), (2, 4), 2)",
    "gradient(torch.nn.functional.unfold, image, 2)",
    *(
        f"gradient(torch.nn.functional.interpolate, {of}, scale_factor=2.0, mode={mode!r})"
        for of in ("image[0]", "image", "volume")
        for mode in ("nearest", "nearest-exact")
    ),
    *(
        f"gradient(torch.nn.functional.interpolate, {of}, size={size}, mode={mode!r})"
        for of, size in (("image[0]", "9"), ("image", "(9, 7)"), ("volume", "(5, 6, 7)"))
        for mode in ("nearest", "nearest-exact")
    ),
    "gradient(torch.nn.functional.interpolate, image, scale_factor=2.0, mode='bicubic', antialias=True)",
    *(f"torch._foreach_{name}(many)" for name in FOREACH.split()),
    "torch._foreach_addcmul(many, many, many, [1.0, 2.0])",
    "torch._foreach_div(many, 2.0)",
    "torch._foreach_sub(many, 2.0)",
    "torch._foreach_lerp(many, many, many)",
    "torch._foreach_maximum(many, [1.0, 2.0])",
    "torch._foreach_minimum(many, many)",
    "torch._foreach_minimum(many, [1.0, 2.0])",
    "torch._foreach_minimum(many, 1.0)",
    "torch._foreach_norm(many)",
    "torch._foreach_pow(many, many)",
    "torch._foreach_pow(2.0, many)",
    "torch._foreach_pow(many, [1.0, 2.0])",
    "torch._foreach_pow(many, 2.0)",
    "torch._foreach_round(many)",
    "torch._foreach_zero_([m.clone() for m in many])",
    "torch._amp_foreach_non_finite_check_and_unscale_([m.clone() for m in many], x[0, 0] * 0, x[0, 0])",
]
# The same, whose results are drawn, or which the CPU does not have: they have to be of one shape at each call.
UNLIKE = [
    "torch.randperm(7, device=device)",
    "torch.batch_norm_stats(image, 1e-5)",
    "torch.batch_norm_elemt(image, image[0, :, 0, 0], image[0, :, 0, 0], image[0, :, 0, 0], image[0, :, 0, 0], 1e-5)",
    "torch.batch_norm_gather_stats_with_counts(image, x[:, :2], x[:, :2], None, None, 0.1, 1e-5, x[:, 0])",
    "torch.batch_norm_backward_reduce(image, image, *[image[0, :, 0, 0]] * 3, True, True, True)",
    "torch.batch_norm_backward_elemt(image, image, *[image[0, :, 0, 0]] * 5, i[0, :1].int() + 36)",
    "torch.ops.npu.npu_swiglu(x.half(), -1)",
    "torch.ops.npu.npu_fast_gelu(x)",
    "gradient(torch.ops.npu.npu_swiglu, x, -1)",
    "gradient(torch.ops.npu.npu_fast_gelu, x)",
    "gradient(packed, queries, queries, queries, 2, 'TND')",
    "gradient(packed, queries, queries, queries, 2, 'TND', pse_type=0)",
    "gradient(packed, queries, queries, queries, 2, 'TND', sink=sink)",
    "gradient(attention, queries[None], queries[None], queries[None], 2, 'BSND', sink=sink)",
    "captured(lambda: x.clone().normal_())",
    "captured(lambda: x.clone().random_())",
    "captured(lambda: x.clone().uniform_())",
    "captured(lambda: x.clone().exponential_())",
    "captured(lambda: torch.nn.functional.dropout(x))",
    "captured(lambda: torch.ops.npu._npu_dropout(x, 0.5))",
    "captured(lambda: torch.multinomial(x, 2))",
    "torch.normal(x, 1.0)",
    "torch.normal(1.0, x)",
]


def functions() -> list[str]:
    """Those that the plugin's library names."""
    folder = importlib.util.find_spec("torch_npu").submodule_search_locations[0]
    library = Path(folder) / "lib" / "libtorch_npu.so"
    return sorted({name.decode() for name in re.findall(rb"(?<!\w)(aclnn[A-Z]\w+|aclStft)\0", library.read_bytes())})


def faults(mode: str) -> str:
    if mode == "error":
        return ",".join(f"{name}GetWorkspaceSize:error,{name}:error" for name in functions())
    # Behind a kernel that failed nothing runs that was queued, so that a fault may hide another function's first one.
    # The later ones have other numbers for neighbours.
    later = [(name, 2 + n % 7, 10 + n % 13) for n, name in enumerate(functions())]
    return ",".join(f"{name}:kernel,{name}:kernel:{second},{name}:kernel:{third}" for name, second, third in later)


def names_of(device: str) -> dict[str, object]:
    """What expressions name."""
    import torch

    def numbers(*sizes: int) -> torch.Tensor:
        return (torch.arange(torch.Size(sizes).numel()).reshape(sizes) % 13 * 0.07 + 0.1).to(device)

    def gradient(function: object, *given: object, **keywords: object) -> list[torch.Tensor]:
        """Of the first of the tensors, with the results that have one."""
        first = given[0].detach().clone().requires_grad_()
        found = function(first, *given[1:], **keywords)
        results = [t for t in (found if isinstance(found, (tuple, list)) else [found]) if torch.is_tensor(t)]
        results[0].sum().backward()
        return [results[0].detach(), first.grad]

    def captured(work: object) -> object:
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            found = work()
        graph.replay()
        return found

    def packed(*given: object, **more: object) -> object:
        return torch.ops.npu.npu_fusion_attention_v2(*given, actual_seq_qlen=[1, 4], actual_seq_kvlen=[1, 4], **more)

    x, image = numbers(3, 4), numbers(1, 2, 6, 6)
    named = {"torch": torch, "device": device, "gradient": gradient, "captured": captured, "packed": packed}
    named |= {"x": x, "i": torch.arange(12).reshape(3, 4).to(device) % 3, "many": [numbers(3), numbers(2, 2)]}
    named |= {"image": image, "volume": numbers(1, 2, 4, 4, 4)}
    named |= {"queries": numbers(4, 2, 16).half(), "sink": numbers(2)}
    return named | {"attention": lambda *given, **more: torch.ops.npu.npu_fusion_attention_v2(*given, **more)}


def of_expression(text: str, like: bool) -> list[str]:
    """What is not right in its result."""
    import torch

    from tests.npu_ops.samples import each

    try:
        found = each(eval(text, names_of("npu")), lambda t: t.detach().cpu())
        expected = (
            eval(text, names_of("cpu")) if like else each(eval(text, names_of("npu")), lambda t: t.detach().cpu())
        )
        torch.npu.synchronize()
        if like:
            torch.testing.assert_close(found, expected)
        else:
            torch.testing.assert_close(found, expected, rtol=0, atol=1e30, equal_nan=True)  # types and sizes
        return []
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not right
        return [f"{type(error).__name__}: {error}"]


def calls(names: str) -> Iterator[tuple[str, object]]:
    """What is called, and the call: it returns what was not right."""
    from tests.conformance import kernels
    from tests.npu_ops import samples
    from tests.upstream.cases import select
    from tests.upstream.exceptions import Exceptions
    from tests.upstream.worker import judge

    exceptions = Exceptions()
    for name, rows in samples.load().items():
        for index in range(len(rows) if re.search(names, name) else 0):

            def own(sample: str = f"{name} {index}") -> list[str]:
                first = kernels.outcome(sample)
                if STRUCK.search(first["error"]):
                    return [first["error"]]
                second = kernels.outcome(sample)
                if STRUCK.search(second["error"]):
                    return [second["error"]]
                if first["error"] or second["error"]:
                    return [] if first["error"] == second["error"] else [f"{first['error']} then {second['error']}"]
                return (
                    [] if kernels.same(first["results"], second["results"]) else ["another result at the second call"]
                )

            yield f"{name} {index}", own
    for like, texts in ((True, EXPRESSIONS), (False, UNLIKE)):
        for text in texts:
            if re.search(names, text):
                yield text, lambda text=text, like=like: of_expression(text, like)
    options = {"device": "npu", "samples": SAMPLES, "forms": FORMS}
    for case in select(["op", "module", "optimizer"], DTYPES.split(","), names):

        def theirs(case: object = case) -> list[str]:
            return [f"{status} {detail}" for status, detail in judge(case, options).complaints
                    if STRUCK.search(detail) or not exceptions.cover(str(case), status, detail)]  # fmt: skip

        yield str(case), theirs


def settle() -> None:
    import torch

    for _ in range(3):
        try:
            return torch.npu.synchronize()
        except RuntimeError:
            continue


def main() -> None:
    mode = sys.argv[1]
    os.environ["ANYCEND_FAULT"] = faults(mode)  # the library is loaded after it
    import torch

    warnings.simplefilter("ignore")
    torch.npu.current_device()
    raised, wrong = defaultdict(list), {}
    for name, call in calls(*sys.argv[2:] or [""]):
        for _ in range(TRIES):
            complaints = call()
            struck = [match for text in complaints if (match := STRUCK.search(text))]
            for match in struck:
                if match[1] not in raised[match[2]]:
                    raised[match[2]].append(match[1])
            settle()
            if not struck:
                break
        if complaints:
            wrong[name] = complaints
    gc.collect()
    settle()
    print(json.dumps({"raised": raised, "wrong": wrong, "allocated": torch.npu.memory_allocated()}))


if __name__ == "__main__":
    main()
