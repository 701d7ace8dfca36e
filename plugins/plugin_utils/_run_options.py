# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides whether a playbook may run with `--tags`, `--skip-tags` or `--start-at-task`."""

import difflib
from collections.abc import Collection, Iterable

# Ansible's own words for many tasks at once; the tag `always` has what every other task needs.
_WHOLE = "all"
_AS_A_WHOLE = "runs as a whole, and has no part to choose; type the command without it"
_OF_ANSIBLE = (_WHOLE, "always", "never", "tagged", "untagged")


def refusal(
    playbook: str, parts: Collection[str], tags: Iterable[str], skipped: Iterable[str], start_at: str | None
) -> str:
    """One sentence that says what to type instead; empty where the run may begin.

    parts: the tags that name a part of the playbook; its tasks without a tag run in a whole run alone. start_at: the
    name of a task.
    """
    if start_at is not None:
        instead = ", or choose a part of it by --tags" if parts else ""
        return (
            f"--start-at-task: {playbook} can't begin at a later task, since each task needs what the first plays "
            f"read; type the command without it{instead}: what is done already changes nothing"
        )
    known = f"expected of {', '.join(sorted(parts))}" if parts else ""
    for word in sorted({*tags} - {_WHOLE, *parts}):
        found = f"has no part {word}; {known}{_near(word, parts)}" if parts else _AS_A_WHOLE
        return f"--tags: {playbook} {found}"
    for word in sorted({*skipped} - {*parts}):
        if word in _OF_ANSIBLE or _near(word, parts):
            found = f"can't leave out {word}; {known}{_near(word, parts)}" if parts else _AS_A_WHOLE
            return f"--skip-tags: {playbook} {found}"
    return ""


def _near(word: str, parts: Collection[str]) -> str:
    """A misspelt part; no other word: molecule, for instance, skips tags of its own in every run."""
    close = difflib.get_close_matches(word, parts, n=1, cutoff=0.8)
    return f'; write "{close[0]}"' if close and word not in _OF_ANSIBLE else ""
