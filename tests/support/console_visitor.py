"""A visitor of the console: gets pages, and sends the forms that stand on them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from starlette.testclient import TestClient

from tests.support.console import signed_in

HOSTILE = (
    "<script>pwned=1</script>",
    '"><img src=x onerror=pwned=1>',
    "' onmouseover='pwned=1",
    "</title><svg/onload=pwned=1>",
    "javascript:pwned=1",
    "\u202eevil {{ 7 * 7 }} {% raw %}",
)
"""Texts that would do something in a page that did not escape them."""


class Visitor:
    """Somebody at the console."""

    def __init__(self, http: TestClient, key: str | None = None) -> None:
        self.http = http
        if key:
            signed_in(http, key)

    def get(self, path: str, status: int = 200, /, **parameters: Any) -> str:
        """The text of a page below /console."""
        shown = self.http.get(f"/console{path}", params=parameters or None)
        assert shown.status_code == status, shown.text[-3_000:]
        return shown.text

    def send(self, page: str, action: str, status: int = 200, /, **fields: Any) -> str:
        """Send the first form of a page that leads to `action` (that of the id `form_id`, if one is given) with its hidden
        fields, and these; return the page that follows."""
        text = self.get(page)
        for found in re.finditer(r"<form[^>]*>.*?</form>", text, re.S):
            if f'action="/console{action}"' in unescape(found[0]):
                hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[0])
                sent = {unescape(name): unescape(value) for name, value in hidden}
                if fields.get("form_id", sent["form_id"]) == sent["form_id"]:
                    response = self.post(action, **{**sent, **fields})
                    assert response.status_code == status, response.text[-3_000:]
                    return str(response.text)
        raise AssertionError(f"{page} has no form for {action}")

    def post(self, action: str, /, **fields: Any) -> Any:
        return self.http.post(f"/console{action}", data=fields)


def said(page: str) -> str:
    """What a page says of the action before it."""
    found = re.search(r'id="said"[^>]*>(.*?)</p>', page, re.S)
    assert found
    return unescape(found[1])


def harmless(page: str) -> None:
    """No hostile text became markup: every tag of the page is one of ours."""
    assert not re.search(r"<(?:script|img|svg/)[^>]*pwned", page)
    assert not re.search(r"<[a-z]+[^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*\son\w+\s*=", page)
    assert not re.search(r'(?:href|src|action)="\s*javascript:', page, re.I)
    assert "evil 49" not in page
