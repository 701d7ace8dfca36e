# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM itself refuses, but late: after configuration, weights or profiling. It can be known before the start.

X: read from the releases' sources. K: checks of the KV cache's start-up. L: from the recipes of other projects.
"""

from ...._base.gb10 import fact
from ...._base.place import argv
from ._base import Hit, Hits, memory_rule, rule, show
from .launch import Launch

_GIB = 2**30
_STOCK = ("upstream", "ngc")
_GROUP_SHARE: float = fact("limits", "utilization_group")
_FOUR_BITS = r".*(?:awq|gptq|int4|w4a16|4-?bit).*"
_KEPT_GIB: float = fact("memory", "instanttensor_gib")


@rule(
    "X4",
    {"0.11.1..": "error"},
    lasts="vllm",
    expected="--nnodes with --node-rank and --master-addr, --headless on all but the head, and no Ray",
    remedy="write them on every host",
    reason="ranks find each other by the head's address; a headless host serves no API",
    source="docs/serving/parallelism_scaling.md; vllm/config/parallel.py",
)
def nodes_without_ray(launch: Launch) -> Hits:
    """vLLM's own multi-node start with something missing."""
    if (launch.number("--nnodes") or 1) < 2:
        return
    rank = launch.number("--node-rank") or 0
    if launch.executor == "ray":
        yield Hit(argv("--nnodes"), "with ray", expected="no ray", remedy="drop one of them")
    if not launch.has("--master-addr"):
        yield Hit(argv("--master-addr"), "not given", expected="the head's address", remedy="write it on every host")
    if rank > 0 and not launch.has("--headless"):
        yield Hit(argv("--headless"), f"not given on rank {rank:.0f}", expected="--headless", remedy="write it")


@rule(
    "X9",
    {"0.28.0..": "error"},
    lasts="vllm",
    expected="another backend, or an image with the package b12x",
    remedy="write flashinfer_b12x for MoE, or take eugr's b12x image",
    reason="the kernels are in a package of their own, which no stock image has",
    source="requirements/cuda.txt of 0.33.0",
)
def b12x_not_installed(launch: Launch) -> Hits:
    """A b12x backend in a stock image."""
    for option in ("--moe-backend", "--linear-backend", "--attention-backend"):
        if (launch.text(option) or "").lower() == "b12x" and launch.family in _STOCK:
            yield Hit(argv(option), "b12x")


@rule(
    "X10",
    {"0.17.0..": "error"},
    lasts="vllm",
    expected="--moe-backend marlin, humming or b12x, since 0.32.0 also flashinfer_b12x",
    remedy="write marlin, or leave it to vLLM",
    reason="the checkpoint quantizes weights only (W4A16), which the other FP4 kernels don't take: ValueError",
    source="vllm/model_executor/layers/fused_moe/oracle/nvfp4.py",
)
def backend_without_scheme(launch: Launch) -> Hits:
    """A MoE backend that can't run a W4A16 checkpoint."""
    weights_only = launch.model.is_(r"nvidia/Qwen3\.6-35B-A3B-NVFP4")
    # read in 0.32.0 and 0.33.0: it quantizes activations in the kernel (experts/flashinfer_b12x_moe.py)
    more = ["flashinfer_b12x"] if launch.since("0.32.0") else []
    if weights_only and launch.moe_backend not in (None, "auto", "marlin", "humming", "b12x", *more):
        yield Hit(argv("--moe-backend"), show(launch.moe_backend))


@rule(
    "X11",
    "error",
    lasts="vllm",
    expected="the option that it needs",
    remedy="add it",
    reason="vLLM stops with a TypeError",
    source="vllm/entrypoints/common/cli_args.py, validate_parsed_serve_args (0.33.0; openai/cli_args.py before)",
)
def half_a_pair(launch: Launch) -> Hits:
    """An option without the one that it needs."""
    pairs = {"--enable-log-outputs": "--enable-log-requests", "--enable-auto-tool-choice": "--tool-call-parser"}
    for option, needed in pairs.items():
        if launch.switch(option) and not (launch.switch(needed) or launch.text(needed)):
            yield Hit(argv(option), f"without {needed}", expected=needed, remedy=f"add {needed}")


@rule(
    "X13",
    {"0.28.0..": "error"},
    lasts="vllm",
    expected="one of the two",
    remedy="drop --safetensors-load-strategy",
    reason="loading with several threads and another strategy than lazy: ValueError",
    source="vllm/model_executor/model_loader/default_loader.py",
)
def threads_and_strategy(launch: Launch) -> Hits:
    """Loading with several threads and a strategy."""
    threads = launch.command.json("--model-loader-extra-config").get("enable_multithread_load")
    strategy = launch.text("--safetensors-load-strategy")
    if threads and strategy not in (None, "lazy"):
        yield Hit(argv("--safetensors-load-strategy"), show(strategy))


