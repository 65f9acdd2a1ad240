"""Distributed jobs out of the documents: scripts that stand there in pieces or as one line, and their commands.

What is changed is a rule with a name here, and nothing else: a test compares tokens.
"""

from __future__ import annotations

import ast
import re

from tests.seeds import document

# --- a script printed as one line ---
WORD = re.compile(r"""(?:"[^"]*"|[^\s"])+""")
OPENS = ("def", "class", "if", "for")


def words(line: str) -> list[str]:
    """The line's words; a string is never divided."""
    return WORD.findall(line)


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def continues(statement: str, word: str) -> bool:
    """Whether the word belongs to the statement: together they are one, or wrong only in that they end too early."""
    if parses(statement) and word in OPENS:
        return False
    text = f"{statement} {word}"
    try:
        ast.parse(text)
    except SyntaxError as error:
        open_bracket = "was never closed" in error.msg and not parses(statement)
        return error.lineno > 1 or error.offset > len(text) or open_bracket
    return True


def broken_into_lines(line: str) -> str:
    """The rule: a statement goes on while its words can be one; a comment is "#" and the next word; def with self is in
    the class, other def, class and `if __name__` at the margin; an if has one statement; cleanup() comes after the
    loops.
    """
    rest, out, level, only = words(line), [], 0, []
    while rest:
        if rest[0] == "#":
            out.append("    " * level + f"# {rest[1]}")
            rest = rest[2:]
            continue
        statement, rest = rest[0], rest[1:]
        opens = statement in OPENS
        while rest and rest[0] != "#" and not (opens and statement.endswith(":")) and continues(statement, rest[0]):
            statement, rest = f"{statement} {rest[0]}", rest[1:]
        if statement.startswith("def ") and "(self" in statement:
            level = 1
        elif statement.startswith(("def ", "class ", "if __name__", "import ", "from ")) or re.match(
            "[A-Z_]+ =", statement
        ):
            level, only = 0, []
        elif statement == "cleanup()":
            level = 1
        out.append("    " * level + statement)
        if only:
            level = only.pop()
        if opens:
            if statement.startswith("if "):
                only.append(level)
            level += 1
    return "\n".join(out) + "\n"


def one_line_script(text: str) -> str:
    """The longest line that begins as a program does."""
    return max((line for line in text.splitlines() if line.startswith("import ")), key=len)


# --- a script printed in pieces, one variant a way of starting it ---
ELIDED = re.compile(r"^\.{3,}.*$", re.M)  # "......  # the rest as above"


def pieces(text: str) -> dict[str, str]:
    """Program by way: env (shell loop, torchrun, torch_npu_run), spawn, python."""

    def part(heading: str, language: str) -> list[str]:
        # Comments in the code look like headings of the first level.
        return document.blocks(text.split(f"\n#### {heading}", 1)[1].split("\n####", 1)[0], language)

    base = part("构建模型脚", "python")[0]
    mains = part("获取分布式超参数", "shell")
    setups = [code for code in part("设置地址和端口号", "shell") if code.startswith("def ")]
    (env_worker, spawn_worker), (python_worker,) = part("添加分布式逻辑", "python"), part("添加分布式逻辑", "shell")
    tails = part("配置传参逻辑", "python")
    # "The train function is that of the shell way", "the rest of the code is that of the shell way".
    spawn_worker = ELIDED.sub("", spawn_worker) + document.definition(env_worker, "train") + "\n"
    call = "ddp_setup(args.gpu, args.world_size)\n"
    python_worker = python_worker.split(call)[0] + call + env_worker.split(call)[1]
    return {
        "env": "\n".join([base, mains[0], setups[0], env_worker, tails[0]]),
        "spawn": "\n".join([base, mains[1], setups[0], spawn_worker, tails[1]]),
        "python": "\n".join([base, mains[2], setups[1], python_worker, tails[2]]),
    }


def commands(text: str, heading: str) -> dict[str, str]:
    """The commands under a heading, by way."""
    section = document.section(text, heading)
    out = {}
    for code in document.blocks(section, "shell") + document.blocks(section, ""):
        if "torch_npu_run" in code:
            out["torch_npu_run"] = code
        elif "torchrun" in code:
            out["torchrun"] = code
        elif "torch.distributed.launch" in code:
            out["python"] = code
        elif "for((" in code:
            out["shell"] = code
        else:
            out["spawn"] = code
    return out
