# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on storage, caches and start-up."""

from ...._base.place import argv
from ._base import Hit, Hits, rule, show
from .launch import Launch


def _model_path(launch: Launch) -> str:
    """The model's path in the container; empty for a repository of the hub."""
    model = launch.command.model or ""
    return model if model.startswith("/") else ""


@rule("R127")
def no_model_mount(launch: Launch) -> Hits:
    """No mount where the model's files are."""
    home = launch.env.get("HF_HOME", "/root/.cache/huggingface")
    path = _model_path(launch) or home
    if (
        launch.serves
        and launch.command.model
        and launch.mounts is not None
        and not any(path.startswith(mount.target) for mount in launch.mounts)
    ):
        yield Hit("mounts", f"nothing at {path}")


@rule("R131")
def no_compile_cache(launch: Launch) -> Hits:
    """No mount for vLLM's compile cache."""
    cache = launch.env.get("VLLM_CACHE_ROOT", "/root/.cache/vllm")
    runs = launch.serves and not launch.switch("--enforce-eager")
    if runs and launch.mounts is not None and not any(cache.startswith(mount.target) for mount in launch.mounts):
        yield Hit("mounts", f"nothing at {cache}")


@rule("R157")
def config_in_one_word(launch: Launch) -> Hits:
    """A configuration file that vLLM doesn't read, since --config isn't a word of its own."""
    for word in launch.words.words:
        if word.startswith("--config="):
            yield Hit(argv("--config"), show(word), remedy=f"write --config {word.partition('=')[2]}")
