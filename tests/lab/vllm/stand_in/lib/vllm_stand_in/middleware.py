# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""--middleware: ASGI classes, asked whether a request may pass; what they would change in one that passes is lost."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from typing import Any


def load(names: Sequence[str]) -> list[Any]:
    """The classes by their dotted names (vllm/entrypoints/serve/middleware/register.py)."""
    parts = [name.rpartition(".") for name in names]
    return [getattr(importlib.import_module(module), name) for module, _dot, name in parts]


def refusal(classes: Sequence[Any], method: str, path: str, headers: Mapping[str, str]) -> tuple[int, bytes] | None:
    """Status and body of the first that answers by itself, the last class asked first; None when all let it pass."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
    }
    for one in reversed(classes):
        answer = asyncio.run(_answer(one, scope))
        if answer is not None:
            return answer
    return None


async def _answer(one: Any, scope: Mapping[str, Any]) -> tuple[int, bytes] | None:
    passed = False
    sent: list[Mapping[str, Any]] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        nonlocal passed
        passed = True

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    await one(app)(scope, None, send)
    return None if passed else (int(sent[0]["status"]), b"".join(message.get("body", b"") for message in sent))