@rule(
    "X14",
    {"0.20.0..": "error"},
    lasts="vllm",
    expected="no --api-server-count with --headless",
    remedy="drop one",
    reason="a headless host has no API server: ValueError",
    source="vllm/entrypoints/cli/serve.py",
)
def headless_servers(launch: Launch) -> Hits:
    """API servers on a headless host."""
    count = launch.number("--api-server-count") or 0
    if launch.has("--headless") and count > 0:
        yield Hit(argv("--api-server-count"), f"{count:.0f}")


@rule(
    "X15",
    {"0.15.0..": "error"},
    lasts="vllm",
    expected="chunked prefill",
    remedy="drop --no-enable-chunked-prefill",
    reason="prefix caching of a hybrid model in mode align needs it: AssertionError (checked up to 0.33.0)",
    source="vllm/config/vllm.py",
)
def align_needs_chunks(launch: Launch) -> Hits:
    """A hybrid model with prefix caching and without chunked prefill."""
    align = launch.text("--mamba-cache-mode") == "align" or launch.within("0.20.0..0.21.0, 0.28.0..")
    if launch.model.hybrid and launch.prefix_caching and align and launch.switch("--enable-chunked-prefill") is False:
        yield Hit(argv("--enable-chunked-prefill"), "off")


@memory_rule(
    "K4",
    {"0.20.0..": "error"},
    lasts="vllm",
    needs=("service.kv_blocks",),
    expected="--max-num-seqs of at most the KV blocks",
    remedy="lower it, or raise the share",
    reason="a model with Mamba layers needs a block for each sequence: ValueError after the KV lines",
    source="vllm/v1/worker/gpu_model_runner.py; vllm/config/compilation.py of 0.33.0",
)
def fewer_blocks_than_sequences(launch: Launch) -> Hits:
    """A Mamba model with more sequences than KV blocks."""
    blocks, sequences = launch.service.kv_blocks, launch.number("--max-num-seqs") or 1024
    if launch.model.hybrid and blocks is not None and sequences > blocks and not launch.switch("--enforce-eager"):
        yield Hit(argv("--max-num-seqs"), f"{sequences:.0f} for {blocks} blocks")


@memory_rule(
    "K5",
    {"0.15.0..0.26.0": "error"},
    needs=("service.kv_block_size",),
    expected="--max-num-batched-tokens of at least the block size",
    remedy="raise it",
    reason="mode align computes whole blocks: AssertionError",
    source="vllm/config/vllm.py",
)
def batch_below_block(launch: Launch) -> Hits:
    """A hybrid model whose block is larger than a batch."""
    block, batch = launch.service.kv_block_size, launch.number("--max-num-batched-tokens") or 2048
    align = launch.text("--mamba-cache-mode") == "align" or launch.within("0.20.0..0.21.0")
    if launch.model.hybrid and launch.prefix_caching and align and block is not None and block > batch:
        yield Hit(argv("--max-num-batched-tokens"), f"{batch:.0f} for a block of {block}")


@rule(
    "K6",
    {"0.17.0..0.17.1": "error"},
    expected="a BF16 KV cache, or another release",
    remedy="drop --kv-cache-dtype",
    reason="no attention backend takes latent attention with an FP8 cache on sm_121",
    source="vllm/platforms/cuda.py of 0.17",
)
def mla_fp8(launch: Launch) -> Hits:
    """Latent attention with an FP8 KV cache on 0.17."""
    if launch.gb10 and launch.model.mla and launch.kv_dtype.startswith("fp8"):
        yield Hit(argv("--kv-cache-dtype"), show(launch.kv_dtype))


@rule(
    "X21",
    {"0.26.0..0.27.1": "error"},
    expected="vLLM 0.28.0 or newer",
    remedy="take an image of 0.28.0 or newer",
    reason="the engine ends at the first prompt that is longer than a batch, or begins like an earlier one: latent "
    "attention reads a weight that 4-bit layers do not have",
    source="vllm-project/vllm issues 43263 (two DGX Spark) and 43888; vllm/model_executor/layers/attention/"
    "mla_attention.py of 0.26.0, 0.27.0 and 0.28.0",
)
def mla_four_bits(launch: Launch) -> Hits:
    """Latent attention with 4-bit weights on 0.26 and 0.27."""
    model = launch.model
    packed = model.quant_method in ("awq", "awq_marlin", "gptq", "gptq_marlin", "auto-round")
    if model.mla and (packed or (model.quant_method == "compressed-tensors" and model.is_(_FOUR_BITS))):
        yield Hit("image", f"a release before 0.28.0, and {model.quant_method} in 4 bits")


@memory_rule(
    "K7",
    {"0.11.0..0.17.1": "error"},
    expected="--swap-space below 70 % of the host's memory for all ranks",
    remedy="drop it",
    reason="vLLM refuses more; on one memory it takes from the GPU what it gives",
    source="vllm/config/cache.py of 0.17",
)
def swap_space(launch: Launch) -> Hits:
    """--swap-space beyond what the host has."""
    space = (launch.number("--swap-space") or 0) * _GIB * (launch.number("--tensor-parallel-size") or 1)
    if space > 0.7 * launch.host.memory_bytes:
        yield Hit(argv("--swap-space"), f"{space / _GIB:.0f} GiB")


