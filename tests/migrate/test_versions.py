"""-v: which PyTorch the scripts were written for."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.to(0)", "x.to('npu:0')"),
        ("x.to(rank)", "x.to(f'npu:{rank}' if isinstance(rank, int) else rank)"),
        (
            "torch.zeros(1, device=args.gpu)",
            "torch.zeros(1, device=f'npu:{args.gpu}' if isinstance(args.gpu, int) else args.gpu)",
        ),
        ("x.to(next(it))", "x.to(next(it))"),
        ("x.to(torch.float16)", "x.to(torch.float16)"),
        ("x.to(*args, **kw)", "x.to(*args, **kw)"),
        ("x.to(non_blocking=True, device=1)", "x.to(non_blocking=True, device='npu:1')"),
        ("x.to(y)", "x.to(y)"),
    ],
)
def test_integers_were_cuda_devices_before_2_1(migrate, before, after):
    changed = "" if before == after else "import torch_npu\n"
    assert migrate(f"import torch\n{before}\n", "-v", "1.11.0") == f"{changed}import torch\n{after}\n"
    assert migrate(f"import torch\n{before}\n", "-v", "2.1.0") == f"import torch\n{before}\n"


def test_an_entry_script_imports_the_plugin_where_torch_does_not_load_it(migrate):
    script = "import torch\nif __name__ == '__main__':\n    main()\n"
    assert migrate(script, "-v", "2.4.0") == "import torch_npu\n" + script
    assert migrate(script, "-v", "2.5.0") == script


@pytest.mark.parametrize(("version", "listed"), [("1.11.0", True), ("2.1.0", True), ("2.8.0", True), ("2.13.0", False)])
def test_the_list_of_the_version_decides(migrate, version, listed):
    report = migrate.report("import torch\ntorch.heaviside(a, b)  # cuda\n", "-v", version)
    assert [row["name"] for row in report["unsupported"]] == (["torch.heaviside"] if listed else [])


def test_what_is_listed_and_not_changed(migrate):
    source = (
        "import torch, amp_C, flash_attn\nimport torch.distributed as dist\nfrom torch.utils.cpp_extension import CUDAExtension\n"
        "os.environ['NCCL_DEBUG'] = os.environ['CUDA_VISIBLE_DEVICES']\ntorch.version.cuda\ntorch.backends.cuda.is_built()\n"
        "dist.is_nccl_available()\nCUDAExtension('x', [])\ntorch.jit.script(f)\ntorch.nn.DataParallel(m)\n"
        "x.to(memory_format=torch.channels_last)\namp_C.f()\n"
    )
    report = migrate.report(source)
    assert report["changed"] == []
    assert {row["name"] for row in report["notices"]} == {
        "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "torch.version.cuda", "torch.backends.cuda.is_built",
        "torch.distributed.is_nccl_available", "torch.jit.script", "torch.channels_last",
    }  # fmt: skip
    assert {row["name"] for row in report["unsupported"]} == {"amp_C", "torch.nn.DataParallel"}
    assert {row["name"] for row in report["cuda_operators"]} == {"torch.utils.cpp_extension.CUDAExtension"}
    assert {row["name"] for row in report["third_party"]} == {"flash_attn"}
    assert all(row["tips"] for row in report["notices"] + report["unsupported"])


def test_methods_of_what_torch_functions_return_are_looked_up(migrate):
    report = migrate.report("import torch\nx = torch.zeros(3)\nx.to_sparse_csr()  # cuda\n", "-v", "2.8.0")
    assert [row["name"] for row in report["unsupported"]] == ["torch.Tensor.to_sparse_csr"]


@pytest.mark.parametrize("user", ["list(d) == ['cuda']", "[d[k] for k in ('cuda', 'cpu')]", "set(d) == {'cuda'}"])
def test_a_key_that_stays_beside_changed_names_is_noticed(user, migrate):
    report = migrate.report(f"import torch\nd = {{'cuda': 1}}\nx = {user}\n")
    assert [(row["name"], row["line"]) for row in report["notices"]] == [("'cuda'", 2)]
    assert "stays, as the key of a dictionary" in report["notices"][0]["tips"]


def test_a_key_alone_or_a_table_of_devices_is_not_noticed(migrate):
    for source in ("d = {'cuda': 1}\nx = torch.ones(1, device='cuda')\n", "d = {'cuda': 1, 'cpu': 2}\nx = ['cuda']\n"):
        assert migrate.report("import torch\n" + source)["notices"] == []
