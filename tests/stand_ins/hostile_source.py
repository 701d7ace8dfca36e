# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A git repository of recipes whose owner means harm: whatever would run leaves a mark in its folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(folder)}
    own |= {f"GIT_{who}_{what}": f"x@{who}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, input=given, env=os.environ | own, capture_output=True, check=True)
    return done.stdout.decode(errors="replace").strip()


def recipe(model: str, **more: Any) -> bytes:
    """A recipe in eugr's form."""
    command = f"vllm serve {model} --max-model-len 4096"
    return yaml.safe_dump(
        {"container": "vllm/vllm-openai:v0.32.0", "model": model, "command": command, **more}
    ).encode()


def repository(folder: Path, files: dict[str, bytes]) -> str:
    """A repository with one commit of these files; the commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    return commit(folder, files)


def commit(folder: Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(folder, "add", "-A", "-f")
    git(folder, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "recipes")
    return git(folder, "rev-parse", "HEAD")


def hostile(folder: Path, mark: Path) -> str:
    """Beside one honest recipe: links, submodules, filters, hooks, programs in git's settings, paths that lead out,
    large files, tags of YAML, aliases without end, and names and texts that a terminal obeys."""
    run = f"touch {mark}"
    aliases = "a0: &a0 [x, x]\n" + "".join(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]\n" for at in range(1, 40))
    texts = {
        "honest.yaml": recipe("lab/tiny-plain", description="fine \x1b[2J\x07 \u202e text"),
        "tags.yaml": f'!!python/object/apply:os.system ["{run}"]\n'.encode(),
        "aliases.yaml": aliases.encode(),
        "deep.yaml": b"[" * 5000,
        "huge.yaml": b"#" * (1 << 20),
        "binary.yaml": b"\xff\xfe\x00",
        "pointer.yaml": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n",
        "shell.yaml": recipe("lab/tiny-plain", command=f"vllm serve x/y; {run}"),
        "name\x1b[2J.yaml": recipe("lab/tiny-plain"),
        ".gitattributes": b"*.yaml filter=evil diff=evil\n",
        ".gitmodules": f'[submodule "sub.yaml"]\n path = sub.yaml\n url = ext::sh -c {run}\n'.encode(),
    }
    repository(folder, texts)
    (folder / "link.yaml").symlink_to("/etc/passwd")
    git(folder, "add", "link.yaml")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub.yaml")
    blob = git(folder, "hash-object", "-w", "--stdin", given=recipe("lab/outside"))
    inner = git(folder, "mktree", given=f"100644 blob {blob}\toutside.yaml\n".encode())
    raw = b"40000 ..\0" + bytes.fromhex(inner)
    bad = git(folder, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", given=raw)
    rows = (
        git(folder, "ls-tree", "-z", git(folder, "write-tree")).encode() + b"\0" + f"040000 tree {bad}\tbad\0".encode()
    )
    tree = git(folder, "mktree", "-z", "--missing", given=rows.replace(b"\0\0", b"\0"))
    made = git(folder, "commit-tree", "-m", "harm", tree)
    git(folder, "update-ref", "HEAD", made)
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-merge", "post-index-change"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{run}\n")
        hook.chmod(0o755)
    programs = "core.fsmonitor core.sshCommand core.pager core.askPass core.alternateRefsCommand diff.external"
    programs += " filter.evil.smudge filter.evil.process credential.helper uploadpack.packObjectsHook"
    for key in programs.split():
        git(folder, "config", key, run)
    return made
