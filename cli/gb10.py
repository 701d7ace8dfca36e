# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of gb10.fleet by short names: it prints the line of ansible-playbook that it runs, and runs it."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

VERBS = {
    "init": "find your Sparks, and write an inventory of them: gb10 init [HOST ...]",
    "try": "have a model answer, with no inventory: gb10 try [HOST ...] [-e model=NAME]",
    "plan": "what would run, does it fit, and why",
    "up": "bring the hosts to what is declared, and prove it",
    "ask": "ask a service: gb10 ask 'What is a DGX Spark?'",
    "status": "how each service does",
    "drift": "what is not as declared",
    "doctor": "what of the machines is in the way",
    "remove": "put hosts back as they were",
}
_PLAYBOOKS = {"up": "site"}
_NEEDED = (2, 19)
# They make an inventory, and read none.
_MAKERS = ("init", "try")
# Where init and try keep what they write, the one to keep first.
_FOLDERS = ("mine", "fleet-try")
# What keeps a screen short. Typed without gb10, the same line shows all of Ansible's own.
_SCREEN = {"ANSIBLE_STDOUT_CALLBACK": "gb10.fleet.brief", "ANSIBLE_LOCALHOST_WARNING": "0"}
# A Mac ends a process that has forked and then uses its own libraries (ansible-core's FAQ).
_MAC = {"OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"}
_USAGE = "gb10 VERB [words of ansible-playbook]"


class CannotError(Exception):
    """Why a command can't be run, with what to do: one sentence."""


