"""`anycend completion bash`: what the shell needs to complete verbs and options, made from the parser itself."""

from __future__ import annotations

import argparse

# A verb whose last words are a command of the user's: it is completed as one.
SCRIPT = """\
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


def words(parser: argparse.ArgumentParser) -> list[str]:
    """Options and the choices of arguments."""
    found = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    return found + [str(choice) for action in parser._actions for choice in action.choices or ()]


def script(parser: argparse.ArgumentParser) -> str:
    (verbs,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    cases = [f'      {verb}) words="{" ".join(words(one))}" ;;' for verb, one in verbs.choices.items()]
    return SCRIPT.format(verbs=" ".join([*verbs.choices, "--help", "--version"]), cases="\n".join(cases))
