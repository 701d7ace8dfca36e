# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names file and line of a YAML mistake beside the inventory; Ansible 2.19 itself ends with the mistake alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible import context
from ansible.errors import AnsibleError, ExitCode
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.callback import CallbackBase
from ansible.utils.display import Display

_SUFFIXES = {"", *C.YAML_FILENAME_EXTENSIONS}


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gb10_inventory_mistakes"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        for file in _variable_files(context.CLIARGS.get("inventory") or ()):
            try:
                DataLoader().load_from_file(str(file), cache="none")
            except AnsibleError as mistake:
                Display().error(mistake)
                raise SystemExit(int(ExitCode.PARSER_ERROR)) from mistake


def _variable_files(sources: Any) -> Iterator[Path]:
    """What Ansible reads of host_vars and group_vars beside each inventory; not what is encrypted."""
    paths = [Path(source) for source in sources if "," not in source]
    for folder in {path if path.is_dir() else path.parent for path in paths}:
        for file in sorted([*folder.glob("group_vars/**/*"), *folder.glob("host_vars/**/*")]):
            is_read = file.is_file() and file.suffix in _SUFFIXES and not file.name.startswith(".")
            if is_read and os.access(file, os.R_OK) and not file.read_bytes().startswith(b"$ANSIBLE_VAULT"):
                yield file
