# SPDX-License-Identifier: GPL-3.0-or-later
"""Over how many ranks a model can be divided: within its layers (tensor parallel), and by its layers (pipeline).

From the shape in config.json alone. What somebody has measured otherwise is a rule (`rules`), not a number here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..._base.layers import Value
from ..._facts.models.config import ConfigJson, number

# The numbers of hosts that fleets have: cables and rings join two and three, switches four and eight.
FLEETS = (1, 2, 3, 4, 8)
PARTITION = "VLLM_PP_LAYER_PARTITION"
# Elements of a weight that share a scale, where the checkpoint doesn't say; a rank holds whole ones.
_BLOCKS = {"fp8": 128, "awq": 128, "gptq": 128, "modelopt": 16}


@dataclass(frozen=True)
class Part:
    """Something of each layer that ranks share out evenly. copies: with more ranks than parts, some hold the same.

    preferred: vLLM has kernels for other shares too, but no scale of the checkpoint may be cut.
    """

    what: str
    count: int
    copies: bool = False
    preferred: bool = False

    def divides(self, ranks: int) -> bool:
        return self.count % ranks == 0 or (self.copies and ranks % self.count == 0)


@dataclass(frozen=True)
class Shape:
    """What of a model decides its division; layers: None where config.json doesn't say."""

    parts: Sequence[Part]
    layers: int | None

    def against(self, tensor: int, pipeline: int = 1, *, preferred: bool = False) -> list[str]:
        """Why so many ranks can't be: each as words with its numbers. preferred: also what only should not be."""
        found = [
            f"{part.count} {part.what} over {tensor} ranks"
            for part in self.parts
            if (preferred or not part.preferred) and not part.divides(tensor)
        ]
        if self.layers is not None and pipeline > self.layers:
            found.append(f"{self.layers} layers in {pipeline} stages")
        return found

    def split(self, ranks: int, *, shown: bool = False) -> tuple[int, int] | None:
        """Tensor and pipeline parallel size: as much of the former as the model allows, since each token then uses
        the memory bandwidth of all hosts. shown: somebody has run it on so many, whatever scales were cut."""
        for tensor in range(ranks, 0, -1):
            if ranks % tensor == 0 and not self.against(tensor, ranks // tensor, preferred=not shown):
                return tensor, ranks // tensor
        return None

    def tensor_sizes(self) -> list[int]:
        """The tensor parallel sizes that are possible on up to eight hosts."""
        return [size for size in range(1, FLEETS[-1] + 1) if not self.against(size)]

    def host_counts(self) -> list[int]:
        """The numbers of hosts that the model divides into."""
        return [count for count in FLEETS if self.split(count)]


def shape_of(config: Mapping[str, object] | None, quantization: str | None) -> Shape | None:
    """The shape of a model; None where its config.json isn't known or names no heads.

    quantization: the checkpoint's method, for a config.json of the base model.
    """
    text = ConfigJson(config or {}).text
    if not number(text, "num_attention_heads"):
        return None
    return Shape([*_parts(text), *_scaled(text, _block(config or {}, quantization))], _layers(text))


def _parts(text: Mapping[str, object]) -> Iterator[Part]:
    """Heads of each kind (vllm/config/model.py, verify_with_parallel_config; vllm/distributed/utils.py, divide;
    QKVParallelLinear copies KV heads; Mamba pads its groups)."""
    yield Part("attention heads", number(text, "num_attention_heads"))
    kv_heads = number(text, "num_key_value_heads")
    if kv_heads and not number(text, "kv_lora_rank"):
        yield Part("KV heads", kv_heads, copies=True)
    for what, key in (
        ("Mamba heads", "mamba_num_heads"),
        ("key heads of linear attention", "linear_num_key_heads"),
        ("value heads of linear attention", "linear_num_value_heads"),
    ):
        if number(text, key):
            yield Part(what, number(text, key))


def _scaled(text: Mapping[str, object], block: int) -> Iterator[Part]:
    """Widths of the MLPs (fused_moe/config.py and linear.py assert that they divide), in blocks that share a scale
    (fp8_utils.py, validate_fp8_block_shape)."""
    for what, key in (
        ("channels of the MLP", "intermediate_size"),
        ("channels of an expert", "moe_intermediate_size"),
        ("channels of the shared expert", "shared_expert_intermediate_size"),
    ):
        width = number(text, key)
        if width:
            yield Part(what, width)
        if width and block > 1 and width % block == 0:
            yield Part(f"blocks of {block} {what}", width // block, preferred=True)


def _block(config: Mapping[str, object], quantization: str | None) -> int:
    written = ConfigJson(config).quantization
    shape = written.get("weight_block_size")
    if isinstance(shape, list) and shape and all(isinstance(size, int) and size > 0 for size in shape):
        return int(max(shape))
    size = written.get("group_size")
    if isinstance(size, int) and size > 0:
        return size
    return _BLOCKS.get(str(written.get("quant_method") or quantization), 1)


def stage_layers(config: Mapping[str, object] | None, count: int, variables: Mapping[str, Value]) -> list[int] | None:
    """The layers of each pipeline stage: as `PARTITION` says, else as even as it goes, where the last stage has fewest
    (vllm/distributed/utils.py, get_pp_indices); None where config.json doesn't say how many there are."""
    layers = _layers(ConfigJson(config or {}).text)
    if layers is None:
        return None
    written = str(variables[PARTITION].value).split(",") if PARTITION in variables else []
    if len(written) == count and all(part.strip().isdecimal() for part in written):
        return [int(part) for part in written]
    each, left = divmod(layers, count)
    return [each + (count - 2 - left < at <= count - 2) for at in range(count)]


def _layers(text: Mapping[str, object]) -> int | None:
    pattern = text.get("hybrid_override_pattern") or text.get("layers_block_type")
    return number(text, "num_hidden_layers") or (len(pattern) if isinstance(pattern, str | list) else None)
