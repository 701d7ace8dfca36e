# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for vLLM whatever the service."""

from ..interface import EngineSpec, KeyFile, TlsFiles
from ..tables import table_of
from .text.boot_log import LINES
from .text.image_facts import FAMILIES

SPEC = EngineSpec(
    name="vllm",
    families=FAMILIES,
    # --config: YAML, which reads JSON as well
    key=KeyFile("/run/secrets/vllm.yaml", "api-key: %s\n"),
    tls=TlsFiles("/run/secrets/tls.crt", "/run/secrets/tls.key"),
    boot_lines=LINES,
    **table_of("vllm"),
)
