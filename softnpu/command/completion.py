"""`anycend completion bash`, or zsh: what the shell needs to complete verbs and options, made from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

# A verb whose last words are a command of the user's: it is completed as one. Where nothing is offered, bash completes
# file names by itself (-o default), which it quotes as they need.
BASH = """\
# anycend: completion for bash. Into ~/.bashrc: eval "$(anycend completion bash)"
_anycend() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD - 1]}}" verb="${{COMP_WORDS[1]}}"
  local options="" choices="" first
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    choices="{verbs}" options="--help --version"
  else
    for ((first = 2; first < COMP_CWORD; first++)); do
      if [ "${{COMP_WORDS[first]}}" = -- ]; then
        if declare -F _command_offset >/dev/null; then _command_offset $((first + 1)); return; fi
        if [ "$COMP_CWORD" -eq $((first + 1)) ]; then mapfile -t COMPREPLY < <(compgen -c -- "$word"); fi
        return
      fi
    done
    case "$verb" in
{cases}
    esac
    case "$verb $before" in
{values}
    esac
  fi
  local IFS=$' '
  case "$word" in -*) choices="$options" ;; esac
  if [ -n "$choices" ]; then compopt +o default 2>/dev/null; fi # one of these, and no file
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
}}
complete -o default -F _anycend anycend
"""
# Also a file _anycend of a folder of fpath, by its first line.
ZSH = """\
#compdef anycend
# anycend: completion for zsh. Into ~/.zshrc: eval "$(anycend completion zsh)"
_anycend() {{
  local -a verbs offered
  local closed
  local dashes=${{words[(i)--]}}
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    compadd -- --help --version
    return
  fi
  if (( dashes < CURRENT )); then
    words=("${{(@)words[dashes + 1, -1]}}")
    (( CURRENT -= dashes ))
    _normal
    return
  fi
  case "${{words[2]}}" in
{cases}
  esac
  compadd -- $offered
  [[ $PREFIX = -* || -n $closed ]] || _files
}}
if [[ $funcstack[1] = _anycend ]]; then
  _anycend "$@"
else
  (( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
  compdef _anycend anycend
fi
"""
SHELLS = ("bash", "zsh")
CLOSED = ("docs", "completion")  # they take no files


def options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def choices(parser: argparse.ArgumentParser) -> list[str]:
    return [choice for action in parser._actions if not action.option_strings for choice in action.choices or ()]


def values(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Of options, by each of their names."""
    return {name: list(one.choices) for one in parser._actions if one.choices for name in one.option_strings}


def script(parser: argparse.ArgumentParser, shell: str, pages: Iterable[str]) -> str:
    """`pages`: what `docs` takes."""
    (verbs,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    offered = {verb: (options(one), choices(one)) for verb, one in verbs.choices.items()}
    offered["docs"] = (offered["docs"][0], list(pages))
    if shell == "bash":
        cases = [
            f'      {verb}) options="{" ".join(minus)}" choices="{" ".join(plain)}" ;;'
            for verb, (minus, plain) in offered.items()
        ]
        of_options = [
            f'      "{verb} {name}") choices="{" ".join(taken)}" ;;'
            for verb, one in verbs.choices.items()
            for name, taken in values(one).items()
        ]
        return BASH.format(verbs=" ".join(verbs.choices), cases="\n".join(cases), values="\n".join(of_options))
    # The help of a verb may have both kinds of quotes; a colon would end the verb's name.
    texts = [f"    {shlex.quote(f'{one.dest}:{one.help}')}" for one in verbs._choices_actions]
    # Where there are words to choose from, no file is meant.
    cases = [
        f"    {verb}) offered=({' '.join([*minus, *plain, *sum(values(verbs.choices[verb]).values(), [])])})"
        f"{' closed=1' if verb in CLOSED else ''} ;;"
        for verb, (minus, plain) in offered.items()
    ]
    return ZSH.format(verbs="\n".join(texts), cases="\n".join(cases))
