# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the model's configuration: context, parallel size, modalities."""

from collections.abc import Mapping

from ...._base.place import argv, env
from ._base import Hit, Hits, rule, show
from .launch import Launch

_LENGTH = argv("--max-model-len")
_GEMMA_MOE = r".*/gemma-4-26b-a4b.*nvfp4.*"


def _too_long(launch: Launch) -> bool:
    length = launch.number("--max-model-len")
    return bool(launch.model.native_length and length and length > launch.model.native_length)


def _rope(launch: Launch) -> str:
    """The rope override as text; empty without one."""
    overrides = str(launch.command.json("--hf-overrides"))
    return overrides if "rope" in overrides else ""


def _scaled_length(launch: Launch) -> float:
    """The length that a YaRN override comes to (vllm/config/model.py, _get_and_verify_max_len); 0 without one."""
    overrides = launch.command.json("--hf-overrides")
    for part in (overrides, overrides.get("text_config")):
        for key in ("rope_parameters", "rope_scaling"):
            rope = part.get(key) if isinstance(part, Mapping) else None
            if isinstance(rope, Mapping) and "yarn" in (rope.get("rope_type"), rope.get("type")):
                factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
                if isinstance(factor, int | float) and isinstance(original, int | float):
                    return factor * original
    return 0


@rule(
    "R112",
    "error",
    lasts="vllm",
    covers=("kv-length",),
    expected="VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
    remedy='set VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1", or stay within what the model was trained for',
    reason="vLLM refuses a context longer than the configuration allows",
    source="Spark guide, sections 7.3.1 and 8",
)
def longer_than_allowed(launch: Launch) -> Hits:
    """A context beyond the model's own without the variable that allows it."""
    length = launch.number("--max-model-len") or 0
    allowed = launch.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1" or length <= _scaled_length(launch)
    if _too_long(launch) and not allowed:
        yield Hit(_LENGTH, f"{launch.number('--max-model-len'):.0f}", expected=f"at most {launch.model.native_length}")


@rule(
    "R113",
    "error",
    lasts="checkpoint",
    covers=("R112", "kv-length"),
    expected="a rope override in --hf-overrides",
    remedy="add the YaRN block of the model's card, or stay within what the model was trained for",
    reason="beyond its trained positions a model answers garbage",
    source="Spark guide, section 8",
)
def longer_than_trained(launch: Launch) -> Hits:
    """A context beyond what the model was trained for without a rope override."""
    mamba = launch.model.ssm  # Nemotron-3 was trained for 1M tokens; its configuration says 256K
    if _too_long(launch) and not _rope(launch) and not mamba:
        yield Hit(_LENGTH, f"{launch.number('--max-model-len'):.0f}", expected=f"at most {launch.model.native_length}")


@rule(
    "R114",
    "warning",
    lasts="checkpoint",
    expected="the native context, unless you need more",
    remedy="drop the override for short prompts",
    reason="static YaRN costs quality on short prompts, and 1M tokens of prefill take minutes on GB10",
    source="Spark guide, section 8",
)
def yarn(launch: Launch) -> Hits:
    """YaRN in --hf-overrides."""
    if "yarn" in _rope(launch):
        yield Hit(argv("--hf-overrides"), "yarn")


@rule(
    "R115",
    "error",
    lasts="checkpoint",
    expected="rope_theta: 10000000 in text_config",
    remedy='merge it into config.json, or write --hf-overrides \'{"text_config": {"rope_theta": 10000000}}\'',
    reason="the checkpoint's configuration lacks it, and the default of 10000 is wrong",
    source="cluster owner's notes, Qwen3.5-122B-A10B-FP8",
)
def rope_theta_missing(launch: Launch) -> Hits:
    """Qwen3.5 FP8 whose configuration lacks rope_theta."""
    text = launch.model.config.text
    parameters = text.get("rope_parameters")
    known = "rope_theta" in text or (isinstance(parameters, dict) and "rope_theta" in parameters)
    concerned = launch.model.is_(r"Qwen/Qwen3\.5-(122B-A10B|35B-A3B)-FP8")
    if concerned and text and not known and "rope_theta" not in _rope(launch):
        yield Hit("model", "no rope_theta in config.json")


@rule(
    "R116",
    "hint",
    lasts="checkpoint",
    needs=("service.reasoning",),
    expected="""--default-chat-template-kwargs '{"enable_thinking": true}' (0.14.0 on)""",
    remedy="add it, or let clients ask for it",
    reason="Gemma 4 doesn't think unless it is asked to",
    source="Spark guide, section 7.2.2",
)
def gemma4_thinking(launch: Launch) -> Hits:
    """Gemma 4 for reasoning without thinking switched on."""
    on = launch.command.json("--default-chat-template-kwargs").get("enable_thinking")
    if launch.model.family == "gemma4" and launch.service.reasoning and on is not True:
        yield Hit(argv("--default-chat-template-kwargs"), show(launch.text("--default-chat-template-kwargs")))


@rule(
    "R117",
    "warning",
    lasts="image",
    expected="a newer image",
    remedy="read reasoning from content too, or take v0.20.0 and later",
    reason="on this image reasoning may land in content instead of reasoning_content (#38855)",
    source="Spark guide, section 7.2.2",
)
def gemma4_reasoning_field(launch: Launch) -> Hits:
    """The reasoning parser gemma4 in the image gemma4-cu130."""
    image = launch.image
    if image and image.is_("vllm/vllm-openai:gemma4-cu130") and launch.text("--reasoning-parser") == "gemma4":
        yield Hit(argv("--reasoning-parser"), "gemma4")