def line(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The words of ansible-playbook for those of `gb10`."""
    verb, *rest = words
    if verb not in VERBS:
        raise CannotError(f"gb10 knows no {verb!a}; its verbs are {', '.join(VERBS)}; all else is ansible-playbook's")
    rest, extra = _own_words(verb, rest)
    return [*_inventory(verb, rest, folder, environment), f"gb10.fleet.{_PLAYBOOKS.get(verb, verb)}", *extra, *rest]


def _own_words(verb: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """``(what Ansible takes as it is, what our plain words become)``: hosts, or a question; they come first."""
    count = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    plain, rest = list(words[:count]), list(words[count:])
    if plain and verb in _MAKERS:
        return rest, ["-e", f"host={','.join(plain)}"]
    if plain and verb == "ask":
        return rest, ["-e", "question=" + shlex.quote(" ".join(plain))]
    if plain:
        raise CannotError(f"gb10 {verb} takes no {plain[0]!a}; hosts of a run are -l HOST, options -e NAME=VALUE")
    return rest, []


def _inventory(verb: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    if any(word.startswith(("-i", "--inventory")) for word in words):
        return []
    if verb in _MAKERS:
        return ["-i", "localhost,"]
    found = next((name for name in _FOLDERS if (folder / name / "hosts.yml").is_file()), None)
    if found:
        return ["-i", found]
    if environment.get("ANSIBLE_INVENTORY") or environment.get("ANSIBLE_CONFIG") or (folder / "ansible.cfg").is_file():
        return []
    raise CannotError(f"no inventory is here: gb10 init writes one into ./{_FOLDERS[0]}; or name yours: -i FOLDER")


def check(version: str, has_collection: bool) -> None:
    """CannotError for an ansible-core that is too old or missing, and without the collection."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < _NEEDED:
        what = f"this is ansible-core {version}" if version else "ansible-core is not here"
        raise CannotError(f"{what}; gb10 needs 2.19 or newer: pipx upgrade --include-injected gb10-fleet brings it")
    if not has_collection:
        where = "git+https://github.com/gb10-fleet/gb10.fleet"
        raise CannotError(f"the collection gb10.fleet is not here: ansible-galaxy collection install {where} brings it")


def collection() -> Path | None:
    """Where Ansible finds it: beside this program, as pipx installs both, or where ansible-galaxy puts it."""
    paths = os.environ.get("ANSIBLE_COLLECTIONS_PATH", "~/.ansible/collections:/usr/share/ansible/collections")
    roots = [*(Path(one).expanduser() for one in paths.split(":")), *map(Path, sys.path)]
    found = (root / "ansible_collections/gb10/fleet" for root in roots)
    return next((path for path in found if (path / "meta/runtime.yml").is_file()), None)


def _ansible_version() -> str:
    if importlib.util.find_spec("ansible") is None:
        return ""
    from ansible.release import __version__  # noqa: PLC0415 - it may not be here

    return str(__version__)


# Completion -------------------------------------------------------------------------------------------------------

_COMPLETION = """\
_gb10() {
    local words="$(gb10 --words "${COMP_WORDS[@]:1:COMP_CWORD-1}")"
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
[ -z "${ZSH_VERSION-}" ] || { autoload -Uz compinit bashcompinit && compinit && bashcompinit; }
complete -F _gb10 gb10"""


def offered(before: Sequence[str], folder: Path, recipes: Path | None) -> Iterator[str]:
    """The words that may follow: verbs, hosts of the inventory and of ssh, services, recipes."""
    if not before:
        yield from VERBS
    elif before[-1] in ("-l", "--limit") or before[-1] in _MAKERS:
        yield from _hosts(folder)
    elif before[-1].startswith("model") or (before[0] == "try" and before[-1] in ("-e", "=")):
        prefix = "" if before[-1] == "=" or before[-1].startswith("model") else "model="
        yield from (f"{prefix}{path.stem}" for path in (sorted(recipes.glob("*.yml")) if recipes else ()))
    elif before[-1].startswith("service") or before[-1] in ("-e", "="):
        prefix = "" if before[-1] != "-e" else "service="
        yield from (f"{prefix}{name}" for name in _services(folder))


def _hosts(folder: Path) -> Iterator[str]:
    for name in _FOLDERS:
        yield from re.findall(r"^    ([\w.-]+): \{", _text(folder / name / "hosts.yml"), re.MULTILINE)
    for names in re.findall(r"^\s*Host +(.+)$", _text(Path("~/.ssh/config").expanduser()), re.MULTILINE):
        yield from (name for name in names.split() if not {*name} & {*"*?!"})


def _services(folder: Path) -> Iterator[str]:
    for name in _FOLDERS:
        _, _, below = _text(folder / name / "group_vars/all/fleet.yml").partition("fleet_services:\n")
        yield from re.findall(r"^  ([\w.-]+):", re.split(r"(?m)^\S", below, maxsplit=1)[0], re.MULTILINE)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _help() -> str:
    rows = (f"  {verb:8}{what}" for verb, what in VERBS.items())
    return "\n".join([_USAGE, "", *rows, "", 'completion for bash and zsh: eval "$(gb10 --completion)"'])


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else [*words]
    if hasattr(signal, "SIGPIPE"):  # a reader that ends first, as head does
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if words[:1] == ["--completion"]:
        print(_COMPLETION)
    elif words[:1] == ["--words"]:
        found = collection()
        print("\n".join(offered(words[1:], Path.cwd(), found / "recipes" if found else None)))
    elif not words or words[0] in ("-h", "--help", "help"):
        print(_help())
    else:
        return _run(words)
    return 0


def screen() -> dict[str, str]:
    """The variables with which Ansible writes a short screen."""
    return _SCREEN | (_MAC if sys.platform == "darwin" else {})


def _run(words: Sequence[str]) -> int:
    try:
        typed = line(words, Path.cwd(), os.environ)
        check(_ansible_version(), collection() is not None)
    except CannotError as problem:
        print(problem, file=sys.stderr)
        return 5
    print(f"$ {shlex.join(['ansible-playbook', *typed])}", flush=True)
    command = [sys.executable, "-m", "ansible", "playbook", *typed]
    environment = {**screen(), **os.environ}
    if sys.platform == "win32":
        print("gb10 needs Linux, macOS or WSL: Ansible has no controller on Windows", file=sys.stderr)
        return 5
    try:
        os.execve(sys.executable, command, environment)
    except OSError as problem:
        print(f"{sys.executable}: {problem.strerror}; install gb10 anew: pipx reinstall gb10-fleet", file=sys.stderr)
        return 5


if __name__ == "__main__":
    sys.exit(main())
