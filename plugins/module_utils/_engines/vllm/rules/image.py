# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the image: its entrypoint, its build, what is installed in it."""

import re

from ...._base.place import argv
from ..catalogue.releases import classes_of
from ..text.image_facts import moving_tag
from ._base import Hit, Hits, rule, show
from .launch import Launch

_MOVING = moving_tag()


def _shell(launch: Launch) -> bool:
    return bool(launch.words.script) or launch.entrypoint is not None


@rule("R001")
def serve_twice(launch: Launch) -> Hits:
    """`vllm` in the command of an upstream image, whose entrypoint is `vllm serve`."""
    starts = launch.argv[:1] == ("vllm",) and not launch.before("0.11.1")
    if launch.family == "upstream" and not _shell(launch) and starts:
        yield Hit(argv(), " ".join(launch.argv[:2]))


@rule("R002")
def serve_missing(launch: Launch) -> Hits:
    """An NGC image whose command doesn't begin with a program."""
    if launch.family == "ngc" and not _shell(launch) and launch.words.form == "bare" and launch.argv:
        yield Hit(argv(), show(launch.argv[0]))


@rule("R003")
def serve_lost(launch: Launch) -> Hits:
    """An upstream image with a shell as entrypoint and no `vllm serve` in its text."""
    starts = launch.words.form in ("serve", "module") or "vllm" in (launch.entrypoint or "")
    if launch.family == "upstream" and _shell(launch) and not starts:
        yield Hit("entrypoint", show(launch.entrypoint or "a shell"))


@rule("R005", moving=_MOVING)
def unpinned_tag(launch: Launch) -> Hits:
    """A tag such as nightly or latest without a digest."""
    if launch.image and launch.image.moving and not launch.image.digest:
        yield Hit("image", launch.image.reference)


@rule("R009")
def unknown_architecture(launch: Launch) -> Hits:
    """A model whose architecture the release doesn't have."""
    known = launch.release.registries.get("architecture", ()) if launch.release else ()
    name = launch.model.architecture
    overridden = launch.has("--hf-overrides") or launch.has("--model-impl") or launch.has("--model-class-overrides")
    own_code = launch.has("--trust-remote-code") and "auto_map" in launch.model.config.values
    served = not name or any(class_name in known for class_name in classes_of(name))
    if known and not served and not overridden and not own_code and launch.family in (None, "upstream", "ngc"):
        yield Hit("model", str(name))


@rule("R010")
def old_driver(launch: Launch) -> Hits:
    """A host driver older than the image asks for, with the entrypoint replaced."""
    needed = launch.image.driver if launch.image else None
    if needed and launch.host.driver and _shell(launch) and _numbers(launch.host.driver) < _numbers(needed):
        yield Hit("host", f"driver {launch.host.driver}", expected=f"{needed} or later")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


@rule("R021")
def ngc_2511_tokenizer(launch: Launch) -> Hits:
    """NGC 25.11 with a Qwen tokenizer and no patched vllm."""
    qwen = (launch.model.tokenizer_class or "").startswith("Qwen2") or launch.model.is_("(Qwen|QuantTrio)/Qwen.*")
    if _is_2511(launch) and qwen and launch.mounted("dist-packages/vllm") is False:
        yield Hit("mounts", "no mount over dist-packages/vllm")


def _is_2511(launch: Launch) -> bool:
    return launch.image is not None and launch.image.is_("nvcr.io/nvidia/vllm:25.11-py3")


@rule("R022")
def ngc_2511_conv3d(launch: Launch) -> Hits:
    """NGC 25.11 with a vision model and no sitecustomize.py."""
    if _is_2511(launch) and launch.model.vision and launch.mounted("sitecustomize") is False:
        yield Hit("mounts", "no sitecustomize.py")


@rule("R024")
def root_downloads(launch: Launch) -> Hits:
    """A download into a mounted cache by a container that runs as root."""
    if launch.container is None or launch.mounts is None or launch.model.cached is not False:
        return
    home = launch.env.get("HF_HOME", "/root/.cache/huggingface")
    writable = any(home.startswith(mount.target) and not mount.read_only for mount in launch.mounts)
    if writable and "user" not in launch.container:
        yield Hit("container", "runs as root")
