# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person does in Open WebUI, by a headless Chromium: signs in, picks the model, asks, and reads the answer.

A program of its own, in an environment of its own (requirements/browser.txt) and in the lab's network. It prints one
line of JSON: ``models`` of the list, ``seen``, the answer each time that it had grown, and ``errors`` of the page.
"""

from __future__ import annotations

import argparse
import json
import sys

from playwright.sync_api import Page, expect, sync_playwright

# Chromium's own connections to the world, of which a lab has none.
_QUIET = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run")
_PATIENCE_MS = 240_000
_ANSWERS = ".chat-assistant"
# Each text of the newest answer, from the moment on at which it appears.
_WATCH = """() => {
  window.seen = [];
  new MutationObserver(() => {
    const all = document.querySelectorAll('.chat-assistant');
    const text = all.length ? all[all.length - 1].innerText.trim() : '';
    if (text && window.seen[window.seen.length - 1] !== text) window.seen.push(text);
  }).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""


def sign_in(page: Page, url: str, account: str, password: str) -> None:
    page.goto(url, wait_until="domcontentloaded")
    page.locator("input[type=email]").fill(account)
    page.locator("input[type=password]").fill(password)
    page.locator("button[type=submit]").click()
    page.locator("#chat-input").wait_for()
    # what is new in this release, shown once over the page
    page.keyboard.press("Escape")


def pick(page: Page, model: str) -> list[str]:
    """The models that the page offers, of which one is chosen."""
    page.locator("button[id^=model-selector]").first.click()
    offered = page.locator("button[aria-roledescription=model-item], [data-value]")
    offered.first.wait_for()
    names = [text.strip() for text in offered.all_inner_texts()]
    offered.filter(has_text=model).first.click()
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("url", "account", "model", "question", "screenshot", "chromium"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    password = sys.stdin.readline().strip()
    errors: list[str] = []
    with sync_playwright() as drive:
        browser = drive.chromium.launch(executable_path=asked.chromium, args=[*_QUIET])
        page = browser.new_page(viewport={"width": 1200, "height": 760}, color_scheme="light", locale="en-US")
        page.set_default_timeout(_PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)[:300]))
        try:
            sign_in(page, asked.url, asked.account, password)
            models = pick(page, asked.model)
            page.evaluate(_WATCH)
            page.locator("#chat-input").click()
            page.keyboard.type(asked.question)
            page.keyboard.press("Enter")
            # an answer that is whole has a button to copy it
            expect(page.locator(".copy-response-button").first).to_be_visible(timeout=_PATIENCE_MS)
            seen = page.evaluate("window.seen")
        finally:
            page.screenshot(path=asked.screenshot)
            browser.close()
    print(json.dumps({"models": models, "seen": seen, "errors": errors}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