@rule(
    "L8",
    "hint",
    lasts="checkpoint",
    expected='"num_speculative_tokens": 5, the block of its checkpoint',
    remedy="measure both",
    reason="an owner saw 5 work best with DeepSeek-V4; vLLM takes any number (config/speculative.py of 0.33.0), and "
    "NVIDIA and eugr run 6 with Vision-Exp",
    source="MiaAI, DeepSeek-V4 on GB10; NVIDIA/local-ai-inference-recipes, deepseek-v4-flash-vision-exp (2026-10)",
)
def dspark_tokens(launch: Launch) -> Hits:
    """DSpark for DeepSeek-V4 with another number of tokens than its checkpoint has."""
    tokens = launch.speculation.get("num_speculative_tokens")
    drafts = launch.method == "dspark" and launch.model.is_(r".*DeepSeek-V4(-Flash)?(-DSpark)?")
    if drafts and tokens not in (None, 5, "5"):
        yield Hit(argv("--speculative-config"), f"{tokens} tokens")


@memory_rule(
    "L9",
    "error",
    lasts="vllm",
    expected="a fraction between 0 and 1",
    remedy="divide the gigabytes by the host's memory",
    reason="recipes of eugr write gigabytes here, which a patch of their image turns into a fraction",
    source="eugr, mod gpu-mem-util-gb",
    covers=("R087", "R088", "R089", "R090", "R095", "R098"),
)
def share_in_gigabytes(launch: Launch) -> Hits:
    """A utilization that is no fraction."""
    share = launch.utilization
    if share is not None and not 0 < share <= 1:
        yield Hit(argv("--gpu-memory-utilization"), f"{share:g}")


@memory_rule(
    "L11",
    "hint",
    lasts="vllm",
    expected="a look at MemAvailable after the first boot",
    remedy="plan the share too",
    reason="the utilization no longer bounds the cache; the start check still asks for the whole share",
    source="Pulsar; sparkring; vllm/v1/worker/gpu_worker.py",
)
def bytes_without_guard(launch: Launch) -> Hits:
    """--kv-cache-memory-bytes instead of a share."""
    if launch.has("--kv-cache-memory-bytes") and not launch.has("--gpu-memory-utilization"):
        yield Hit(argv("--kv-cache-memory-bytes"), show(launch.text("--kv-cache-memory-bytes")))


@memory_rule(
    "L13",
    "hint",
    lasts="measured",
    expected=f"{_KEPT_GIB:.1f} GiB less for the cache",
    remedy="count it in",
    reason=f"the loader keeps about {_KEPT_GIB:.1f} GiB",
    source="GLM EXL3 on GB10, issue 204",
)
def instanttensor_room(launch: Launch) -> Hits:
    """instanttensor, which keeps memory."""
    if launch.text("--load-format") == "instanttensor":
        yield Hit(argv("--load-format"), "instanttensor")


@rule(
    "L16",
    {"0.11.0..0.27.1": "warning"},
    needs=("group.hosts",),
    expected="one host for a hybrid model",
    remedy="test long answers before use",
    reason="models with linear or Mamba layers were reported unstable over two Sparks; NVIDIA validated 0.28.0",
    source="Pulsar; NVIDIA/local-ai-inference-recipes (Qwen3.6-27B on two Sparks, 2026-08-28)",
)
def hybrid_in_group(launch: Launch) -> Hits:
    """A hybrid model over several hosts."""
    if launch.spread and launch.model.hybrid:
        yield Hit("model", launch.model.repository or "hybrid")


@memory_rule(
    "L17",
    "hint",
    lasts="measured",
    needs=("group.hosts",),
    expected=f"{_GROUP_SHARE:.2f} or less over several hosts",
    remedy="lower it where a load fails",
    reason="NCCL's buffers come from the rest; NVIDIA validated 0.85 over two hosts on 31 August 2026",
    source="Pulsar, docs/TUNING.md; NVIDIA/local-ai-inference-recipes (2026-08-31)",
    covers=("R095",),
)
def group_share(launch: Launch) -> Hits:
    """A utilization above what a host of a group bears."""
    share = launch.utilization
    if launch.spread and share is not None and _GROUP_SHARE < share <= fact("limits", "utilization"):
        yield Hit(argv("--gpu-memory-utilization"), f"{share:g}")


@rule(
    "L18",
    "hint",
    lasts="operation",
    expected="--revision, or a folder",
    remedy="pin the revision",
    reason="the hub's main moves: hosts and times may differ",
    source="NemoClaw",
)
def revision_not_pinned(launch: Launch) -> Hits:
    """A model of the hub without a revision."""
    model = launch.command.model or ""
    if model and "/" in model and not model.startswith(("/", ".")) and not launch.has("--revision"):
        yield Hit(argv(), f"{model[:80]} without --revision")
