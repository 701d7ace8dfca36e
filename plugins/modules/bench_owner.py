# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bench_owner
short_description: Measure one benchmark point through the endpoint with llama-benchy
version_added: 0.1.0
description:
  - Runs llama-benchy on the controller, with the model's own tokenizer from the host. The host of the endpoint is asked
    before and afterwards whether others ask the service.
  - Fails with a sentence where a request is not answered whole.
  - Without O(point) it only brings the tokenizer.
extends_documentation_fragment:
  - gb10.fleet.attributes.measures
options:
  load: {description: C(load) of one of the C(steps) of M(gb10.fleet.bench)., type: dict, required: true}
  owner: {description: C(owner) of the step., type: dict, required: true}
  point: {description: C(point) of the step., type: dict}
  seed: {description: C(seed) of the step., type: int, default: 0}
  tool: {description: The virtual environment of the controller with llama-benchy., type: path, required: true}
  tokenizers: {description: The folder of the controller that tokenizers are brought to., type: path, required: true}
  book:
    description: A file of the controller whose text the prompts are taken from; empty for llama-benchy's own book,
      which it fetches once.
    type: path
    default: ""
attributes:
  action: {description: The controller measures; hosts are asked for the tokenizer and who else asks., support: full}
"""

EXAMPLES = r"""
- name: Measure through the endpoint
  gb10.fleet.bench_owner:
    load: "{{ item.load }}"
    owner: "{{ item.owner }}"
    point: "{{ item.point }}"
    seed: "{{ item.seed }}"
    tool: /home/me/site/.fleet/tools/llama-benchy
    tokenizers: /home/me/site/.fleet/tools/tokenizers
  loop: "{{ bench.steps }}"
"""

RETURN = r"""
seen:
  description: C(image) (its id), C(kernel), C(driver) and C(model) of the service.
  returned: success
  type: dict
figures: {description: "The measured figures, by name.", returned: with O(point), type: dict}
shown: {description: "The figures that follow from them, by name.", returned: with O(point), type: dict}
raw: {description: The output of llama-benchy., returned: with O(point), type: dict}
"""
