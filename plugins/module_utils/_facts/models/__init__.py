# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a model: by its config.json, and by its repository's name."""
