"""The command line: a verb each function of this package, `anycend -h` lists them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

# Started as `python -m anycend` or `python -m softnpu`, by one name or the other.
from . import Refused, arguments, attach, compare, completion, docs, doctor, install, output, preflight, root, version
from .failure import one_line
from .finding import Finding

PRINTERS = {"root", "docs", "completion"}  # what they print is all that they do


class OneLineEach(argparse.HelpFormatter):
    """A line for each verb, however narrow the terminal says that it is; argparse counts verbs as less indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=18, width=112)
        self._action_max_length = self._max_help_position


def run(command: list[str]) -> int:
    """Replaces this process by the command, in the environment that set_env.sh makes."""
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        raise Refused("no command: anycend run -- python train.py")
    # $0 is the name under which bash reports what it cannot start.
    script = '. "$1/set_env.sh" && shift && exec "$@"'
    words = ["bash", "-c", script, "anycend run", str(root()), *command]
    output.default_signals()
    try:
        os.execvp("bash", words)
    except FileNotFoundError:
        raise Refused("bash is not on PATH: install it, or add its folder") from None


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="anycend", description="Run clients of CANN on the software NPU.",
        formatter_class=OneLineEach,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=version())
    sub = top.add_subparsers(dest="verb", metavar="verb")
    look = sub.add_parser("doctor", help="what is installed, which CANN is used, does a + b work, and what to repair")
    look.add_argument(
        "--timeout",
        type=arguments.seconds,
        default=120.0,
        help="seconds that a + b may do nothing, or compute (default: 120)",
    )
    read = sub.add_parser("docs", help="a page of documentation, as messages name them; without a name, all of them")
    read.add_argument("page", nargs="?", help="such as ascendc")
    sub.add_parser("root", help='print the CANN root: source "$(anycend root)/set_env.sh"')
    command = sub.add_parser("run", help="run one command on the software NPU: anycend run -- python train.py")
    command.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments, behind --")
    both = sub.add_parser(
        "compare", help="run each operator on the CPU, too: anycend compare -- python train.py",
        description="Runs a program. Each operator on the npu is computed on the CPU, too; what deviates is printed, "
        "and written to compare.csv and compare.html in the folder of the report.",
        epilog="The exit code is the program's; 3 if that is 0 and a result deviated; 1 or 2 for arguments "
        "that cannot be.",
    )  # fmt: skip
    both.add_argument(
        "-o", "--output", type=arguments.path, default=Path("compare"), help="folder of the report (default: compare)"
    )
    both.add_argument(
        "--rtol",
        action="append",
        default=[],
        metavar="TYPE=NUMBER",
        help="tolerance of a type, as float32=1e-3; may be repeated",
    )
    more = "calls with more than so many bytes (K, M, G) are counted, not compared (default: 256M)"
    both.add_argument("--limit", default="256M", metavar="BYTES", help=more)
    both.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments, behind --")
    for verb, text in (
        ("install", "lay out ascend-toolkit and nnae where documents and scripts look for CANN"),
        ("uninstall", "remove what install made"),
    ):
        one = sub.add_parser(verb, help=text)
        one.add_argument(
            "--prefix",
            type=arguments.path,
            default=install.DEFAULT,
            help=f"the folder of Ascend (default: {install.DEFAULT})",
        )
    for verb, text in (
        ("attach", "link the software NPU where the installed vendor's torch_npu looks: nothing need be set"),
        ("detach", "remove what attach linked"),
    ):
        one = sub.add_parser(verb, help=text)
        one.add_argument("--site-packages", type=arguments.path, help="of another environment; default: this one's")
    ready = sub.add_parser("preflight", help="is this host ready for training over several hosts?")
    ready.add_argument(
        "others", nargs="*", type=arguments.path, metavar="hccn.conf", help="of the other hosts, one file a host"
    )
    ready.add_argument(
        "--rule", choices=["a2", "atlas"], default="a2", help="how device addresses are spread (default: a2)"
    )
    ready.add_argument("--ranks", type=arguments.ranks, help="that will connect; default: devices of all hosts")
    ready.add_argument("--timeout", type=arguments.seconds, default=1.0, help="seconds for each pair of devices")
    shell = sub.add_parser("completion", help='for the shell, bash or zsh: eval "$(anycend completion bash)"')
    shell.add_argument("shell", choices=completion.SHELLS)
    return top


def report(findings: Iterable[Finding]) -> int:
    failed = 0
    for finding in findings:
        print(finding, flush=True)
        failed += finding.ok is False
    print(f"{failed} to repair" if failed else "ready")
    return 1 if failed else 0


def perform(options: argparse.Namespace) -> int:
    """The verb; its exit code."""
    if options.verb == "root":
        print(root())
    elif options.verb == "run":
        return run(options.command)
    elif options.verb == "compare":
        return compare.run(options.command, options.output, options.rtol, options.limit)
    elif options.verb == "preflight":
        return report(preflight.check(options.others, options.rule, options.ranks, options.timeout))
    elif options.verb == "doctor":
        return report(doctor.check(options.timeout))
    elif options.verb == "docs":
        docs.show(options.page)
    elif options.verb == "completion":
        print(completion.script(parser(), options.shell, docs.pages()), end="")
    elif options.verb == "install":
        folder, count = install.install(root(), options.prefix)
        print(f"{count} links in {folder}: source {folder}/ascend-toolkit/set_env.sh")
    elif options.verb == "uninstall":
        folder, count = install.uninstall(options.prefix)
        print(f"{count} links removed from {folder}")
    elif options.verb == "attach":
        folder, count = attach.attach(root(), options.site_packages)
        print(f"{count} links in {folder}")
    elif options.verb == "detach":
        folder, count = attach.detach(options.site_packages)
        print(f"{count} links removed from {folder}")
    else:
        parser().print_help()
    return 0


def complain(line: str) -> int:
    try:
        print(f"anycend: {line}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads it; the exit code says so
    return 1


def main(words: list[str] | None = None) -> int:
    """The exit code: the verb's own, 1 for what is refused, 128 and the signal's number for one that ended it."""
    printable = output.prepare()
    trouble: OSError | None = None
    try:
        options = parser().parse_args(words)
        if options.verb in PRINTERS and not printable:
            raise Refused(f"standard output is closed, and {options.verb} only prints: > /dev/null discards it")
        code = perform(options)
    except SystemExit:  # argparse's, of --help, --version and arguments that cannot be
        output.flush()
        raise
    except Refused as refusal:
        code = complain(str(refusal))
    except KeyboardInterrupt:
        code = output.INTERRUPTED
    except OSError as error:
        code, trouble = 1, error
    if (unwritten := output.flush() or (trouble if output.concerns(trouble) else None)) is not None:
        if isinstance(unwritten, BrokenPipeError):
            return output.BROKEN
        return complain(one_line(unwritten, place="standard output"))
    return complain(one_line(trouble)) if trouble is not None else code


if __name__ == "__main__":
    sys.exit(main())
