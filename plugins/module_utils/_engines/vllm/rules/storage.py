# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on storage, caches and start-up."""

from ...._base.gb10 import fact
from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch

_OFFLINE = "env HF_HUB_OFFLINE"
_READ_AHEAD_KIB: int = fact("host_tuning", "read_ahead_kb")


def _offline(launch: Launch) -> bool:
    return launch.env.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


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


@rule("R128")
def download_at_start(launch: Launch) -> Hits:
    """A model of the hub that isn't on the host."""
    if launch.model.cached is False and not _model_path(launch) and not _offline(launch):
        yield Hit("model", "not on the host")


@rule("R129")
def offline(launch: Launch) -> Hits:
    """Offline without the model, or online though it is there."""
    if _offline(launch) and launch.model.cached is False:
        yield Hit(_OFFLINE, "1, and the model isn't on the host")
    elif launch.model.cached and not _offline(launch):
        remedy = 'set HF_HUB_OFFLINE: "1": no network is asked at the start'
        yield Hit(_OFFLINE, "not set", severity="hint", remedy=remedy)


@rule("R130")
def no_names(launch: Launch) -> Hits:
    """A host that can't resolve the hub's name."""
    if launch.host.resolves_hub is False and not _offline(launch):
        yield Hit(_OFFLINE, "not set")


@rule("R131")
def no_compile_cache(launch: Launch) -> Hits:
    """No mount for vLLM's compile cache."""
    cache = launch.env.get("VLLM_CACHE_ROOT", "/root/.cache/vllm")
    runs = launch.serves and not launch.switch("--enforce-eager")
    if runs and launch.mounts is not None and not any(cache.startswith(mount.target) for mount in launch.mounts):
        yield Hit("mounts", f"nothing at {cache}")


@rule("R133")
def short_limit(launch: Launch) -> Hits:
    """A readiness limit below 20 minutes with cold caches."""
    limit = launch.service.ready_timeout_s
    cold = launch.model.cached is False or launch.host.compile_cache is False
    if limit is not None and limit < 1200 and cold:
        yield Hit("service", f"{limit} s")


@rule("R134")
def cache_on_overlay(launch: Launch) -> Hits:
    """Models on an overlay file system."""
    if launch.host.cache_filesystem == "overlay":
        yield Hit("host", "overlay")


@rule("R135", read_ahead=_READ_AHEAD_KIB)
def read_ahead(launch: Launch) -> Hits:
    """A small read-ahead of the NVMe."""
    if launch.host.read_ahead_kib is not None and launch.host.read_ahead_kib < _READ_AHEAD_KIB:
        yield Hit("host read_ahead_kib", str(launch.host.read_ahead_kib))


@rule("R137")
def new_key_each_time(launch: Launch) -> Hits:
    """An API key that the command line makes anew."""
    key = launch.env.get("VLLM_API_KEY", "")
    if "$(" in key or "`" in key:
        yield Hit(env("VLLM_API_KEY"), "made by a command")


@rule("R138")
def endless_restart(launch: Launch) -> Hits:
    """A restart policy without an end."""
    policy = (launch.container or {}).get("restart", ("",))[-1]
    if policy in ("unless-stopped", "always"):
        yield Hit("container --restart", policy)


@rule("R157")
def config_in_one_word(launch: Launch) -> Hits:
    """A configuration file that vLLM doesn't read, since --config isn't a word of its own."""
    for word in launch.words.words:
        if word.startswith("--config="):
            yield Hit(argv("--config"), show(word), remedy=f"write --config {word.partition('=')[2]}")
