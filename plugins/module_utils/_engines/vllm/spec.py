# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for vLLM whatever the service."""

from ..._base.schema import Spec
from ..interface import EngineSpec, KeyFile, TlsFiles
from .text.boot_log import LINES
from .text.image_facts import FAMILIES

# Flags that the plan calculates with.
_CALCULATED_FLAGS: dict[str, Spec] = {
    "data-parallel-size": {"type": "int", "min": 1},
    "distributed-executor-backend": {"type": "str"},
    "enforce-eager": {"type": "bool"},
    "gpu-memory-utilization": {"type": "number", "min": 0, "max": 1},
    "kv-cache-memory-bytes": {"type": "bytes", "min": 1},
    "load-format": {"type": "str"},
    "max-model-len": {
        "expected": "a number of tokens, as 170000 or 170k, or auto",
        "any_of": [{"type": "count", "min": 1}, {"type": "str", "choices": ["auto"]}],
    },
    "max-num-batched-tokens": {"type": "count", "min": 1},
    "max-num-seqs": {"type": "count", "min": 1},
    "pipeline-parallel-size": {"type": "int", "min": 1},
    "safetensors-load-strategy": {"type": "str"},
    "speculative-config": {"type": "map"},
    "tensor-parallel-size": {"type": "int", "min": 1},
}

_TAKE_OUT = "take it out"
_BY_KEY_FILE = "write api_key_file in the service"
_BY_TLS = "write tls in the service"
_BY_TRACING = "write tracing in the service"
_NO_CLIENT_CERTIFICATES = "take it out; the service's own supervisor asks without a certificate of a client"

# vllm/v1/metrics/loggers.py, 0.19 to 0.32.
_SERIES = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_use": "vllm:kv_cache_usage_perc",
    "preempted": "vllm:num_preemptions_total",
    "prompted": "vllm:prompt_tokens_total",
    "generated": "vllm:generation_tokens_total",
    "prefix_asked": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "first_token": "vllm:time_to_first_token_seconds",
    "next_token": "vllm:inter_token_latency_seconds",
    "queued": "vllm:request_queue_time_seconds",
}
# vllm/benchmarks/serve.py, 0.32. It begins and ends by itself: nobody would end it where a run is broken off.
_LOAD = (
    *("timeout", "1500", "vllm", "bench", "serve", "--base-url", "{url}", "--model", "{model}"),
    *("--served-model-name", "{served}", "--random-input-len", "{prompt}", "--random-output-len", "{answer}"),
    *("--num-prompts", "{requests}", "--seed", "{seed}", "--ignore-eos", "--percentile-metrics", "ttft,tpot,itl,e2el"),
    *("--metric-percentiles", "50,95,99"),
    *("--disable-tqdm", "--save-result", "--result-dir", "/tmp", "--result-filename", "{file}"),
)
# vllm/benchmarks/datasets/datasets.py, 0.32. A bucket is (height, width, frames), with its share.
_LOAD_MORE = {
    "text": ("--backend", "openai", "--endpoint", "/v1/completions", "--dataset-name", "random"),
    "image": (
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--dataset-name", "random-mm"),
        *("--random-mm-base-items-per-request", "1", "--random-mm-limit-mm-per-prompt", '{"image": 1, "video": 0}'),
        *("--random-mm-bucket-config", "{({height}, {width}, 1): 1.0}"),
    ),
    "at_once": ("--max-concurrency", "{at_once}"),
    "rate": ("--request-rate", "{rate}"),
    "depth": ("--random-prefix-len", "{depth}"),
}
_LOAD_KEYS = {
    "completed": "completed",
    "failed": "failed",
    "answered": "total_output_tokens",
    "duration": "duration",
    "first token ms": "median_ttft_ms",
    "next token ms": "median_tpot_ms",
    "tokens/s": "output_throughput",
    "request ms": "median_e2el_ms",
    "requests/s": "request_throughput",
    "peak tokens/s": "max_output_tokens_per_s",
}
_LOAD_GOALS = {
    f"{metric}_p{share}": f"p{share}_{metric}_ms" for metric in ("ttft", "tpot", "e2el") for share in (50, 95, 99)
}
SPEC = EngineSpec(
    name="vllm",
    series=_SERIES,
    load=_LOAD,
    load_more=_LOAD_MORE,
    # to itself, inside its container
    load_tls=("--insecure",),
    load_keys=_LOAD_KEYS,
    load_goals=_LOAD_GOALS,
    title="vLLM",
    families=FAMILIES,
    calculated_flags=_CALCULATED_FLAGS,
    planned_flags={
        "api-key": _BY_KEY_FILE,
        "config": "write the file's options as flags; the plan can't count what only the container reads",
        "headless": _TAKE_OUT,
        "host": _TAKE_OUT,
        "master-addr": _TAKE_OUT,
        "master-port": _TAKE_OUT,
        "model": _TAKE_OUT,
        "nnodes": _TAKE_OUT,
        "node-rank": _TAKE_OUT,
        "otlp-traces-endpoint": _BY_TRACING,
        "port": _TAKE_OUT,
        "ssl-ca-certs": _NO_CLIENT_CERTIFICATES,
        "ssl-cert-reqs": _NO_CLIENT_CERTIFICATES,
        "ssl-certfile": _BY_TLS,
        "ssl-keyfile": _BY_TLS,
    },
    planned_env={
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": _BY_TRACING,
        "RAY_AUTH_MODE": "take it out; Ray asks for the group's own token",
        "RAY_AUTH_TOKEN_PATH": "take it out; Ray asks for the group's own token",
        "VLLM_HOST_IP": "take it out; to change a rank's address, change the host's address in fleet_fabric",
    },
    secrets={
        "VLLM_API_KEY": _BY_KEY_FILE,
        "OTEL_EXPORTER_OTLP_HEADERS": "write tracing.headers_file in the service",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "write tracing.headers_file in the service",
    },
    # --config: YAML, which reads JSON as well
    key=KeyFile("/run/secrets/vllm.yaml", "api-key: %s\n"),
    trace_headers="/run/secrets/trace-headers",
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    # what is worth keeping between starts (Spark guide, section 3)
    caches={"flashinfer": "/root/.cache/flashinfer", "triton": "/root/.triton", "vllm": "/root/.cache/vllm"},
    reads_images=True,
    aliases=True,
    boot_lines=LINES,
    code_flags=("trust-remote-code",),
    # vllm/config and engine/arg_utils.py 0.33: names that `resolve_obj_by_qualname` and its like import
    code_names={
        **dict.fromkeys(
            (
                "ec-connector-module-path",
                "encoder-cache-manager-cls",
                "io-processor-plugin",
                "kv-connector-module-path",
                "logits-processors",
                "middleware",
                "model-class-overrides",
                "proton-hook",
                "reasoning-parser-plugin",
                "scheduler-cls",
                "tool-parser-plugin",
                "worker-cls",
                "worker-extension-cls",
            ),
            r"auto||vllm\.[\w.]+",
        ),
        "backend": r"[^.]*|vllm\.[\w.]+",
        "distributed-executor-backend": r"[^.]*|vllm\.[\w.]+",
    },
    development_env={
        "VLLM_SERVER_DEV_MODE": "clients may reset caches, put the engine to sleep and call its workers",
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "pickled objects are read, which run code",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "clients load adapters from any folder or hub",
    },
)
