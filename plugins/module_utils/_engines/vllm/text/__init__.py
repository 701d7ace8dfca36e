# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's texts, read: its commands, flags, values, boot logs and the names of its images."""
