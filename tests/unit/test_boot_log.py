"""Boot logs as vLLM's releases print them."""

from __future__ import annotations

import multiprocessing
import resource

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.boots import BootLog
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.boot_log import parse_boot_log

TWO_LINES = """\
(EngineCore_DP0 pid=99) INFO [gpu_model_runner.py:2653] Model loading took 17.7012 GiB and 84.123456 seconds
(EngineCore_DP0 pid=99) INFO [gpu_worker.py:298] Available KV cache memory: 76.49 GiB
(EngineCore_DP0 pid=99) INFO [kv_cache_utils.py:1087] GPU KV cache size: 4,843,965 tokens
(EngineCore_DP0 pid=99) INFO [kv_cache_utils.py:1091] Maximum concurrency for 65,536 tokens per request: 73.91x
(EngineCore_DP0 pid=99) INFO [gpu_model_runner.py:3480] Graph capturing finished in 3 secs, took 0.55 GiB
"""
ONE_LINE = (
    "(EngineCore pid=17) INFO 11-21 03:23:07 [kv_cache_utils.py:2327] CPU KV cache size: 65,536 tokens, "
    "Maximum concurrency for 2,048 tokens per request: 32.00x"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO_LINES, BootLog(17.7012, 76.49, 0.55, 4843965, 65536, 73.91)),
        (ONE_LINE, BootLog(kv_cache_tokens=65536, max_model_len=2048, max_concurrency=32.0)),
        ("Available KV cache memory: -1.8 GiB", BootLog(available_kv_gib=-1.8)),
        ("Auto set (0.89/23.54) GiB for KV cache on node 0, with 1.41 GiB", BootLog(available_kv_gib=0.89)),
        ("Initializing a V1 LLM engine (v0.11.2) with config: model=", BootLog(release="0.11.2")),
        ("", BootLog()),
        # of 0.22 to 0.33: the model's, its drafter's, those that a GB10 has no use for
        (
            "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].\n"
            "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'MARLIN'].\n"
            "Using TRITON Unquantized MoE backend out of potential backends: ['TRITON'].\n"
            "Using MarlinNvFp4LinearKernel for NVFP4 GEMM\nUsing 'MARLIN' NvFp4 MoE backend out of ...\n",
            BootLog(kernels="FLASHINFER attention, MARLIN MoE, TRITON MoE, MarlinNvFp4LinearKernel GEMM"),
        ),
        ("Using 'B12X' MxFp8 MoE backend (user-requested).", BootLog(kernels="B12X MoE")),
    ],
)
def test_the_figures_of_a_start(text: str, expected: BootLog) -> None:
    assert parse_boot_log(text) == expected


def test_the_last_start_in_a_log_counts() -> None:
    assert parse_boot_log(TWO_LINES + ONE_LINE).kv_cache_tokens == 65536


@pytest.mark.parametrize("engine", [*ENGINES])
def test_a_line_without_end_takes_no_processor(engine: str) -> None:
    """A publisher's code prints what it likes, and the controller reads it: 20 kB took 89 s (security 19)."""
    repeated = (
        "x",
        "[",
        "llama_kv_cache: size = (",
        "Load weight end.",
        "max_total_num_tokens=1, ",
        "KV cache size: 1 ",
    )
    lines = [(words * 65_536)[:65_536] for words in repeated]

    def read() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        for line in lines:
            ENGINES[engine].boot(line)

    process = multiprocessing.get_context("fork").Process(target=read)
    process.start()
    process.join()
    assert process.exitcode == 0