@rule(
    "R118",
    "error",
    lasts="machine",
    expected="as many ranks as GPUs, or a group of hosts",
    remedy="write --tensor-parallel-size 1, or place the service on several hosts",
    reason="World size is larger than the number of available GPUs (X3, from 0.11.1 on)",
    source="Spark guide, section 7.2.1; vllm/config/parallel.py",
)
def more_ranks_than_gpus(launch: Launch) -> Hits:
    """More ranks than GPUs, and no group."""
    if launch.world_size > launch.host.gpus and not launch.spread and launch.executor != "ray":
        yield Hit(argv("--tensor-parallel-size"), f"{launch.world_size} ranks, {launch.host.gpus} GPU")


@rule(
    "R119",
    "error",
    lasts="checkpoint",
    expected="one host, or whole experts on each: --enable-expert-parallel",
    remedy="place it on one host, or write enable-expert-parallel: true",
    reason="the checkpoint's expert scales can't be split; by pipeline stages it does not load",
    source="Spark guide, section 7.2.2; vllm-project/vllm issue 42516 (2026-05-13)",
)
def gemma4_moe_is_solo(launch: Launch) -> Hits:
    """Gemma-4-26B-A4B NVFP4 with tensor parallelism, or by pipeline stages."""
    if not launch.model.is_(_GEMMA_MOE):
        return
    tensor, stages = (launch.number(f"--{way}-parallel-size") or 1 for way in ("tensor", "pipeline"))
    if tensor > 1 and not launch.switch("--enable-expert-parallel"):
        yield Hit(argv("--tensor-parallel-size"), f"{tensor:.0f}")
    if stages > 1:
        yield Hit(argv("--pipeline-parallel-size"), f"{stages:.0f}")


@rule(
    "R120",
    "hint",
    lasts="vllm",
    expected="--enable-expert-parallel",
    remedy="compare both",
    reason="experts can be spread over the hosts",
    source="Spark guide, section 8",
)
def experts_not_spread(launch: Launch) -> Hits:
    """A MoE model over several hosts without expert parallelism."""
    if launch.model.moe and launch.world_size > 1 and not launch.switch("--enable-expert-parallel"):
        yield Hit(argv("--enable-expert-parallel"), "not given")


@rule(
    "R121",
    "warning",
    lasts="vllm",
    expected="--allowed-local-media-path FOLDER and --limit-mm-per-prompt",
    remedy="name the media's folder, and limit items per prompt",
    reason="files are refused without it; / opens the container's whole file system to every client",
    source="Spark guide, section 7.3.2",
)
def local_media(launch: Launch) -> Hits:
    """Media from files without a folder or a limit, or with the whole file system open."""
    path = launch.text("--allowed-local-media-path")
    if path == "/":
        yield Hit(argv("--allowed-local-media-path"), '"/"', expected="the media's folder", remedy="name the folder")
    elif launch.model.vision and launch.service.media_files and not (path and launch.has("--limit-mm-per-prompt")):
        yield Hit(argv(), "not both are given")


@rule(
    "R122",
    "hint",
    lasts="measured",
    kind="memory",
    needs=("service.video",),
    expected="""--limit-mm-per-prompt '{"video": 0}'""",
    remedy="write it",
    reason="without video the encoder's profiling left 17 GB instead of 13 for the cache of each host",
    source="cluster owner's notes, video disabled",
)
def video_not_needed(launch: Launch) -> Hits:
    """A vision model whose video nobody needs."""
    if launch.model.vision and launch.service.video is False:
        limit = launch.command.json("--limit-mm-per-prompt").get("video")
        if limit != 0:
            yield Hit(argv("--limit-mm-per-prompt"), f"video {show(limit)}")


@rule(
    "R123",
    "warning",
    lasts="operation",
    needs=("service.ready_timeout_s",),
    expected="a readiness limit of 90 minutes for the first start, or --skip-mm-profiling",
    remedy="raise the limit, or set the video limit to 0",
    reason="profiling the vision encoder took about an hour with video or --mm-encoder-tp-mode data",
    source="cluster owner's notes, VLM encoder profiling",
)
def encoder_profiling(launch: Launch) -> Hits:
    """A vision model that profiles for an hour, and a shorter readiness limit."""
    limit = launch.service.ready_timeout_s
    long = launch.service.video or launch.text("--mm-encoder-tp-mode") == "data"
    if launch.model.vision and long and limit is not None and limit < 5400 and not launch.switch("--skip-mm-profiling"):
        yield Hit("service", f"{limit} s")


@rule(
    "R125",
    "hint",
    lasts="checkpoint",
    expected="--chat-template FILE with eugr's fix, if answers look malformed",
    remedy="mount unsloth.jinja over the model's (docs/recipes.md)",
    reason="Qwen3.5's own template was reported to need a fix",
    source="Spark guide, section 7.1.4; eugr",
)
def qwen35_template(launch: Launch) -> Hits:
    """Qwen3.5 with its own chat template."""
    if launch.model.family == "qwen3.5" and not launch.has("--chat-template"):
        yield Hit(argv("--chat-template"), "not given")


@rule(
    "R126",
    "error",
    lasts="checkpoint",
    kind="host",
    needs=("model.cached=false",),
    expected="HF_TOKEN, or the model on the host",
    remedy="accept the licence, and stage the model with a token",
    reason="a gated repository answers 401",
    source="Spark guide, sections 3 and 7.2.1",
)
def gated(launch: Launch) -> Hits:
    """A gated model that isn't on the host, and no token."""
    if launch.model.gated and launch.model.cached is False and not launch.env.get("HF_TOKEN"):
        yield Hit(env("HF_TOKEN"), "not set")
