# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets taken out of text that is kept or shown, however they are spelt there."""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Sequence


def spellings(secret: str) -> list[str]:
    """A secret as programs write it into their logs: as it is, escaped for JSON, Python, a URL or HTML, and twice so,
    or by its end alone, as llama.cpp does. The longest first, so that nothing of one is left by another."""
    once = {secret, base64.b64encode(secret.encode()).decode()} | _escaped(secret)
    # llama-server's common_params_print_info, api_keys
    by_end = {f"****{secret[-4:]}"} if len(secret) > 4 else set()
    return sorted(once.union(by_end, *map(_escaped, once)) - {""}, key=lambda spelling: (-len(spelling), spelling))


def _escaped(text: str) -> set[str]:
    quoted = {urllib.parse.quote(text, safe=safe) for safe in ("", "/", "/~:+=")} | {urllib.parse.quote_plus(text)}
    lower = {re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), form) for form in quoted}
    python = {repr(text)[1:-1], ascii(text)[1:-1], repr(text.encode())[2:-1]}
    return (
        quoted
        | lower
        | python
        | {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], html.escape(text)}
    )


def redacted(text: str, spelt: Sequence[str]) -> str:
    """spelt: what `spellings` gives."""
    for spelling in spelt:
        text = text.replace(spelling, "***")
    return text
