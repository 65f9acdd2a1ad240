"""migrate/src/source.cpp: bytes that no rule touches stay, whatever the encoding and the newlines."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfimport torch\nx = 'cuda'\n", b"\xef\xbb\xbfimport torch_npu\nimport torch\nx = 'npu'\n"),
        (b"import torch\r\nx = 'cuda'\r\n", b"import torch_npu\r\nimport torch\r\nx = 'npu'\r\n"),
        (
            b"import torch\rx = 'cuda'\r# cuda\ry.cuda()\r",
            b"import torch_npu\rimport torch\rx = 'npu'\r# cuda\ry.npu()\r",
        ),
        (b"import torch\nx = 'cuda'", b"import torch_npu\nimport torch\nx = 'npu'"),
        (b"import torch\n\tx = 1\nx = 'cuda'\n", b"import torch\n\tx = 1\nx = 'cuda'\n"),  # not Python: stays
        (b"import torch\nx = 'cuda'\n\n\n\x0c\n  \n", b"import torch_npu\nimport torch\nx = 'npu'\n\n\n\x0c\n  \n"),
        (b"import torch\r\nx = 'cuda'\ny = 1\r\n", b"import torch_npu\r\nimport torch\r\nx = 'npu'\ny = 1\r\n"),
    ],
    ids=["bom", "crlf", "cr", "no last newline", "bad indent", "form feed", "mixed newlines"],
)
def test_layout_is_kept(migrate, before, after):
    assert migrate(before) == after


@pytest.mark.parametrize(
    "encoding", ["utf-8", "gbk", "gb18030", "big5", "shift_jis", "euc_kr", "latin-1", "cp1252", "koi8_r"]
)
def test_declared_encodings(migrate, encoding):
    texts = {"latin-1": "café Ü", "cp1252": "café €", "koi8_r": "Привет"}
    text = texts.get(encoding, "日本中文")
    if encoding == "euc_kr":
        text = "한국어"
    if encoding == "gbk":
        text = "乗榎"  # second bytes are a backslash and a brace-like letter
    source = f"# -*- coding: {encoding} -*-\nimport torch\nnote = '{text}'\nx = 'cuda'  # {text}\n".encode(encoding)
    expected = source.replace(b"import torch", b"import torch_npu\nimport torch").replace(b"'cuda'", b"'npu'")
    assert migrate(source) == expected


def test_a_backslash_as_second_byte_of_a_gbk_character(migrate):
    # 誠 in GBK is 0xD5 0x5C: read byte by byte, the quote after it would be escaped.
    text = b"\xd5\x5c"
    source = b"# coding: gbk\nimport torch\ns = '" + text + b"'\nx = 'cuda'\n"
    assert migrate(source) == source.replace(b"import torch", b"import torch_npu\nimport torch").replace(
        b"'cuda'", b"'npu'"
    )


def test_undeclared_bytes_are_kept(migrate):
    source = b"import torch\ns = '\xff\xfe\x80'\nx = 'cuda'\n"
    assert migrate(source) == b"import torch_npu\n" + source.replace(b"'cuda'", b"'npu'")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("x = 'cuda'\n".encode("utf-16"), "UTF-16"),
        (b"x = 'cuda'\n\x00\n", "NUL"),
        (b"# coding: utf-7\nx = 'cuda'\n", "utf-7"),
        (b"print 'cuda'\n", "Python 2: a print statement"),
        (b"x = 'cuda'\nexec 'x'\n", "Python 2: an exec statement"),
        (b"x = 'cuda'\nraise A, 'b'\n", "Python 2: a raise with a comma"),
        (b"x = 'cuda' if 1 <> 2 else 0\n", "Python 2: a <> operator"),
        (b"x = 'cuda'\ntry:\n    pass\nexcept A, e:\n    pass\n", "Python 2: an except with a comma"),
        (b"x = 'cuda'\ny = 10L\n", "Python 2: a long integer"),
        (b"x = 'cuda'\ndef f(:\n", "syntax error"),
    ],
)
def test_what_is_no_python_3_text_stays_and_is_listed(migrate, content, reason):
    report = migrate.report(content)
    assert report["changed"] == []
    assert [row["file"] for row in report["skipped"]] == ["script.py"]
    assert reason in report["skipped"][0]["reason"]
    assert migrate(content) == content


def test_the_line_of_a_syntax_error(migrate):
    assert migrate.report("x = 'cuda'\n\n\ny = = 1\n")["skipped"][0]["line"] == 4


@pytest.mark.parametrize(
    "line",
    [
        "def f(): return *a, b",
        "def f(): return a, *(b, c)",
        "type X[T] = list[T]",
        "def f[T](x: T) -> T: return x",
        "try: pass\nexcept* ValueError: pass",
        "x = f'{a['b']}'",
        "x = t'{y}'",
        "match x:\n    case {'a': 1, **rest} if rest: pass",
        "print(x := 1)",
        "async def f(): return [x async for x in y]",
        "try: pass\nexcept A, B: pass",
    ],
)
def test_recent_python_is_read(migrate, line):
    assert migrate(f"d = 'cuda'\n{line}\n") == f"d = 'npu'\n{line}\n"
