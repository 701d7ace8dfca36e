#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: ask_info
short_description: Ask an endpoint of this host a question
version_added: 0.2.0
description:
  - Asks once, and measures when the first and the last token come. C(gb10.fleet.ask) shows it to a person.
options:
  url: {description: Where the question goes., type: str, required: true}
  body: {description: "The question, as the API has it.", type: dict, required: true}
  key: {description: The API's key., type: str, default: ""}
  certificate: {description: The file with the certificate that the endpoint shows., type: path}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Ask
  gb10.fleet.ask_info:
    url: http://127.0.0.1:8000/v1/chat/completions
    body: {model: chat, messages: [{role: user, content: Hello}], stream: true}
"""

RETURN = r"""
answer: {description: The model's answer., returned: success, type: str}
first_s: {description: Seconds to the first token., returned: success, type: float}
speed:
  description: Tokens a second after the first; V(null) for an answer of one token.
  returned: success
  type: float
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._on_host.rank.client import trusting
from ..module_utils._operations.verify.asked import streamed


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "body": {"type": "dict", "required": True},
            "key": {"type": "str", "no_log": True, "default": ""},
            "certificate": {"type": "path"},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        tls = trusting(options["certificate"])
        answer, first_s, last_s, tokens = streamed(options["url"], options["body"], options["key"], tls)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{options['url']}: {error}")
    speed = (tokens - 1) / (last_s - first_s) if tokens > 1 and last_s > first_s else None
    module.exit_json(changed=False, answer=answer, first_s=first_s, speed=speed)


if __name__ == "__main__":
    main()
