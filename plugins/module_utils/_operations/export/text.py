# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an export: a service's objects as YAML, below what a person does before; and which of them change."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from .service import Carried, Secret

# The first line of each file, by which a later run knows it for its own.
MARK = "# Made by gb10.fleet.export: changes are overwritten."


def as_text(carried: Carried) -> str:
    """One service's file: its objects as YAML documents, and in comments what is to be done and known before."""
    before = "".join(f"{line}\n" for line in [MARK, *_before(carried)])
    return before + "".join(f"---\n{_yaml(document)}" for document in carried.documents)


def _before(carried: Carried) -> Iterator[str]:
    if carried.secrets:
        yield "#"
        yield "# Make once, where the keys are (a file that ansible-vault encrypted: by ansible-vault view):"
        yield from (f"#   {command}" for secret in carried.secrets for command in [create(secret)])
    for finding in carried.findings:
        yield "#"
        yield f"# {finding.severity}: {finding.sentence()}"


def create(secret: Secret) -> str:
    """The command that makes a Secret, with no secret in its words."""
    made = f"kubectl create secret generic {secret.name}"
    (first, (source, form)) = next(iter(secret.files.items()))
    before, inserted, after = form.rstrip("\n").partition("%s")
    if inserted:  # the key as JSON, within other words
        words = shlex.quote(f's/.*/{before}"&"{after}/')
        return f"sed {words} {shlex.quote(source)} | {made} --from-file={first}=/dev/stdin"
    files = (f"--from-file={key}={shlex.quote(source)}" for key, (source, _form) in secret.files.items())
    return " ".join([made, *files])


def _yaml(document: Mapping[str, object]) -> str:
    """As a person writes it: in the objects' order, texts of several lines as they are, no line folded."""
    import yaml  # noqa: PLC0415 - the controller has it by Ansible; `_base.yaml_text`

    class Dumper(yaml.SafeDumper):
        def represent_text(self, text: str) -> Any:
            return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

        def ignore_aliases(self, _data: object) -> bool:
            return True

    Dumper.add_representer(str, Dumper.represent_text)
    plain = json.loads(json.dumps(document))  # values of a plan that went through Ansible are kinds of str of its own
    return str(yaml.dump(plain, Dumper=Dumper, sort_keys=False, width=math.inf, allow_unicode=True))


@dataclass(frozen=True)
class Changes:
    """Files by name. write: with their new text. remove: ours that no service has any more."""

    write: Mapping[str, str]
    remove: Sequence[str]


def changes(wanted: Mapping[str, str], there: Mapping[str, str], folder: str, *, whole: bool) -> Changes:
    """What of a folder differs. there: the texts of its files. whole: wanted is all that the plan has, so that what
    else is ours goes.

    Raises FleetError for a file of somebody else's in the place of one of ours.
    """
    for name in wanted:
        if name in there and not there[name].startswith(MARK):
            raise worded.refusal("export-file-foreign", f"{folder}/{name}", mark=MARK)
    write = {name: text for name, text in wanted.items() if there.get(name) != text}
    ours = [name for name, text in there.items() if text.startswith(MARK)]
    return Changes(write, [name for name in sorted(ours) if whole and name not in wanted])
