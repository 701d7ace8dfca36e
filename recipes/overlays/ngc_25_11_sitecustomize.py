# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two corrections for nvcr.io/nvidia/vllm:25.11-py3 on GB10, applied when Python imports the module concerned.

Python loads a module of this name at each start, so the corrections reach vLLM's worker processes as well.
"""

import importlib.abc
import importlib.util
import sys


def _turn_cudnn_off(torch):
    """cuDNN has no conv3d kernels for sm_121, which the vision encoder asks for."""
    torch.backends.cudnn.enabled = False


def _restore_extended_tokens(module):
    """vLLM 0.11.0 reads this attribute, which the transformers in the image no longer has."""
    tokenizer = module.PreTrainedTokenizerBase
    if not hasattr(tokenizer, "all_special_tokens_extended"):
        tokenizer.all_special_tokens_extended = property(lambda self: list(self.all_special_tokens))


_CORRECTIONS = {"torch": _turn_cudnn_off, "transformers.tokenization_utils_base": _restore_extended_tokens}


class _Corrected(importlib.abc.Loader):
    """A module's own loader, followed by its correction."""

    def __init__(self, loader, correct):
        self._loader = loader
        self._correct = correct

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        self._correct(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules with a correction as usual, and puts the correction behind them."""

    def find_spec(self, fullname, path, target=None):
        correct = _CORRECTIONS.pop(fullname, None)
        if correct is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Corrected(spec.loader, correct)
        return spec


sys.meta_path.insert(0, _Finder())
