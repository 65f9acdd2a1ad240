"""Taking a script out of a document and applying its additions, on a made-up document."""

from __future__ import annotations

from tests.seeds import document

TEXT = """# Title

## Other

## Sample one

1. The script:

   ```python
   import os
   import sys

   n = 3  # times
   for i in range(n):
       print(i)
   print("end")
   ```

2. Add this:

   ```python
   import os
   ......
   import json  # new
   ```

   and this:

   ```python
   ......
   n = 3
   m = 4
   ```

   ```python
   ......
   for j in range(n):
       print(j, m)
   ```

   ```shell
   python3 train.py
   ```

## Sample two
"""

MERGED = """import os
import sys
import json  # new

n = 3  # times
m = 4
for j in range(n):
    print(j, m)
print("end")
"""


def test_a_section_ends_at_the_next_heading():
    assert "Sample two" not in document.section(TEXT, "Sample one")
    assert len(document.blocks(document.section(TEXT, "Sample one"))) == 4


def test_additions_go_where_their_context_stands():
    script, *additions = document.blocks(document.section(TEXT, "Sample one"))
    assert document.with_additions(script, additions) == MERGED


def test_code_between_prose():
    assert document.code_lines("标题\n\nimport os\n导入\nx = 1\n") == "import os\n\nx = 1\n"


def test_statements_can_be_left_out():
    assert document.without("a = 1\nb = f(\n  a)\nc = 2", r"\bf\(") == "a = 1\n\n\nc = 2"


def test_a_definition_is_taken_with_its_body():
    assert document.definition(MERGED.replace("n = 3", "def n():\n    pass\n#"), "n") == "def n():\n    pass"
