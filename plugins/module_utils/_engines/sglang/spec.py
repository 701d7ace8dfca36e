# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for SGLang whatever the service."""

import re

from ..interface import EngineSpec, KeyFile, TlsFiles

_TAKE_OUT = "take it out"
_BY_MODEL = "take it out; the model is that of the recipe or service"
_BY_KEY_FILE = "write api_key_file in the service"
_BY_TLS = "write tls in the service"
_OPENS = "take it out; it opens a port that asks for no key"

# What an option is called in one release or another; the first is in all that are catalogued.
TENSOR = ("tp-size", "tensor-parallel-size")
PIPELINE = ("pp-size", "pipeline-parallel-size")
# SGLang's own default of a GB10's memory (server_args.py, 0.5.9; arg_groups/memory_hook.py, 0.5.23).
CHUNK = 8192
AT_ONCE = 4
# What no option of its own sets: pool, and where it is reached.
WITHOUT_MEMORY = frozenset(
    {"config", "host", "max-total-tokens", "mem-fraction-static", "port", "served-model-name", "model-path"}
)

_IMAGES = (
    (re.compile(r"(docker\.io/)?lmsysorg/sglang:spark"), "upstream", "0.5.3.post3"),  # sglang, issue 12134
    (re.compile(r"(docker\.io/)?lmsysorg/sglang:v(?P<release>\d+\.\d+\.\d+(\.post\d+)?)(-.*)?"), "upstream", None),
    (re.compile(r"(docker\.io/)?lmsysorg/sglang(:.*)?"), "upstream", None),
    (re.compile(r"nvcr\.io/nvidia/sglang(:.*)?"), "ngc", None),
)
# sglang/srt/metrics/collector.py, 0.5.9; sglang/srt/observability/metrics_collector.py, 0.5.23.
_SERIES = {
    "running": "sglang:num_running_reqs",
    "waiting": "sglang:num_queue_reqs",
    "kv_use": "sglang:token_usage",
    "preempted": "sglang:num_retracted_requests_total",
    "prompted": "sglang:prompt_tokens_total",
    "generated": "sglang:generation_tokens_total",
    "prefix_hits": "sglang:cached_tokens_total",
    "prefix_asked": "sglang:prompt_tokens_total",
    "first_token": "sglang:time_to_first_token_seconds",
    "next_token": "sglang:inter_token_latency_seconds",
    "queued": "sglang:queue_time_seconds",
}
SPEC = EngineSpec(
    name="sglang",
    series=_SERIES,
    title="SGLang",
    families=("upstream", "ngc", "custom"),
    calculated_flags={
        "chunked-prefill-size": {"type": "int", "min": -1},
        "context-length": {"type": "count", "min": 1},
        "kv-cache-dtype": {"type": "str"},
        "max-running-requests": {"type": "int", "min": 1},
        "max-total-tokens": {"type": "count", "min": 1},
        "mem-fraction-static": {"type": "number", "min": 0, "max": 1},
        "page-size": {"type": "int", "min": 1},
        **{name: {"type": "int", "min": 1} for name in (*TENSOR, *PIPELINE)},
    },
    planned_flags={
        **dict.fromkeys(("host", "port", "nnodes", "node-rank", "dist-init-addr", "nccl-init-addr"), _TAKE_OUT),
        **dict.fromkeys(("enable-metrics", "config"), _TAKE_OUT),
        **dict.fromkeys(("model-path", "model"), _BY_MODEL),
        "served-model-name": "write served_name in the service",
        "is-embedding": "write kind: embed in the recipe",
        **dict.fromkeys(("api-key", "admin-api-key"), _BY_KEY_FILE),
        **dict.fromkeys(("ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-keyfile-password"), _BY_TLS),
        **dict.fromkeys(("grpc-mode", "smg-grpc-mode", "grpc-port", "gated-launch-port"), _OPENS),
        **dict.fromkeys(("use-ray", "encoder-only"), _TAKE_OUT),
    },
    planned_env={
        "SGLANG_HOST_IP": "take it out; to change a rank's address, change the host's address in fleet_fabric"
    },
    secrets={},
    # --config: YAML, which reads JSON as well. SGLang prints its options as it starts, the key among them: Docker keeps
    # no log, and the supervisor hides the key in what it passes on.
    key=KeyFile("/run/secrets/sglang.yaml", "api-key: %s\n"),
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    caches={"flashinfer": "/root/.cache/flashinfer", "triton": "/root/.triton"},
    boot_lines=r"Load weight end|max_total_num_tokens=",
    code_flags=("trust-remote-code",),
    code_names=dict.fromkeys(("custom-sigquit-handler", "custom-weight-loader", "forward-hooks"), ""),
)


def image_facts(reference: str) -> dict[str, str | None]:
    """family and release of an image, as far as its name says them."""
    for pattern, family, release in _IMAGES:
        if found := pattern.fullmatch(reference):
            named = found.groupdict().get("release")
            return {"reference": reference, "family": family, "release": release or named}
    return {"reference": reference}
