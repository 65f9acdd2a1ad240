"""A package's function of a built-in's name, as operators of a YAML file call it."""

from __future__ import annotations

import subprocess

import pytest

from tests.extension.test_custom_ops import ONE, generated
from torch_npu.utils import custom_ops


def test_a_packages_function_of_a_built_ins_name_counts(tmp_path, monkeypatch):
    """By its header; where it ships none, nobody knows better than the row."""
    package = tmp_path / "package" / "op_api"
    (package / "lib").mkdir(parents=True)
    (package / "include").mkdir()
    three = ONE.replace("Tensor x)", "Tensor x, float most)").replace("aclnnAbs", "aclnnAbs, x, most, out")
    with pytest.raises(ValueError, match="aclnnAbs of CANN takes 2 .* where ASCEND_CUSTOM_OPP_PATH names it"):
        generated(tmp_path, three)
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(package.parent))

    def compiled(text: str) -> None:
        (tmp_path / "p.cpp").write_text(f'extern "C" int aclnnAbsGetWorkspaceSize(){text}')
        command = ["g++", "-shared", "-fPIC", tmp_path / "p.cpp", "-o", package / "lib" / "libcust_opapi.so"]
        subprocess.run(command, check=True)
        custom_ops._generator()[0].custom_functions.defined.cache_clear()

    compiled("; int other() { return aclnnAbsGetWorkspaceSize(); }")  # calls CANN's
    with pytest.raises(ValueError, match="aclnnAbs of CANN takes 2 "):
        generated(tmp_path, three)
    compiled(" { return 0; }")
    assert "EXEC_NPU_CMD_EXT(aclnnAbs, x_v, most_v, out_v)" in generated(tmp_path, three)
    (package / "include" / "aclnn_abs.h").write_text(
        "// aclnnAbsGetWorkspaceSize(x)\naclnnStatus aclnnAbsGetWorkspaceSize (const aclTensor *x, /* (N, C), any */\n"
        "  double most, const aclTensor *out, "
        "uint64_t *workspaceSize, aclOpExecutor **executor);\n"
    )
    assert "EXEC_NPU_CMD_EXT(aclnnAbs, x_v, static_cast<double>(most_v), out_v)" in generated(tmp_path, three)
    said = (
        r"aclnnAbs of the package \S+/package takes 3 values, const aclTensor \*x, double most, const aclTensor \*out; "
        "the row gives x, out$"
    )
    with pytest.raises(ValueError, match=said):
        generated(tmp_path, ONE)
    header = "aclnnStatus aclnnAbsGetWorkspaceSize({}aclTensor* x, aclTensor* out, uint64_t* n, aclOpExecutor** e);\n"
    (package / "include" / "aclnn_abs.h").write_text(header.format(""))  # one that says nothing of what is read
    assert "EXEC_NPU_CMD_EXT(aclnnAbs, x_v, out_v)" in generated(tmp_path, ONE)
    (package / "include" / "aclnn_abs.h").write_text(header.format("const "))
    with pytest.raises(ValueError, match="exec: x is not written .* is the order right"):
        generated(tmp_path, ONE.replace("aclnnAbs", "aclnnAbs, out, x"))
