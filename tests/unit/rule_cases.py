# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches that trip a rule, and launches that come near and don't: the table of `test_rules`."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import words_of

Launch = dict[str, Any]

UPSTREAM = "vllm/vllm-openai:v0.24.0"
NGC = "nvcr.io/nvidia/vllm:26.07-py3"
NIGHTLY = "vllm/vllm-openai:nightly"
QWEN36 = "nvidia/Qwen3.6-35B-A3B-NVFP4"
QWEN36_DENSE = "unsloth/Qwen3.6-27B-NVFP4"
CODER_NEXT = "Qwen/Qwen3-Coder-Next-FP8"
QWEN35 = "RedHatAI/Qwen3.5-122B-A10B-NVFP4"
QWEN35_FP8 = "Qwen/Qwen3.5-122B-A10B-FP8"
QWEN_VL = "QuantTrio/Qwen3-VL-235B-A22B-Thinking-AWQ"
GEMMA = "nvidia/Gemma-4-31B-IT-NVFP4"
GEMMA_MOE = "nvidia/Gemma-4-26B-A4B-NVFP4"
GEMMA_CODER = "sakamakismile/gemma-4-12B-coder-fable5-composer2.5-MTP-NVFP4"
NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"
SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
OMNI = "nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-NVFP4"
LAGUNA = "poolside/Laguna-XS.2-FP8"
FLASH_NEXT = "RadixArk/Qwen3.8-Flash-Next-NVFP4"
PLAIN = "Qwen/Qwen3-0.6B"
DFLASH = """--speculative-config '{"method":"dflash","num_speculative_tokens":15}'"""
MTP = """--speculative-config '{"method":"mtp","num_speculative_tokens":3}'"""
NGRAM = """--speculative-config '{"method":"ngram","num_speculative_tokens":4}'"""
PIECEWISE = """--compilation-config '{"cudagraph_mode":"PIECEWISE"}'"""
FUSED = """--compilation-config '{"pass_config":{"fuse_gemm_comms":true}}'"""
NIXL = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
PAIR = {"hosts": 2}
CACHE = [{"source": "/srv", "target": "/root/.cache/huggingface"}]


def serve(words: str, version: str | None = "0.24.0", **rest: Any) -> Launch:
    """A `vllm serve` without a known image."""
    return {"argv": ["vllm", "serve", *words_of(words)], "vllm_version": version, **rest}


def run(image: str, words: str, **rest: Any) -> Launch:
    """What an image gets."""
    return {"image": image, "argv": words_of(words), **rest}


def draft(**keys: Any) -> str:
    """--speculative-config with these keys."""
    return f"--speculative-config '{json.dumps(keys)}'"


