# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses an ansible-core that is too old, which itself only warns; by nothing that an old one lacks."""

from __future__ import annotations

from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.release import __version__
from ansible.utils.display import Display

NEEDED = (2, 19)
_STATUS = 5  # as Ansible ends for options that can't be


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gb10_ansible_version"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        if sentence := too_old(__version__):
            Display().display(sentence, stderr=True)
            raise SystemExit(_STATUS)


def too_old(version: str) -> str:
    """What to do about an ansible-core of this version; empty where it is new enough."""
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
    if len(numbers) < len(NEEDED) or numbers >= NEEDED:
        return ""
    return (
        f"this is ansible-core {version}; gb10.fleet needs 2.19 or newer: pipx install ansible-core brings it (sudo "
        "apt install pipx first), or put uvx --from ansible-core in front of the same command"
    )
