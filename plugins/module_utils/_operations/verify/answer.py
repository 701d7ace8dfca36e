# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of what hosts answer about ranks, services, gateways and their clients, by the files of this package."""

from ..._base.forms import forms

_FORMS = forms("verify")
RANKS, SERVICE, GATEWAY = _FORMS["ranks"], _FORMS["service"], _FORMS["gateway"]
GATEWAY_ANSWERS = _FORMS["gateway_answers"]
