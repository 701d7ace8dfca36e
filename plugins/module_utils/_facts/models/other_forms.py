# SPDX-License-Identifier: GPL-3.0-or-later
"""What a repository or a folder holds that is no model to serve: an adapter, a drafter, another program's files."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ..._base.received import LINE, Unread, matching, one_line, words_of
from .config import ConfigJson

ADAPTER = "adapter_config.json"
# Of what a training leaves behind vLLM loads nothing (model_executor/model_loader/weight_utils.py).
_NO_WEIGHTS = re.compile(r"(openvino_|ggml-|training_args|optimizer|scheduler).*\.bin$")
# Beside the safetensors of the hub's form some publishers ship the same weights in their own.
_SAME_AGAIN = ("consolidated", "original", "adapter_")
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")
# By a part of a file's name, in this order.
_OTHERS = {
    r"\.nemo$": "NVIDIA NeMo",
    r"(^|/)ggml-.*\.bin$": "whisper.cpp",
    r"\.onnx(_data)?$": "ONNX",
    r"openvino_.*\.(xml|bin)$": "OpenVINO",
    r"\.(engine|plan)$": "TensorRT, built for one kind of GPU",
    r"\.ml(package|modelc)(/|$)": "Core ML",
    r"\.(litertlm|tflite|task)$": "LiteRT",
    r"\.(h5|keras|pb)$": "TensorFlow",
    r"\.msgpack$": "Flax",
    r"\.(pth|pt|ckpt)$": "PyTorch, in a form of its own",
}
_DRAFTERS = re.compile(r"(?i:eagle|dflash|dspark|draft|medusa|xpress|lilicorr|speculator)|MTP|Assistant")
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that --max-lora-rank takes
_REPOSITORY = r"[\w.-]{1,96}/[\w.-]{1,96}"


class OtherForm(NamedTuple):
    """The texts of a finding."""

    found: str
    expected: str
    remedy: str


def weights_of(sizes: Mapping[str, int], index: Collection[str] = ()) -> int:
    """The weights as they are loaded: those at the top, each once.

    index: the files that the index of the safetensors names. vLLM loads no others beside them
    (model_executor/model_loader/weight_utils.py, filter_duplicate_safetensors_files, 0.33.0).
    """
    files = [name for name in sizes if "/" not in name and not _NO_WEIGHTS.match(name)]
    if named := [name for name in files if name in index]:
        return sum(sizes[name] for name in named)
    for again in (False, True):
        for ending in (".safetensors", ".bin"):
            main = [name for name in files if name.endswith(ending) and name.startswith(_SAME_AGAIN) is again]
            if main:
                return sum(sizes[name] for name in main)
    return 0


def missing_shards(sizes: Mapping[str, int], index: Collection[str]) -> list[str]:
    """Files of safetensors that belong to a model and are not there, by its index, or else by their numbers.

    Of each row of numbers the first that lacks. vLLM raises FileNotFoundError for a file of the index, and loads a
    part of numbered ones (weight_utils.py, 0.33.0).
    """
    there = {name for name in sizes if "/" not in name and name.endswith(".safetensors")}
    if not there or index:
        return sorted(set(index) - there) if there else []
    numbers: dict[tuple[str, str], set[int]] = {}
    for name in there:
        if match := _SHARD.fullmatch(name):
            numbers.setdefault((match[1], match[3]), set()).add(int(match[2]))
    lacking = {key: next(at for at in range(1, len(seen) + 2) if at not in seen) for key, seen in numbers.items()}
    return sorted(f"{of}-{at:05d}-of-{last}.safetensors" for (of, last), at in lacking.items() if at <= int(last))


def other_form(
    repository: str, sizes: Mapping[str, int], adapter: Mapping[str, object] | None, answered: Unread, has_config: bool
) -> OtherForm | None:
    """What it is in place of a model in the hub's form; None where it may be one.

    sizes: of its files. adapter: its adapter_config.json. answered: the hub's answer.
    """
    weighed = [name for name in sizes if "/" not in name and name.endswith((".safetensors", ".bin"))]
    own = [name for name in weighed if not name.startswith("adapter_") and not _NO_WEIGHTS.match(name)]
    if not own and (adapter is not None or any(name.startswith("adapter_model") for name in sizes)):
        return _adapter(repository, adapter or {})
    if "model_index.json" in sizes or (words_of(answered.get("library_name")) == "diffusers" and not has_config):
        made = re.fullmatch(r"[\w-]*-to-(\w{1,20})", one_line(words_of(answered.get("pipeline_tag"))))
        return OtherForm(
            "a pipeline of diffusers" + (f", which makes {made[1]}" if made else ""),
            "a model that answers in text, embeds, ranks or transcribes",
            "name another model; the engines here serve none of its kind",
        )
    if not has_config and "params.json" in sizes and own:
        return OtherForm(
            "a model in Mistral's own form, whose params.json the plan does not read",
            "config.json beside the weights",
            "write a recipe of your own (docs/how-to/recipes.md) with flags: {config-format: mistral, "
            "load-format: mistral, tokenizer-mode: mistral}",
        )
    if own:
        return None
    other = next((of for part, of in _OTHERS.items() if any(re.search(part, name) for name in sizes)), None)
    return OtherForm(
        f"no weights that an engine here loads{f', but files of {other}' if other else ''}",
        "a model in the hub's form: config.json and safetensors; or GGUF files, for llama.cpp",
        "name the repository that holds the model itself",
    )


def drafter_form(repository: str, config: ConfigJson) -> OtherForm | None:
    """What is said of a drafter that is named as a model; None for a model."""
    of_type = str(config.values.get("model_type"))
    if not _DRAFTERS.search(config.architecture or "") and not of_type.endswith(("_mtp", "_assistant")):
        return None
    return OtherForm(
        f"{config.architecture}, a drafter, which guesses the tokens of another model",
        "the model that it was made for",
        f"name that model, and write flags: {{speculative-config: {{model: {repository}, num_speculative_tokens: 3}}}}",
    )


def gguf_form(metadata: Mapping[str, Unread]) -> OtherForm | None:
    """What a GGUF file is by its header, in place of a model."""
    kind = one_line(words_of(metadata["general.type"]), 30) if "general.type" in metadata else "model"
    if kind == "model":
        return None
    url = "general.base_model.0.repo_url"
    base = one_line(words_of(metadata[url])).rstrip("/").split("/")[-2:] if url in metadata else []
    known = re.fullmatch(_REPOSITORY, "/".join(base))
    of = f"of {'/'.join(base)}" if known else "of a model that it does not name"
    found = f"a LoRA adapter {of}" if kind == "adapter" else f"a GGUF file of type {json.dumps(kind)}"
    return OtherForm(
        f"{found}, and no model",
        "the GGUF file of a model",
        "name the model that it belongs to; llama-server's option lora loads an adapter",
    )


def _adapter(repository: str, config: Mapping[str, object]) -> OtherForm:
    base, rank = matching(_REPOSITORY, config.get("base_model_name_or_path")), config.get("r")
    kind = re.sub(r"\W", "", matching(LINE, config.get("peft_type", "LORA")) or "")[:30].upper()
    of = f"of {base}" if base else "of a model that it does not name"
    lacking = [*_unloadable(kind, config, rank)]
    found = f"a {'LoRA' if kind == 'LORA' else kind} adapter {of}{''.join(lacking)}, and no model"
    if lacking:
        return OtherForm(found, "a LoRA adapter that vLLM loads", "merge it into its base, and name what results")
    places = next(at for at in _RANKS if at >= rank) if isinstance(rank, int) else _RANKS[1]
    modules = f'lora-modules: ["{repository.rpartition("/")[2]}={repository}"]'
    flags = f"flags: {{enable-lora: true, max-lora-rank: {places}, {modules}}}"
    remedy = f"write in the service {{model: {base or 'ITS BASE'}, {flags}}}"
    return OtherForm(found, "the model itself, which loads the adapter", remedy)


def _unloadable(kind: str, config: Mapping[str, object], rank: object) -> Iterator[str]:
    """Why vLLM loads it with no model (vllm/lora/peft_helper.py)."""
    if kind != "LORA":
        yield ", which vLLM does not load"
    if config.get("use_dora"):
        yield " with DoRA, which vLLM does not load"
    if isinstance(rank, int) and rank > _RANKS[-1]:
        yield f" with rank {rank}, where vLLM has {_RANKS[-1]} at most"
