"""A picture of a page, of bounded size, where one can be had."""

from __future__ import annotations

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import FloatRect, Page

MAX_SCREENSHOT_BYTES = 5_000_000
MAX_HEIGHT_PIXELS = 8_000
"""Some ten screens; Chromium holds four bytes per pixel while it draws."""


async def take_screenshot(page: Page, *, within_seconds: float) -> bytes | None:
    """A PNG of the page from its top, at most `MAX_HEIGHT_PIXELS` high.

    Of what fits the window alone where the whole is larger than `MAX_SCREENSHOT_BYTES`; None where that is too large
    as well, or the browser could not draw it in `within_seconds`: a picture is never worth the page.
    """
    milliseconds = max(1.0, within_seconds * 1_000 / 2)
    window = page.viewport_size or {"width": 1_280, "height": 720}
    for height in (MAX_HEIGHT_PIXELS, window["height"]):
        area = FloatRect(x=0, y=0, width=window["width"], height=height)
        try:
            picture = await page.screenshot(clip=area, full_page=True, timeout=milliseconds, animations="disabled")
        except PlaywrightError:
            return None
        if len(picture) <= MAX_SCREENSHOT_BYTES:
            return picture
    return None
