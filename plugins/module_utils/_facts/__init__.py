# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of models, and of images that hosts build."""
