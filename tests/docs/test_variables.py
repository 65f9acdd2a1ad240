"""tests/docs/variables.py: which environment variables a text reads."""

from __future__ import annotations

import pytest

from tests.docs.variables import read

CPP = {
    'const char* v = std::getenv("A_B");': {"A_B"},
    'bool flag(const char* name, bool d) {\n  return std::getenv(name);\n}\nint x = flag("A_B", true);': {"A_B"},
    'int f(const char* a, const char* b) {\n  const char* v = getenv(a);\n  return v ? 1 : !!getenv(b);\n}\n'
    'long g(const char* n, long low) {\n  return f(n, "OLD_NAME");\n}\nauto x = g("A_B", 1), y = f("C_D", "E_F");':
        {"A_B", "C_D", "E_F", "OLD_NAME"},
    'static constexpr const char* kName = "A_B";\nbool x = getenv(kName);': {"A_B"},
    'fail(CODE, "A_B is wrong"); setenv("C_D", "1", 0); call("E_F");': set(),
}  # fmt: skip
PYTHON = {
    'os.environ.get("A_B", "0")': {"A_B"},
    "os.environ['A_B']": {"A_B"},
    'x = "A_B" in os.environ': {"A_B"},
    '_ROUND = "A_B"\nx = os.environ[_ROUND]\n': {"A_B"},
    '_ROUND = "A_B"\nx = _ROUND in os.environ\n': {"A_B"},
    'def _switch(name: str) -> bool:\n    return os.environ.get(name) == "1"\n\nx = _switch("A_B")': {"A_B"},
    'env = {"A_B": "1", **os.environ}\nrun(env, C_D="1")': set(),
}


@pytest.mark.parametrize("text", CPP)
def test_cpp(text):
    assert read("a.cpp", text) == CPP[text]


@pytest.mark.parametrize("text", PYTHON)
def test_python(text):
    assert read("a.py", text) == PYTHON[text]
