"""tools/dev/check_files.py: it finds what it should in a made-up tree, and nothing in ours."""

from __future__ import annotations

import pytest

from tools.dev import check_files


@pytest.fixture
def tree(tmp_path):
    def write(path: str, text: str = "") -> list[str]:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return check_files.check(tmp_path)

    return write


def test_the_repository_says_what_is_so(root):
    assert check_files.check(root) == []


def test_a_long_file_says_why(tree):
    code = "int x;\n" * 401
    (finding,) = tree("a/b.cpp", "// About b.\n" + code)
    assert finding.startswith('a/b.cpp:1: 402 lines, and no "Long because ..."')
    assert tree("a/b.cpp", "// About b.\n// Long because it is a list.\n" + code) == []
    assert len(tree("a/b.cpp", "// About b.\n" + code + "// Long because it is a list.\n")) == 1
    assert tree("a/b.cpp", "// About b.\n" + code[: -7 * 2]) == []


@pytest.mark.parametrize(
    ("name", "head"), [("t.yaml", "# Long because of its rows.\n"), ("t.py", '"""T.\n\nLong because so.\n"""\n')]
)
def test_tables_and_python_too(tree, name, head):
    assert tree(name, head + "a = 1\n" * 401 if name.endswith("py") else head + "- a\n" * 401) == []
    assert len(tree(name, "a = 1\n" * 401)) == 1


def test_a_comment_names_files_that_exist(tree):
    tree("room/door.h")
    tree("room/inner/wall.h")
    tree("other/roof.h")
    tree("yard.h")
    said = "// See door.h, wall.h, yard.h and other/roof.h.\n"
    assert tree("room/a.cpp", said) == []
    assert tree("room/a.cpp", said + "\n// roof.h is elsewhere, gate.h nowhere.\n") == [
        "room/a.cpp:3: names roof.h, which is not there",
        "room/a.cpp:3: names gate.h, which is not there",
    ]


def test_code_strings_and_patterns_are_no_comments(tree):
    text = '#include "gone.h"\nauto a = "gone.py"; // line*.cpp, <gone.h>\n'
    assert tree("room/a.cpp", text) == []
    assert tree("room/b.py", 'open("gone.py")  # not {name}.py\n') == []


def test_tests_name_what_they_test_by_its_name(tree):
    tree("softnpu/runtime/stream.cpp")
    assert tree("tests/runtime/test_stream.py", '"""stream.cpp: order."""\n') == []
    assert tree("tests/runtime/test_stream.py", '"""Order.\n\nOf steam.cpp.\n"""\n') == [
        "tests/runtime/test_stream.py:3: names steam.cpp, which is not there"
    ]


def test_who_calls_a_header_includes_it(tree):
    tree("room/a.cpp", '#include "room/door.h"\n')
    tree("room/inner/b.cpp", '#include "room/gate.h"\n')
    tree("room/gate.h", '#include "room/door.h"\n')
    tree("room/c.cpp")
    assert tree("room/door.h", "// A door. Who calls it: a.cpp and\n// inner/b.cpp. It is heavy.\n") == []
    assert tree("room/door.h", "// Who calls it: c.cpp, a.cpp (to leave), everybody else.\n") == [
        "room/door.h:1: says that c.cpp calls it, which does not include it"
    ]
    assert tree("room/door.h", "// A door. What it is not: c.cpp.\n") == []


def test_a_list_of_callers_is_whole(tree):
    for name in ("a", "b", "door"):
        tree(f"room/{name}.cpp", '#include "room/door.h"\n')
    tree("tests/room/test_door.cpp", '#include "room/door.h"\n')
    assert tree("room/door.h", "// Who calls it: a.cpp (to leave).\n") == [
        "room/door.h:1: does not say that room/b.cpp calls it"
    ]
    assert tree("room/door.h", "// Who uses it: a.cpp.\n") == ["room/door.h:1: does not say that room/b.cpp calls it"]
    assert tree("room/door.h", "// Who calls it: a.cpp, b.cpp.\n") == []
    assert tree("room/door.h", "// Who calls it: a.cpp and others.\n") == []
