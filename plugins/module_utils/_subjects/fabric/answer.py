# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of what hosts answer about their fabric: `_subjects.fabric.reading` and measurements."""

from ..._base.forms import forms

_FORMS = forms("fabric_answer")
READING, BANDWIDTH = _FORMS["reading"], _FORMS["bandwidth"]