RING = {"NCCL_IB_HCA": "rocep1s0f1", "NCCL_IB_SUBNET_AWARE_ROUTING": "1"}
CASES: dict[str, tuple[Launch, Launch]] = {
    # image
    "R001": (run(NIGHTLY, f"vllm serve {PLAIN}"), run(NIGHTLY, PLAIN)),
    "R002": (run(NGC, PLAIN), run(NGC, f"vllm serve {PLAIN}")),
    "R003": (
        run(UPSTREAM, f"-c 'pip install x && {PLAIN}'", entrypoint="/bin/bash"),
        run(UPSTREAM, f"-c 'pip install x && vllm serve {PLAIN}'", entrypoint="/bin/bash"),
    ),
    "R004": (run("vllm/vllm-openai:v0.19.1", PLAIN), run("vllm/vllm-openai:v0.19.1-cu130", PLAIN)),
    "R005": (run(NIGHTLY, PLAIN), run(NIGHTLY + "@sha256:" + "0" * 64, PLAIN)),
    "R006": (run("vllm/vllm-openai:gemma4", GEMMA), run("vllm/vllm-openai:gemma4-cu130", GEMMA)),
    "R007": (
        serve(PLAIN, "0.16.0", model={"quant_algo": "MIXED_PRECISION"}),
        serve(PLAIN, "0.17.0", model={"quant_algo": "MIXED_PRECISION"}),
    ),
    "R008": (
        run(NGC, f"vllm serve {PLAIN} --distributed-executor-backend ray"),
        run(NGC, f"bash -c 'pip install ray && vllm serve {PLAIN} --distributed-executor-backend ray'"),
    ),
    "R009": (
        serve(PLAIN, "0.18.0", model={"architectures": ["Gemma4ForConditionalGeneration"]}),
        serve(PLAIN, "0.19.0", model={"architectures": ["Gemma4ForConditionalGeneration"]}),
    ),
    "R010": (
        run("nvcr.io/nvidia/vllm:25.12.post1-py3", PLAIN, entrypoint="vllm serve", host={"driver": "580.142"}),
        run("nvcr.io/nvidia/vllm:25.12.post1-py3", f"vllm serve {PLAIN}", host={"driver": "580.142"}),
    ),
    "R011": (run("example/own:1", PLAIN), run("example/own:1", PLAIN, vllm_version="0.24.0")),
    "R012": (run(UPSTREAM, OMNI), run(UPSTREAM, f"bash -c 'pip install vllm[audio] && vllm serve {OMNI}'")),
    "R013": (
        serve(OMNI, "0.19.0"),
        serve(OMNI + """ --hf-overrides '{"architectures":["NemotronH_Nano_VL_V2"]}'""", "0.19.0"),
    ),
    "R014": (serve(f"{QWEN36} {DFLASH}", "0.20.2"), serve(f"{QWEN36} {DFLASH}", "0.21.0")),
    "R015": (
        run("nvcr.io/nvidia/vllm:26.04-py3", f"vllm serve {QWEN36} {DFLASH}"),
        run("nvcr.io/nvidia/vllm:26.06-py3", f"vllm serve {QWEN36} {DFLASH}"),
    ),
    "R016": (
        serve(PLAIN, "0.22.1", model={"architectures": ["Gemma4UnifiedForConditionalGeneration"]}),
        serve(PLAIN, "0.23.0", model={"architectures": ["Gemma4UnifiedForConditionalGeneration"]}),
    ),
    "R017": (serve(QWEN35, "0.16.0"), serve(QWEN35, "0.17.0")),
    "R018": (
        serve(f"{QWEN36_DENSE} {draft(method='dflash', model='z-lab/Qwen3.6-27B-DFlash')}", "0.24.0"),
        serve(f"{QWEN36_DENSE} {draft(method='dflash', model='z-lab/Qwen3.6-27B-DFlash')}", "0.25.0"),
    ),
    "R019": (
        run(UPSTREAM, f"google/gemma-4-31B-it {DFLASH}"),
        run("ghcr.io/z-lab/vllm-openai:gemma4-dflash-cu130", f"google/gemma-4-31B-it {DFLASH}"),
    ),
    "R020": (serve(f"{GEMMA_CODER} {MTP}", "0.20.2"), serve(f"{GEMMA_CODER} {MTP}", "0.21.0")),
    "R021": (
        run("nvcr.io/nvidia/vllm:25.11-py3", f"vllm serve {QWEN_VL}", mounts=CACHE),
        run(
            "nvcr.io/nvidia/vllm:25.11-py3",
            f"vllm serve {QWEN_VL}",
            mounts=[*CACHE, {"source": "/srv/vllm", "target": "/usr/lib/python3/dist-packages/vllm"}],
        ),
    ),
    "R022": (
        run("nvcr.io/nvidia/vllm:25.11-py3", f"vllm serve {QWEN_VL}", mounts=CACHE),
        run(
            "nvcr.io/nvidia/vllm:25.11-py3",
            f"vllm serve {QWEN_VL}",
            mounts=[{"source": "/srv/s.py", "target": "/usr/lib/python3.12/sitecustomize.py"}],
        ),
    ),
    "R023": (
        serve(GEMMA_MOE, "0.19.1", mounts=CACHE),
        serve(
            GEMMA_MOE,
            "0.19.1",
            mounts=[{"target": "/usr/local/lib/python3.12/dist-packages/vllm/model_executor/models/gemma4.py"}],
        ),
    ),
    "R024": (
        serve(PLAIN, container={}, mounts=CACHE, model={"cached": False}),
        serve(PLAIN, container={"user": ["1000:1000"]}, mounts=CACHE, model={"cached": False}),
    ),
    # names
    "R025": (
        serve(PLAIN, "0.24.0", env={"VLLM_USE_FLASHINFER_MOE_FP4": "1"}),
        serve(PLAIN, "0.23.0", env={"VLLM_USE_FLASHINFER_MOE_FP4": "1"}),
    ),
    "R026": (
        serve(PLAIN, "0.14.1", env={"VLLM_NVFP4_GEMM_BACKEND": "marlin"}),
        serve(PLAIN, "0.15.0", env={"VLLM_NVFP4_GEMM_BACKEND": "marlin"}),
    ),
    "R027": (serve(PLAIN, env={"VLLM_FP8_MOE_BACKEND": "marlin"}), serve(PLAIN)),
    "R028": (serve(PLAIN, env={"VLLM_MXFP4_BACKEND": "marlin"}), serve(PLAIN)),
    "R029": (serve(PLAIN, "0.11.0", env={"VLLM_USE_RAY_COMPILED_DAG": "0"}), serve(PLAIN, "0.11.0")),
    "R030": (
        serve(PLAIN, "0.18.0", env={"VLLM_SLEEP_WHEN_IDLE": "1"}),
        serve(PLAIN, "0.17.1", env={"VLLM_SLEEP_WHEN_IDLE": "1"}),
    ),
    "R031": (serve(QWEN_VL, "0.11.0"), serve(QWEN_VL, "0.11.0", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"})),
    "R032": (
        serve(PLAIN, env={"VLLM_ENCODER_CACHE_TOKENS": "131072"}),
        serve(PLAIN, env={"VLLM_MAX_AUDIO_CLIP_FILESIZE_MB": "25"}),
    ),
    "R033": (serve(f"{PLAIN} --speculative-disable-by-batch-size 32"), serve(PLAIN)),
    "R034": (serve(f"{PLAIN} --max-num-partial-prefills 2", "0.26.0"), serve(PLAIN, "0.26.0")),
    "R035": (serve(f"{PLAIN} --task embed", "0.13.0"), serve(f"{PLAIN} --task embed", "0.12.0")),
    "R036": (serve(f"{PLAIN} --moe-backend marlin", "0.16.0"), serve(f"{PLAIN} --moe-backend marlin", "0.17.0")),
    "R037": (
        serve(f"{NANO} --reasoning-parser nano_v3"),
        serve(f"{NANO} --reasoning-parser nano_v3 --reasoning-parser-plugin /m/nano_v3.py"),
    ),
    "R039": (serve(f"{SUPER} --quantization fp4"), serve(f"{SUPER} --quantization modelopt")),
    "R040": (
        serve(f"{QWEN36} --enable-auto-tool-choice --tool-call-parser hermes"),
        serve(f"{QWEN36} --enable-auto-tool-choice --tool-call-parser qwen3_xml"),
    ),
    "R041": (
        serve(f"{QWEN36} --tool-call-parser qwen3_xml"),
        serve(f"{QWEN36} --enable-auto-tool-choice --tool-call-parser qwen3_xml", service={"tools": True}),
    ),
    "R042": (serve(f"{CODER_NEXT} --reasoning-parser qwen3"), serve(CODER_NEXT)),
    "R043": (serve(QWEN36), serve(f"{QWEN36} --reasoning-parser qwen3")),
    "R044": (serve(f"{GEMMA_CODER} {MTP}"), serve(f"{QWEN36} {MTP}")),
    # kernels
    "R045": (serve(f"{QWEN36_DENSE} --quantization modelopt"), serve(QWEN36_DENSE)),
    "R047": (serve(QWEN36, "0.19.1"), serve(f"{QWEN36} --moe-backend marlin", "0.19.1")),
    "R048": (serve(GEMMA_MOE, "0.19.1"), serve(f"{GEMMA_MOE} --moe-backend marlin", "0.19.1")),
    "R050": (serve(f"{QWEN35} --moe-backend marlin"), serve(f"{QWEN35} --moe-backend flashinfer_cutlass")),
    "R052": (serve(NANO, "0.22.0"), serve(f"{NANO} --linear-backend marlin", "0.22.0")),
    "R053": (serve(GEMMA, "0.19.1"), serve(GEMMA, "0.20.0")),
    "R054": (serve(QWEN35_FP8, "0.19.1"), serve(QWEN35_FP8, "0.19.1", env={"VLLM_TEST_FORCE_FP8_MARLIN": "1"})),
    "R055": (serve("alpertor/Qwen3.5-122B-A10B-NVFP4"), serve(QWEN35)),
    "R056": (
        serve(f"{QWEN36} --attention-backend flashinfer", "0.23.0"),
        serve(f"{QWEN36} --attention-backend flashinfer", "0.24.0"),
    ),
    "R057": (
        serve(f"{CODER_NEXT} --max-model-len 170000"),
        serve(f"{CODER_NEXT} --max-model-len 170000 --attention-backend flashinfer"),
    ),
    "R058": (serve(f"{GEMMA} --moe-backend marlin"), serve(f"{QWEN36} --moe-backend marlin")),
    "R059": (
        serve(f"{PLAIN} --moe-backend marlin", service={"recipe": ""}),
        serve(f"{PLAIN} --moe-backend marlin", service={"recipe": "mine"}),
    ),
    "R060": (serve(f"{QWEN36} {DFLASH}"), serve(f"{QWEN36} {DFLASH} --attention-backend triton_attn")),
    "R061": (serve(f"{QWEN36} {DFLASH}"), serve(f"{QWEN36} {DFLASH}", env={"VLLM_USE_DEEP_GEMM": "0"})),
    "R062": (
        serve(f"{QWEN36} {draft(method='dflash', attention_backend='FLASH_ATTN')}"),
        serve(f"{QWEN36} {draft(method='dflash', attention_backend='FLASH_ATTN')}", "0.28.0"),
    ),
    "R063": (serve(f"{NANO} --enable-chunked-prefill"), serve(f"{QWEN36_DENSE} --enable-chunked-prefill")),
    # kv
    "R064": (serve(f"{QWEN36} {DFLASH} --kv-cache-dtype fp8"), serve(f"{QWEN36} {DFLASH}")),
    "R065": (serve(f"{GEMMA_CODER} {MTP}"), serve(f"{GEMMA_CODER} {MTP} --kv-cache-dtype fp8")),
    "R066": (serve(LAGUNA), serve(f"{LAGUNA} --kv-cache-dtype bfloat16")),
    "R067": (serve(f"{QWEN35} --kv-cache-dtype fp8"), serve(f"{QWEN36} --kv-cache-dtype fp8")),
    "R068": (serve(NANO), serve(f"{NANO} --kv-cache-dtype fp8")),
    "R069": (
        serve(f"{PLAIN} --kv-cache-dtype fp8", service={"recipe": ""}),
        serve(f"{PLAIN} --kv-cache-dtype fp8", service={"recipe": "mine"}),
    ),
    "R070": (run(UPSTREAM, f"{QWEN36} {DFLASH}"), run("ghcr.io/aeon-7/vllm-dflash:1", f"{QWEN36} {DFLASH}")),
    "R071": (
        serve(f"{QWEN36} {draft(method='dflash', model='z-lab/Qwen3.5-27B-DFlash')}"),
        serve(f"{QWEN36} {draft(method='dflash', model='z-lab/Qwen3.6-35B-A3B-DFlash')}"),
    ),
    "R072": (
        serve(f"{QWEN36} {DFLASH}", model={"draft_date": "2026-04-01"}),
        serve(f"{QWEN36} {DFLASH}", model={"draft_date": "2026-04-19"}),
    ),
    "R073": (
        serve(f"{QWEN36} {draft(method='mtp', num_speculative_tokens=6)}"),
        serve(f"{QWEN36} {draft(method='mtp', num_speculative_tokens=5)}"),
    ),
    "R074": (serve(f"{QWEN36} {MTP} --max-num-seqs 16"), serve(f"{QWEN36} {MTP} --max-num-seqs 4")),
    "R075": (
        serve(f"{QWEN36} {MTP} --enable-prefix-caching", service={"profile": "single-user"}),
        serve(f"{QWEN36} {MTP} --no-enable-prefix-caching", service={"profile": "single-user"}),
    ),
    "R076": (serve(f"{PLAIN} {NGRAM} --async-scheduling"), serve(f"{QWEN36} {MTP} --async-scheduling")),
    "R077": (serve(f"{PLAIN} {draft(method='suffix')}"), serve(f"{PLAIN} {NGRAM}")),
    "R078": (serve(f"{SUPER} {MTP} --enable-auto-tool-choice --tool-call-parser qwen3_coder"), serve(f"{SUPER} {MTP}")),
    "R079": (serve(f"{QWEN36} {MTP}"), serve(f"{QWEN36_DENSE} {MTP}")),
    # prefix
    "R081": (serve(QWEN36, "0.27.1"), serve(QWEN36, "0.28.0")),
    "R083": (
        serve(f"{SUPER} --enable-prefix-caching", "0.19.1"),
        serve(f"{SUPER} --enable-prefix-caching --mamba-cache-mode align", "0.19.1"),
    ),
    "R085": (serve(f"{GEMMA} --enable-prefix-caching"), serve(f"{QWEN36} --enable-prefix-caching")),
    # memory
    "R086": (serve(PLAIN), serve(f"{PLAIN} --gpu-memory-utilization 0.5")),
    "R087": (serve(f"{PLAIN} --gpu-memory-utilization 0.92"), serve(f"{PLAIN} --gpu-memory-utilization 0.85")),
    "R088": (
        serve(f"{NANO} --gpu-memory-utilization 0.15", model={"weights_bytes": 18 * 10**9}),
        serve(f"{NANO} --gpu-memory-utilization 0.2", model={"weights_bytes": 18 * 10**9}),
    ),
    "R089": (
        serve(f"{PLAIN} --gpu-memory-utilization 0.5", host={"utilizations": [0.7]}),
        serve(f"{PLAIN} --gpu-memory-utilization 0.2", host={"utilizations": [0.7]}),
    ),
    "R090": (
        serve(f"{PLAIN} --load-format fastsafetensors --gpu-memory-utilization 0.8", "0.23.0"),
        serve(f"{PLAIN} --load-format fastsafetensors --gpu-memory-utilization 0.76", "0.23.0"),
    ),
    "R091": (
        serve(f"{PLAIN} --load-format fastsafetensors -tp 2", group=PAIR),
        serve(f"{PLAIN} --load-format fastsafetensors"),
    ),
    "R092": (
        run("vllm/vllm-openai:v0.19.1-cu130", f"{PLAIN} --load-format fastsafetensors"),
        run("vllm/vllm-openai:v0.20.0", f"{PLAIN} --load-format fastsafetensors"),
    ),
    "R093": (
        serve(QWEN35, model={"weights_bytes": 76 * 10**9}),
        serve(f"{QWEN35} --safetensors-load-strategy eager", model={"weights_bytes": 76 * 10**9}),
    ),
    "R094": (
        run(NGC, f"vllm serve {PLAIN} --gpu-memory-utilization 0.85", host={"compile_cache": False}),
        run(NGC, f"vllm serve {PLAIN} --gpu-memory-utilization 0.85", host={"compile_cache": True}),
    ),
    "R095": (
        serve(f"{PLAIN} --gpu-memory-utilization 0.88"),
        serve(f"{PLAIN} --gpu-memory-utilization 0.88 --enforce-eager"),
    ),
    "R096": (
        serve(NANO, service={"profile": "minimal-memory"}),
        serve(f"{NANO} --enforce-eager", service={"profile": "minimal-memory"}),
    ),
    "R097": (
        serve(f"{SUPER} --enforce-eager", service={"profile": "interactive"}),
        serve(f"{SUPER} --enforce-eager", service={"profile": "minimal-memory"}),
    ),
    "R098": (
        serve(f"{PLAIN} --gpu-memory-utilization 0.8", host={"mem_available_bytes": 90 * 10**9}),
        serve(f"{PLAIN} --gpu-memory-utilization 0.5", host={"mem_available_bytes": 90 * 10**9}),
    ),
    "R099": (serve(PLAIN, group=PAIR, host={"swap": True}), serve(PLAIN, host={"swap": True})),
    "R100": (serve(PLAIN, host={"sysctl": {"vm.swappiness": 60}}), serve(PLAIN, host={"sysctl": {"vm.swappiness": 1}})),
    "R101": (
        serve(PLAIN, host={"default_target": "graphical.target"}),
        serve(PLAIN, host={"default_target": "multi-user.target"}),
    ),
    "R102": (serve(PLAIN, container={"memory": ["100g"]}), serve(PLAIN, container={})),
    "R103": (
        serve(f"{PLAIN} --max-model-len 65536", service={"kv_pool_tokens": 60000}),
        serve(f"{PLAIN} --max-model-len 65536", service={"kv_pool_tokens": 65536}),
    ),
    "R104": (
        serve(f"{PLAIN} --max-model-len 65536 --max-num-seqs 4", service={"kv_pool_tokens": 200000}),
        serve(f"{PLAIN} --max-model-len 65536 --max-num-seqs 4", service={"kv_pool_tokens": 262144}),
    ),
    "R105": (
        serve(f"{PLAIN} --max-num-seqs 16", service={"profile": "interactive"}),
        serve(f"{PLAIN} --max-num-seqs 4", service={"profile": "interactive"}),
    ),
    "R106": (
        serve(f"{QWEN_VL} -tp 2 --max-num-batched-tokens 16384", group=PAIR),
        serve(f"{QWEN_VL} -tp 2 --max-num-batched-tokens 4096", group=PAIR),
    ),
    "R107": (
        serve(f"{QWEN_VL} -tp 2 --gpu-memory-utilization 0.75", group=PAIR),
        serve(f"{QWEN_VL} -tp 2 --gpu-memory-utilization 0.70", group=PAIR),
    ),
    "R108": (serve(f"{QWEN_VL} --max-model-len 16384", "0.11.0"), serve(QWEN_VL, "0.11.0")),
    "R109": (
        serve(PLAIN, group=PAIR, model={"weights_bytes": 470 * 10**9}),
        serve(PLAIN, group=PAIR, model={"weights_bytes": 117 * 10**9}),
    ),
    # model
    # of a model that positions do not limit, else R113 stands for it
    "R112": (
        serve(f"{NANO} --max-model-len 1010000"),
        serve(f"{NANO} --max-model-len 1010000", env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}),
    ),
    "R113": (
        serve(f"{QWEN36} --max-model-len 1010000"),
        serve(f"""{QWEN36} --max-model-len 1010000 --hf-overrides '{{"rope_parameters": {{"factor": 4.0}}}}'"""),
    ),
    "R114": (
        serve(f"""{QWEN36} --hf-overrides '{{"rope_parameters": {{"rope_type": "yarn"}}}}'"""),
        serve(f"""{QWEN36} --hf-overrides '{{"rope_parameters": {{"rope_theta": 1}}}}'"""),
    ),
    "R115": (
        serve(QWEN35_FP8, model={"config": {"text_config": {"hidden_size": 3072}}}),
        serve(QWEN35_FP8, model={"config": {"text_config": {"rope_theta": 10000000}}}),
    ),
    "R116": (
        serve(GEMMA, service={"reasoning": True}),
        serve(f"""{GEMMA} --default-chat-template-kwargs '{{"enable_thinking": true}}'""", service={"reasoning": True}),
    ),
    "R117": (
        run("vllm/vllm-openai:gemma4-cu130", f"{GEMMA} --reasoning-parser gemma4"),
        run("vllm/vllm-openai:v0.20.0", f"{GEMMA} --reasoning-parser gemma4"),
    ),
    "R118": (serve(f"{GEMMA} -tp 8"), serve(f"{GEMMA} -tp 1")),
    "R119": (serve(f"{GEMMA_MOE} -tp 2", group=PAIR), serve(f"{GEMMA_MOE} -tp 2 --enable-expert-parallel", group=PAIR)),
    "R120": (serve(f"{QWEN36} -tp 2", group=PAIR), serve(f"{QWEN36} -tp 2 --enable-expert-parallel", group=PAIR)),
    "R121": (serve(f"{OMNI} --allowed-local-media-path=/"), serve(f"{OMNI} --allowed-local-media-path=/media")),
    "R122": (
        serve(QWEN_VL, service={"video": False}),
        serve(f"""{QWEN_VL} --limit-mm-per-prompt '{{"video": 0}}'""", service={"video": False}),
    ),
    "R123": (
        serve(f"{QWEN_VL} --mm-encoder-tp-mode data", service={"ready_timeout_s": 1800}),
        serve(f"{QWEN_VL} --mm-encoder-tp-mode data", service={"ready_timeout_s": 5400}),
    ),
    "R125": (serve(QWEN35), serve(f"{QWEN35} --chat-template /t.jinja")),
    "R126": (
        serve(GEMMA, model={"gated": True, "cached": False}),
        serve(GEMMA, model={"gated": True, "cached": False}, env={"HF_TOKEN": "hf_x"}),
    ),
    # storage
    "R127": (serve(PLAIN, mounts=[]), serve(PLAIN, mounts=CACHE)),
    "R128": (serve(PLAIN, model={"cached": False}), serve("/models/own", model={"cached": False})),
    "R129": (serve(PLAIN, model={"cached": True}), serve(PLAIN, env={"HF_HUB_OFFLINE": "1"}, model={"cached": True})),
    "R130": (
        serve(PLAIN, host={"resolves_hub": False}),
        serve(PLAIN, host={"resolves_hub": False}, env={"HF_HUB_OFFLINE": "1"}),
    ),
    "R131": (serve(PLAIN, mounts=CACHE), serve(PLAIN, mounts=[{"target": "/root/.cache/vllm"}])),
    "R133": (
        serve(PLAIN, service={"ready_timeout_s": 600}, model={"cached": False}),
        serve(PLAIN, service={"ready_timeout_s": 1200}, model={"cached": False}),
    ),
    "R134": (serve(PLAIN, host={"cache_filesystem": "overlay"}), serve(PLAIN, host={"cache_filesystem": "ext4"})),
    "R135": (serve(PLAIN, host={"read_ahead_kib": 128}), serve(PLAIN, host={"read_ahead_kib": 8192})),
    "R137": (serve(PLAIN, env={"VLLM_API_KEY": "$(openssl rand -hex 32)"}), serve(PLAIN, env={"VLLM_API_KEY": "$KEY"})),
    "R138": (
        serve(PLAIN, container={"restart": ["unless-stopped"]}),
        serve(PLAIN, container={"restart": ["on-failure:3"]}),
    ),
    "R157": (serve(f"{PLAIN} --config=/key.yaml"), serve(f"{PLAIN} --config /key.yaml")),
    # group
    "R139": (
        serve(PLAIN, group=PAIR, container={}),
        serve(PLAIN, group=PAIR, container={"restart": ["on-failure:10"]}),
    ),
    "R140": (serve(f"{PLAIN} -tp 1", group=PAIR), serve(f"{PLAIN} -tp 2", group=PAIR)),
    "X38": (
        serve(f"{PLAIN} --data-parallel-size 2"),
        serve(f"{PLAIN} --data-parallel-size 2 --data-parallel-size-local 1 --data-parallel-address 10.0.0.1"),
    ),
    "X39": (
        serve(f"{PLAIN} --load-format b12x", container={"security-opt": ["no-new-privileges"]}),
        serve(f"{PLAIN} --load-format b12x", container={"security-opt": ["no-new-privileges", "seccomp=unconfined"]}),
    ),
    "R141": (serve(PLAIN, "0.11.0", group=PAIR), serve(f"{PLAIN} --enforce-eager", "0.11.0", group=PAIR)),
    "R142": (
        serve(f"{PLAIN} --async-scheduling --distributed-executor-backend ray", "0.20.2"),
        serve(f"{PLAIN} --async-scheduling --distributed-executor-backend ray", "0.21.0"),
    ),
    "R143": (
        serve(f"{PLAIN} -tp 2", group=PAIR),
        serve(f"{PLAIN} -tp 2 --nnodes 2 --master-addr 192.0.2.1", group=PAIR),
    ),
    "R144": (serve(PLAIN, group=PAIR), serve(PLAIN, group=PAIR, env={"NCCL_SOCKET_IFNAME": "enp1s0f1np1"})),
    "R145": (
        serve(PLAIN, group=PAIR, env={"NCCL_SOCKET_IFNAME": "enp1s0f1np1"}),
        serve(
            PLAIN,
            group=PAIR,
            env=dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES"), "enp1s0f1np1"),
        ),
    ),
    "R146": (
        serve(PLAIN, env={"NCCL_IB_HCA": "=rocep1s0f1:1"}, container={}),
        serve(
            PLAIN,
            env={"NCCL_IB_HCA": "=rocep1s0f1:1"},
            container={"device": ["/dev/infiniband"], "ulimit": ["memlock=-1"]},
        ),
    ),
    "R147": (serve(PLAIN, env={"NCCL_NET_GDR_LEVEL": "SYS"}), serve(PLAIN, env={"NCCL_NET_GDR_LEVEL": "LOC"})),
    "R148": (
        run(NGC, f"vllm serve {PLAIN}", env={"NCCL_IB_HCA": "rocep1s0f1"}),
        run(NGC, f"vllm serve {PLAIN}", env={"NCCL_IB_HCA": "rocep1s0f1", "NCCL_NET": "Socket"}),
    ),
    "R149": (
        serve(PLAIN, env={"NCCL_IB_HCA": "=rocep1s0f1:1"}, host={"rdma_addresses": {"rocep1s0f1": None}}),
        serve(PLAIN, env={"NCCL_IB_HCA": "=rocep1s0f1:1"}, host={"rdma_addresses": {"rocep1s0f1": "192.0.2.1"}}),
    ),
    "R150": (serve(PLAIN, group=PAIR, host={"mtu": 1500}), serve(PLAIN, group=PAIR, host={"mtu": 9000})),
    "R151": (
        serve(PLAIN, env={"NCCL_IB_HCA": "=rocep1s0f1:1,roceP2p1s0f1:1"}),
        serve(PLAIN, env={"NCCL_IB_HCA": "=rocep1s0f1:1"}),
    ),
    "R153": (
        serve(f"{PLAIN} -tp 2 --distributed-executor-backend ray", group=PAIR),
        serve(
            f"{PLAIN} -tp 2 --distributed-executor-backend ray", group=PAIR, env={"RAY_memory_monitor_refresh_ms": "0"}
        ),
    ),
    "R158": (
        serve(f"{PLAIN} -tp 2 --distributed-executor-backend ray", "0.11.0", group=PAIR),
        serve(f"{PLAIN} -tp 2 --distributed-executor-backend ray", "0.11.1", group=PAIR),
    ),
    "R154": (
        serve(PLAIN, group={"hosts": 2, "revisions": ["a", "b"]}),
        serve(PLAIN, group={"hosts": 2, "revisions": ["a", "a"]}),
    ),
    "R155": (
        serve(PLAIN, group={"fabric_addresses": ["192.168.100.0/24"]}, service={"address": "192.168.100.10"}),
        serve(PLAIN, group={"fabric_addresses": ["192.168.100.0/24"]}, service={"address": "192.168.102.11"}),
    ),
    # late
    "X4": (
        serve(f"{PLAIN} -tp 2 --nnodes 2 --node-rank 1 --master-addr 192.0.2.1"),
        serve(f"{PLAIN} -tp 2 --nnodes 2 --node-rank 1 --master-addr 192.0.2.1 --headless"),
    ),
    "X9": (
        run("vllm/vllm-openai:v0.29.0", f"{PLAIN} --moe-backend b12x"),
        run("vllm/vllm-openai:v0.29.0", f"{PLAIN} --moe-backend flashinfer_b12x"),
    ),
    "X10": (
        serve(f"{QWEN36} --moe-backend flashinfer_b12x", "0.31.0"),
        serve(f"{QWEN36} --moe-backend flashinfer_b12x", "0.32.0"),
    ),
    "X11": (
        serve(f"{PLAIN} --enable-auto-tool-choice"),
        serve(f"{PLAIN} --enable-auto-tool-choice --tool-call-parser hermes"),
    ),
    "X12": (
        run("vllm/vllm-openai:v0.28.0", f"{PLAIN} --load-format instanttensor"),
        run("vllm/vllm-openai:v0.29.0", f"{PLAIN} --load-format instanttensor"),
    ),
    "X13": (
        serve(
            f"""{PLAIN} --safetensors-load-strategy eager
            --model-loader-extra-config '{{"enable_multithread_load": true}}'""",
            "0.28.0",
        ),
        serve(f"""{PLAIN} --model-loader-extra-config '{{"enable_multithread_load": true}}'""", "0.28.0"),
    ),
    "X14": (serve(f"{PLAIN} --headless --api-server-count 1"), serve(f"{PLAIN} --headless --api-server-count 0")),
    "X15": (
        serve(f"{QWEN36} --no-enable-chunked-prefill", "0.28.0"),
        serve(f"{QWEN36} --no-enable-chunked-prefill --no-enable-prefix-caching", "0.28.0"),
    ),
    "X18": (run("vllm/vllm-openai:v0.32.0", PLAIN, env=RING), run("vllm/vllm-openai:v0.33.0", PLAIN, env=RING)),
    "X19": (
        serve(f"{PLAIN} --kv-offloading-size 8", "0.28.0", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
        serve(f"{PLAIN} --kv-offloading-size 8", "0.28.0", env={"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection:0.8"}),
    ),
    "X24": (
        serve(FLASH_NEXT, "0.30.0", env={"VLLM_PLE_CPU_OFFLOAD": "1"}),
        serve(FLASH_NEXT, "0.30.0", env={"VLLM_PLE_CPU_OFFLOAD": "0"}),
    ),
    "X22": (serve(FLASH_NEXT, "0.29.0"), serve(f"{FLASH_NEXT} --no-enable-prefix-caching", "0.29.0")),
    "X23": (
        serve(PLAIN, model={"config": {"quantization": {"bits": 4, "group_size": 64}}}),
        serve(PLAIN, model={"config": {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64}}}),
    ),
    "X20": (serve(f"{PLAIN} --enable-sleep-mode"), serve(PLAIN)),
    "X17": (serve(f"{PLAIN} --cpu-offload-gb 90"), serve(f"{PLAIN} --cpu-offload-gb 0")),
    "X25": (
        serve(f"{QWEN36} --tool-call-parser qwen3_xml"),
        serve("Qwen/Qwen3.6-35B-A3B-FP8 --tool-call-parser qwen3_xml"),
    ),
    "X26": (serve(f"{QWEN36_DENSE} {MTP} --enable-prefix-caching", "0.27.1"), serve(f"{QWEN36_DENSE} {MTP}", "0.27.1")),
    "X27": (
        serve(f"{PLAIN} {NGRAM} --kv-cache-dtype turboquant_k8v4", "0.27.1"),
        serve(f"{PLAIN} {NGRAM} --kv-cache-dtype turboquant_k8v4 {PIECEWISE}", "0.27.1"),
    ),
    "X28": (
        serve(f"{QWEN36} {draft(method='eagle3', model='a/Eagle3-NVFP4', num_speculative_tokens=3)}", "0.28.0"),
        serve(f"{QWEN36} {draft(method='eagle3', model='a/Eagle3-FP8', num_speculative_tokens=3)}", "0.28.0"),
    ),
    "X29": (serve(f"{PLAIN} {FUSED}", "0.28.0"), serve(f"{PLAIN} {FUSED}", "0.28.0", host={"sm": 100})),
    "X30": (
        serve(f"{QWEN36_DENSE} {MTP} --enable-prefix-caching", "0.28.0"),
        serve(f"{QWEN36_DENSE} {MTP} --enable-prefix-caching --no-async-scheduling", "0.28.0"),
    ),
    "X36": (
        serve(QWEN36, "0.28.0"),
        serve(QWEN36, "0.28.0", env={"VLLM_DISABLED_KERNELS": "FlashInferFP8ScaledMMLinearKernel"}),
    ),
    "X37": (
        serve(f"""{PLAIN} --hf-overrides '{{"quantization_config": {{"quant_method": "fp8"}}}}'"""),
        serve(f"""{PLAIN} --hf-overrides '{{"rope_theta": 1000000}}'"""),
    ),
    "X34": (serve(f"{PLAIN} --offload-group-size 8", "0.28.0"), serve(f"{PLAIN} --offload-group-size 0", "0.28.0")),
    "X35": (serve(f"""{PLAIN} --speculative-config '{{"num_speculative_tokens": 3}}'"""), serve(f"{PLAIN} {NGRAM}")),
    "X33": (serve(f"{QWEN36_DENSE} {MTP} {NIXL}", "0.28.0"), serve(f"{QWEN36_DENSE} {NIXL}", "0.28.0")),
    "X31": (
        serve(f"{QWEN36} --enable-eplb --enable-expert-parallel"),
        serve(f"{QWEN36} --enable-eplb --enable-expert-parallel -tp 2", group=PAIR),
    ),
    "X32": (
        serve(f"{PLAIN} --quantization awq", model={"config": {"architectures": ["Qwen3ForCausalLM"]}}),
        serve(f"{PLAIN} --quantization fp8", model={"config": {"architectures": ["Qwen3ForCausalLM"]}}),
    ),
    "X16": (serve(f"{QWEN36} --kv-cache-dtype nvfp4", "0.24.0"), serve(f"{QWEN36} --kv-cache-dtype nvfp4", "0.33.0")),
    "K4": (
        serve(NANO, "0.20.0", service={"kv_blocks": 351}),
        serve(f"{NANO} --max-num-seqs 256", "0.20.0", service={"kv_blocks": 351}),
    ),
    "K5": (
        serve(f"{QWEN36} --enable-prefix-caching", "0.20.0", service={"kv_block_size": 2096}),
        serve(
            f"{QWEN36} --enable-prefix-caching --max-num-batched-tokens 8192", "0.20.0", service={"kv_block_size": 2096}
        ),
    ),
    "K6": (
        serve(f"{PLAIN} --kv-cache-dtype fp8", "0.17.1", model={"mla": True}),
        serve(PLAIN, "0.17.1", model={"mla": True}),
    ),
    "K7": (serve(f"{PLAIN} --swap-space 90", "0.17.1"), serve(f"{PLAIN} --swap-space 4", "0.17.1")),
    "R159": (serve(PLAIN, service={"open": True}), serve(PLAIN, service={"open": False})),
    "R160": (
        serve(QWEN_VL, service={"recipe": "some-recipe"}),
        serve(f"{QWEN_VL} --allowed-media-domains none.invalid", service={"recipe": "some-recipe"}),
    ),
    "L8": (
        serve(f"deepseek-ai/DeepSeek-V4 {draft(method='dspark', num_speculative_tokens=3)}", "0.26.0"),
        serve(f"x/DeepSeek-V4-Flash-Vision-Exp {draft(method='dspark', num_speculative_tokens=6)}", "0.33.0"),
    ),
    "L9": (serve(f"{PLAIN} --gpu-memory-utilization 80"), serve(f"{PLAIN} --gpu-memory-utilization 0.8")),
    "L11": (
        serve(f"{PLAIN} --kv-cache-memory-bytes 4G"),
        serve(f"{PLAIN} --kv-cache-memory-bytes 4G --gpu-memory-utilization 0.3"),
    ),
    "L13": (serve(f"{PLAIN} --load-format instanttensor"), serve(PLAIN)),
    "L16": (serve(QWEN36, group=PAIR), serve(GEMMA, group=PAIR)),
    "L17": (
        serve(f"{PLAIN} -tp 2 --gpu-memory-utilization 0.85", group=PAIR),
        serve(f"{PLAIN} -tp 2 --gpu-memory-utilization 0.80", group=PAIR),
    ),
    "X21": (
        serve(PLAIN, "0.26.0", model={"mla": True, "quant_method": "awq"}),
        serve(PLAIN, "0.28.0", model={"mla": True, "quant_method": "awq"}),
    ),
    "L18": (serve(PLAIN), serve(f"{PLAIN} --revision {'0' * 40}")),
}


def latent(of_weights: dict[str, object], name: str = PLAIN, **written: object) -> Launch:
    """A launch of latent attention with compressed weights of these figures."""
    groups = {"group_0": {"weights": of_weights, "targets": ["Linear"]}}
    quantization = {"quant_method": "compressed-tensors", "config_groups": groups, **written}
    config = {"model_type": "deepseek_v3", "kv_lora_rank": 512, "quantization_config": quantization}
    return serve(name, "0.26.0", model={"config": config})


# Further launches that trip a rule, by another half of its condition.
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
MORE: list[tuple[str, Launch]] = [
    ("X21", latent({"num_bits": 4, "type": "int"})),
    ("X21", latent({"num_bits": 8, "type": "int"}, format="pack-quantized")),
    ("X21", serve("some/Model-W4A16", "0.26.0", model={"mla": True, "quant_method": "compressed-tensors"})),
    ("X28", serve(f"soyrsoyr/Qwen3.8-27B-NVFP4-MTP {MTP}", "0.28.0")),
    ("X29", serve(f"{PLAIN} {FUSED}", "0.33.0")),
    ("X30", serve(f"{QWEN36_DENSE} {DFLASH}", "0.28.0")),
    ("X36", serve("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8 --linear-backend auto", "0.27.1")),
    ("X31", serve(f"{QWEN36} --enable-eplb -tp 2", group=PAIR)),
    ("X38", serve(f"{PLAIN} --data-parallel-size-local 2")),
    ("X39", serve(PLAIN, container={}, env={"VLLM_PLE_TABLE_MEMORY": "disk"})),
    ("X39", serve(f'{PLAIN} --engram-config \'{{"table_memory": "disk"}}\'', container={})),
    (
        "X31",
        serve(f"{QWEN36} --enable-expert-parallel -tp 2 --eplb-config '{{\"num_redundant_experts\": 8}}'", group=PAIR),
    ),
    ("X32", serve(f"{PLAIN} -q gptq_marlin", model={"config": {"architectures": ["Qwen3ForCausalLM"]}})),
    ("R081", serve(CODER_NEXT)),
    ("R037", run("vllm-node:1", f"vllm serve {NANO} --reasoning-parser nano_v3", vllm_version="0.18.0")),
    ("X19", serve(f"{PLAIN} {NIXL}", "0.33.0", env=EXPANDABLE)),
    ("R119", serve(f"{GEMMA_MOE} -pp 2", group=PAIR)),
    ("R044", serve(f"{QWEN36} {draft(method='mtp', model='a/head', num_speculative_tokens=3)}")),
    ("R012", run(UPSTREAM, "openai/whisper-large-v3", model={"architecture": "WhisperForConditionalGeneration"})),
    ("X10", serve(f"{QWEN36} --moe-backend flashinfer_cutlass")),
    ("R041", serve(QWEN36, service={"tools": True})),
    ("R074", serve(f"{QWEN36} {MTP}", service={"profile": "concurrent"})),
    (
        "R093",
        serve(
            f"{PLAIN} --safetensors-load-strategy eager",
            model={"weights_bytes": 76 * 10**9},
            host={"mem_available_bytes": 90 * 10**9},
        ),
    ),
    # of the weights a rank has its part: less than that and the runtime is too little for it
    ("R088", serve(f"{NANO} -tp 2 --gpu-memory-utilization 0.09", model={"weights_bytes": 18 * 10**9}, group=PAIR)),
    ("R121", serve(OMNI, service={"media_files": True})),
    ("R123", serve(QWEN_VL, service={"video": True, "ready_timeout_s": 1800})),
    ("R129", serve(PLAIN, env={"HF_HUB_OFFLINE": "1"}, model={"cached": False})),
    ("R133", serve(PLAIN, service={"ready_timeout_s": 600}, host={"compile_cache": False})),
]
