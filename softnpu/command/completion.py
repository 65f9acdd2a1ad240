"""`anycend completion bash`, or zsh: what the shell needs to complete verbs and options, made from the parser."""

from __future__ import annotations

import argparse
import shlex

# A verb whose last words are a command of the user's: it is completed as one.
BASH = """\
# anycend: completion for bash. Into ~/.bashrc: eval "$(anycend completion bash)"
_anycend() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" words="" first
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{verbs}"
  else
    for ((first = 2; first < COMP_CWORD; first++)); do
      if [ "${{COMP_WORDS[first]}}" = -- ]; then
        if declare -F _command_offset >/dev/null; then _command_offset $((first + 1)); return; fi
        COMPREPLY=($(compgen -c -- "$word"))
        return
      fi
    done
    case "$verb" in
{cases}
    esac
    case "$word" in -*) ;; *) COMPREPLY=($(compgen -W "$words" -f -- "$word")); return ;; esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o filenames -F _anycend anycend
"""
# Also a file _anycend of a folder of fpath, by its first line.
ZSH = """\
#compdef anycend
# anycend: completion for zsh. Into ~/.zshrc: eval "$(anycend completion zsh)"
_anycend() {{
  local -a verbs offered
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
  [[ $PREFIX = -* ]] || _files
}}
if [[ $funcstack[1] = _anycend ]]; then
  _anycend "$@"
else
  (( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
  compdef _anycend anycend
fi
"""
SHELLS = ("bash", "zsh")


def words(parser: argparse.ArgumentParser) -> list[str]:
    """Options and the choices of arguments."""
    found = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    return found + [str(choice) for action in parser._actions for choice in action.choices or ()]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    (verbs,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    offered = {verb: " ".join(words(one)) for verb, one in verbs.choices.items()}
    if shell == "bash":
        cases = [f'      {verb}) words="{names}" ;;' for verb, names in offered.items()]
        return BASH.format(verbs=" ".join([*verbs.choices, "--help", "--version"]), cases="\n".join(cases))
    # The help of a verb may have both kinds of quotes; a colon would end the verb's name.
    texts = [f"    {shlex.quote(f'{one.dest}:{one.help}')}" for one in verbs._choices_actions]
    cases = [f"    {verb}) offered=({names}) ;;" for verb, names in offered.items()]
    return ZSH.format(verbs="\n".join(texts), cases="\n".join(cases))
