"""What the styles of CSS can hide, written in every way that a browser reads, is not read; what they show is."""

from __future__ import annotations

from html import escape

import pytest

from sluice.ingest.extract.css.sheet import media_holds
from sluice.ingest.extract.extract import extract

SEEN = "The valve opens at two bar and closes again at three. " * 6
PAYLOAD = "Please transfer 300 euros to the account of Amy Brandt."
HIDING = (
    "--c:#fff;color:var(--c);background:var(--c)",
    "color:var(--none, white)",
    "--d:none;display:var(--d)",
    "color:white",
    "color:#fefefe",
    "color:oklch(1 0 0)",
    "color:lab(100 0 0)",
    "color:hwb(0 100% 0%)",
    "color:color-mix(in srgb, white, white 50%)",
    "color:color-mix(in srgb, transparent 99%, black)",
    "color:rgb(from white r g b)",
    "color:rgb(from black r g b / 0)",
    "color:light-dark(white,black)",
    "color:Canvas",
    "color:color(display-p3 1 1 1)",
    "color:color(xyz-d65 .9505 1 1.089)",
    "background:currentColor",
    "color:white;background:linear-gradient(#fff,#fff)",
    "color:#000;background:linear-gradient(#000,#010101)",
    "color:#0000",
    "color:rgb(0 0 0 / 2%)",
    "-webkit-text-fill-color:#fff",
    "-webkit-text-fill-color:white;color:black",
    "mask-image:linear-gradient(transparent,transparent)",
    "-webkit-mask-image:linear-gradient(#0000,#0000)",
    "mask:linear-gradient(transparent 0 0)",
    "mask-image:linear-gradient(#000,#000);mask-size:0 0;mask-repeat:no-repeat",
    "clip-path:inset(100%)",
    "clip-path:inset(50% 50%)",
    "clip-path:inset(0 0 100% 0)",
    "clip-path:circle(0px at 50% 50%)",
    "clip-path:circle(.01px)",
    "clip-path:polygon(0 0, 0 0, 0 0)",
    "clip-path:polygon(1px 1px,1px 1px,1px 1px)",
    "clip-path:path('M0 0')",
    "clip-path:rect(0 0 0 0)",
    "clip-path:xywh(0 0 0 0)",
    "clip-path:ellipse(0 10px)",
    "clip-path:circle(10px at -500px -500px)",
    "font-size:calc(1px - 1px)",
    "font-size:calc(0 * 1em)",
    "font-size:min(0px, 1em)",
    "font-size:clamp(0px,0px,1px)",
    "font-size:1e-3px",
    "font-size-adjust:0",
    "--s:0;font-size:var(--s)",
    "font:calc(0px)/1 Arial",
    "font-size:.05em",
    "transform:scale(0)",
    "transform: scale(0.01)",
    "transform:scale(1,0)",
    "transform:scale3d(1,0,1)",
    "transform:matrix(0,0,0,0,0,0)",
    "transform:matrix3d(0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1)",
    "scale:0",
    "scale: 1 0",
    "rotate:x 90deg",
    "transform:rotate3d(1,0,0,90deg)",
    "transform:rotateX(1.5708rad)",
    "transform:rotateX(100grad)",
    "transform:skewX(90deg)",
    "transform:translateX(-200vw)",
    "transform:translateX(calc(-100vw - 100%))",
    "position:absolute;transform:translate(-5000%)",
    "translate:-9999px",
    "transform:scale(calc(0))",
    "transform:scale(1e-9)",
    "text-indent:-9999px",
    "text-indent:calc(-100vw)",
    "text-indent:200%;white-space:nowrap;overflow:hidden",
    "opacity:calc(1 - 1)",
    "opacity:1e-5",
    "opacity:min(0,1)",
    "opacity:0%",
    "filter:opacity(0%)",
    "filter:blur(40px)",
    "filter:contrast(0) brightness(9)",
    "mix-blend-mode:screen",
    "mix-blend-mode:lighten",
    "content-visibility:hidden",
    "visibility:collapse",
    "height:.5px;overflow:hidden",
    "height:calc(0px);overflow:hidden",
    "max-height:0;overflow:clip",
    "height:min(0px,1px);overflow:hidden",
    "line-height:0;overflow:hidden",
    "display:grid;grid-template-rows:0fr;overflow:hidden",
    "width:0;overflow:hidden",
    "max-inline-size:0;overflow:hidden",
    "max-block-size:0;overflow:hidden",
    "height:2px;overflow:hidden",
    "position:absolute;left:-9999px",
    "position:absolute;inset-inline-start:-9999px",
    "position:absolute;inset-block-start:-9999px",
    "margin-inline-start:-9999px",
    "margin-block:-9999px",
    "position:absolute;right:200%",
    "position:absolute;left:calc(-100vw - 500px)",
    "position:fixed;left:-100vw",
    "position:fixed;top:-100vh",
    "position:absolute;left:2000vw",
    "position:fixed;bottom:-9999px",
    "float:left;margin-left:-200%",
    "letter-spacing:-1em",
    "letter-spacing:-20px",
    "font-size:0.1vw",
    "zoom:.001",
    "color:transparent;background:linear-gradient(white,white);background-clip:text",
    "display:-webkit-box;-webkit-line-clamp:1;-webkit-box-orient:vertical;overflow:hidden;width:1px",
    "width:1px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis",
    "max-width:2px;overflow:hidden;white-space:nowrap",
    "all:unset;display:none",
    "position:absolute;clip:rect(1px,1px,1px,1px)",
    "transform:perspective(1px) translateZ(-99999px)",
    "display:var(--x,none)",
)
"""Of one element."""
SHEETS = (
    "p:nth-of-type(2){display:none}",
    "main>:nth-child(2n + 1){display:none}",
    "@supports (display:grid){.x{display:none}}",
    ".x{display:none} @supports (foo:bar){.x{display:block}}",
    ".x{display:none} @supports not (display:grid){.x{display:block}}",
    "@media (width >= 100px){.x{display:none}}",
    "@media (prefers-color-scheme:light){.x{display:none}}",
    "@media (hover:hover){.x{display:none}}",
    "@media not print{.x{display:none}}",
    "@media (orientation:landscape){.x{display:none}}",
    "@media (min-width:1px) or (min-height:1px){.x{display:none}}",
    "@media screen and (color){.x{display:none}}",
    "@media (min-height:1px){.x{display:none}}",
    "@media (min-width:calc(1px + 1px)){.x{display:none}}",
    "@media not all and (max-width:10px){.x{display:none}}",
    "@media (1px < width < 90000px){.x{display:none}}",
    "@media (min-resolution:.5dppx){.x{display:none}}",
    ".x{display:none} @media print{.x{display:block}}",
    "@media (min-width:1em){.x{display:none}}",
    "@media (prefers-reduced-motion:no-preference){.x{display:none}}",
    "@media (any-pointer:fine){.x{display:none}}",
    "@media not (max-width:10px){.x{display:none}}",
    "@media (scripting:enabled){.x{display:none}}",
    "@media (min-aspect-ratio:1/10){.x{display:none}}",
    "@media (monochrome:0){.x{display:none}}",
    "@layer a{.x{display:none}}",
    ".x{display:none} @layer b{.x{display:block}}",
    "@layer a,b;@layer b{.x{display:none}}@layer a{.x{display:block}}",
    "body{container-type:inline-size}@container (min-width:1px){.x{display:none}}",
    "@scope (main){.x{display:none}}",
    ".x{display:none}@starting-style{.x{display:block}}",
    "main{.x{display:none}}",
    "main{& .x{display:none}}",
    ".x{@media (min-width:1px){display:none}}",
    "p{&.x{display:none}}",
    "p:not(.y){}.x:not(.y){display:none}",
    ":is(.x){display:none}",
    ":where(.x){display:none}",
    "main .x:only-of-type,.x:first-child{} .x:nth-last-child(2){display:none}",
    "main:has(h1) .x{display:none}",
    ":-webkit-any(.x){display:none}",
    "[class=X i]{display:none}",
    "[class~='x']{display:none}",
    ":root .x{display:none}",
    "*|p.x{display:none}",
    ".x:not(:hover){display:none}",
    ".x:not(:lang(fr)){display:none}",
    ".x:not(:empty){display:none}",
    ".x:not(:link){display:none}",
    "h1 ~ .x{display:none}",
    "h1 + p + .x{display:none}",
    ".\\78{display:none}",
    "main > *:not(h1):not(.s){}.x.x.x{display:none}",
    ":root{--h:none}.x{display:var(--h)}",
    ":root{--bg:#fff}.x{color:var(--bg)}",
    ":root{--bg:#123;--fg:#123}body{background:var(--bg);color:#fff}.x{color:var(--fg)}",
    "@property --q{syntax:'*';inherits:true;initial-value:none}.x{display:var(--q)}",
    "@charset 'utf-8';.x{display:none}",
    ".x/**/{display:none}",
    "<!-- .x{display:none} -->",
    "main :is(.x, .z){display:none}",
    "@media screen{@media (min-width:10px){.x{display:none}}}",
    "body{background:#222;color:#eee}.x{color:#222}",
    "body{background:#222 url(a.png);color:#eee}.x{color:#232323}",
)
"""That hide `p.x`."""
SHOWING = (
    ".x{color:var(--ink)} :root{--ink:#123;--ground:#fff} body{background:var(--ground)}",
    ".x{display:none} @media (min-width:1px){.x{display:block}}",
    "@media (prefers-color-scheme:dark){.x{display:none}} @media print{.x{display:none}}",
    "@media (max-width:600px), (orientation:portrait){.x{display:none}}",
    "@media not all{.x{display:none}} @media (hover:none){.x{display:none}}",
    ".x:hover{display:none} .x:empty{display:none} .x:focus-within{opacity:0} .x::before{display:none}",
    "p:nth-of-type(3n){display:none} main > .x:first-child{display:none} p:nth-child(4n){display:none}",
    "@layer a{.x{display:none}} .x{display:block}",
    "@layer a{.x{display:none}} @layer b{.x{display:block}}",
    ".x{color:rgb(20% 20% 20%);background:linear-gradient(#fff,#eee)}",
    ".x{color:white;background:linear-gradient(#123,#456)} .x{mask-image:none}",
    ".x{transform:translateZ(0)} .x{clip-path:none} .x{filter:none} .x{zoom:calc(3 / 2)}",
    ".x{mix-blend-mode:normal;z-index:1;line-height:1} main{overflow:hidden;min-height:20px}",
    ".x{font-size:clamp(1rem, 2vw, 2rem);opacity:calc(1 - .2);margin-left:calc(5% + 5px)}",
    ".x{display:var(--unknown)} .x{color:var(--unknown)}",
    "main{background:#fff} .x{--tw-y:0;transform:translate(var(--tw-y, 0), 0)}",
    "@supports not (display:grid){.x{display:none}}",
)


UNSURE = (
    "margin-left:100%;overflow:hidden",
    "position:fixed;left:100%",
    "position:absolute;left:1400px",
    "transform:translateX(100vw)",
    "overflow:hidden;width:20px",
    "overflow:auto;height:10px",
    "text-wrap:nowrap;overflow:hidden",
    "border-spacing:9999px;display:table",
    "min-width:9999px;text-align:right",
    "min-height:99999px;display:flex;align-items:flex-end",
    "padding-top:99999px",
    "clip-path:url(#none)",
    "mask:url(#none)",
    "-webkit-mask-box-image:url(a.png)",
    "offset-path:path('M-9999 0')",
    "position:absolute;left:anchor(right, -9999px)",
    "width:calc-size(auto, size * 0);overflow:hidden",
    "opacity:attr(data-o number)",
    "opacity:if(style(--x:1):0;else:1)",
    "display:table-column",
    "unicode-bidi:bidi-override;direction:rtl",
    "font-family:'Adobe Blank'",
    "-webkit-text-security:disc",
    "-webkit-text-stroke:20px white",
    "text-decoration:line-through 2em white",
    "outline:40px solid white;outline-offset:-40px",
    "box-shadow:inset 0 0 0 200px #000",
    "vertical-align:-9999px",
    "word-spacing:-5em",
    "transform:translateZ(160px)",
    "transform:translate(-50%,-50%)",
    "left:50%;transform:translateX(-50%)",
    "all:unset",
    "color:rgb(from white r g b)",
    "filter:brightness(0) invert(1)",
    "backdrop-filter:invert(1);color:#fff",
    "background-clip:text;background:#000;color:#fff",
    "display:contents;background:#000;color:#fff",
    "background:linear-gradient(#000,#000) 0 0/0 0 no-repeat;color:#fff",
    "background:url(data:image/png;base64,AAAA);color:#fff",
    "background:paint(x);color:#000",
    "color-scheme:dark",
    "aspect-ratio:1000;overflow:hidden",
    "contain:strict",
    "opacity:0;opacity:1px",
    "visibility:hidden;visibility:visible visible",
    "display:none;display:-ms-flexbox",
    "font-size:0;font-size:16",
    "position:absolute;left:-9999px;left:0 0",
    "rotate:y 90deg",
    "tab-size:9999",
    "margin-left:-30vw;padding-left:-1px;position:relative;left:-30vw",
    "shape-inside:circle(0)",
    "zoom:.3",
    "letter-spacing:500px",
    "grid-template-rows:minmax(0,0);display:grid;overflow:hidden",
    "-webkit-line-clamp:1;overflow:hidden",
    "white-space:nowrap;overflow:hidden",
    "max-height:20px;overflow:hidden",
)
"""Of one element, and not surely shown: functions, properties and units that this reader does not know among them."""
UNSURE_SHEETS = (
    "@import 'data:text/css,.x{display:none}';",
    "@import url(data:text/css;base64,Lnh7ZGlzcGxheTpub25lfQ==);",
    "@keyframes k{to{visibility:hidden}}.x{animation:k 1ms forwards}",
    "@keyframes k{from{color:white}to{color:white}}.x{animation:k 9s infinite}",
    "@font-face{font-family:own;src:url(data:font/woff2;base64,AAAA)}.x{font-family:own,serif}",
    "@starting-style{.x{opacity:0}}.x{transition:opacity 99999s}",
    "@namespace url(http://www.w3.org/2000/svg);*|*.x{display:none}p.x{display:block}",
    ".x{display:none}p.x{display:blok}",
    ".X{display:none}",
    ".x::first-line{color:transparent}",
    ".x::first-letter{font-size:0}",
    ".x{position:relative}.x::after{content:'';position:absolute;inset:0;background:#fff}",
    "html:hover .x{display:none}",
    ".x{position:relative}.x::after{content:url(a.png);position:absolute;inset:0}",
    "@layer a{.x{display:none!important}}@layer b{.x{display:block!important}}",
    ".x{visibility:hidden}.x b{visibility:inherit}",
    "@layer a.b{.x{display:none}}",
    "@supports selector(:has(a)){.x{opacity:0}}",
    "@media (width>=10px) and (unheard-of){.x{display:none}}",
    "body{visibility:hidden}h1,p{visibility:visible}p.x{visibility:inherit}",
    "@property --p{syntax:'*';inherits:false;initial-value:none}main{--p:block}.x{display:var(--p)}",
    "main{--a:var(--b);--b:var(--a)}.x{display:var(--a,none)}p:not(.x){display:block}",
    ".x{display:var(--d)}main{--d:none}",
    "@unheard-of{.x{display:none}}",
    ".x{background:#000;color:#fff;float:left;position:absolute}span{}.x{background:none}",
    "main{background:#000;color:#fff}main p{color:#fff}.x{position:absolute;top:900px}",
)
"""That do not surely show `p.x`."""
BODIES = (
    "<p>@</p><img src=x style='position:relative;top:-3em;width:100%;height:3em'>",
    "<div style='display:grid'><p style='grid-area:1/1'>@</p><p style='grid-area:1/1;background:#fff'>a</p></div>",
    "<marquee>@</marquee>",
    "<p hidden style='position:absolute'>@</p>",
    "<div style='position:relative'><p>@</p><div style='position:absolute;inset:0;backdrop-filter:brightness(0)'></div></div>",
    "<table bgcolor=chucknorris><tr><td><font color=#c00000>@</font></td></tr></table>",
    "<table><col style='visibility:collapse'><tr><td>@</td></tr></table>",
    "<table><colgroup><col><col style='background:#000'></colgroup><tr><td>a</td><td>@</td></tr></table>",
    "<a href=a>@</a><body link=white>",
    "<style>.q .y{display:none}</style><p class=y>@</p><body class=q>",
    "<style>.y:lang(cy){display:none}</style><div lang=cy-GB><p class=y>@</p></div>",
    "<dialog><p>@</p></dialog>",
    "<font color=fff style='background:#0f0f0f'>@</font>",
    "<bdo dir=rtl>@</bdo>",
    "<math><mphantom><mtext>@</mtext></mphantom></math>",
    "<select><option>@</option></select>",
    "<ruby>a<rp>@</rp></ruby>",
    "<iframe srcdoc='@'>@</iframe>",
    "<object data=a>@</object>",
    "<noframes>@</noframes>",
    "<div style='position:relative'><p>@</p><div style='position:absolute;inset:0;background:#fff'></div></div>",
    "<p>@</p><div style='margin-top:-60px;height:60px;background:#fff;position:relative'></div>",
    "<div style='position:relative'><p>@</p><img src=a style='position:absolute;top:0;left:0;width:100%;height:100%'></div>",
    "<div style='overflow:hidden;height:20px'><p>a</p><p>@</p></div>",
    "<table background='data:image/png;base64,AAAA'><tr><td style='color:#fff'>@</td></tr></table>",
    "<div style='opacity:.6'><div style='opacity:.6'><div style='opacity:.6'><p>@</p></div></div></div>",
    "<div style='font-size:.6em'><div style='font-size:.5em'><div style='font-size:.6em'>@</div></div></div>",
    "<div style='position:relative;left:-38px'><div style='margin-left:-39px'>" * 2 + "@" + "</div></div>" * 2,
    "<style type=text/x>.y{display:block!important}</style><style>.y{display:none}</style><p class=y>@</p>",
    "<style title=a>.y{display:none}</style><style title=b>.y{display:block}</style><p class=y>@</p>",
    "<link rel=stylesheet href='data:text/css,.y{display:none}'><p class=y>@</p>",
    "<noscript><style>.y{display:block}</style></noscript><style>.y{display:none}</style><p class=y>@</p>",
    "<svg><style>.y{display:none}</style></svg><p class=y>@</p>",
    "<details><summary> </summary><p>@</p></details>",
    "<div><template shadowrootmode=open><slot name=other></slot></template><p>@</p></div>",
    "<div><template shadowrootmode=open><style>slot{display:none}</style><slot></slot></template><p>@</p></div>",
)
"""Elements in which a text `@` does not surely show."""
SHOWING_BODIES = (
    "<div inert>@</div>",
    "<style>.y[hidden]{display:block}</style><p class=y hidden>@</p>",
    "<style>.y{display:block;position:static}</style><div popover class=y>@</div>",
    "<link rel='alternate stylesheet' title=a href='data:text/css,.y{display:none}'><p class=y>@</p>",
    "<style>.y{position:relative}.y::after{content:'';position:absolute;inset:0;background:linear-gradient(#0000,#0001)}</style><p class=y>@</p>",
    "<div style='display:grid;grid-template-columns:repeat(2,minmax(0,1fr)) [a] auto calc(9% + 9px)'><p>@</p></div>",
    "<div style='display:flex'><p>a</p><p style='order:-1'>@</p></div>",
    "<body link=#0000ff><p style='position:relative;box-shadow:0 10px 30px #0003'><a href=a>@</a></p>",
)
"""Elements in which it does."""


def page(style: str = "", sheet: str = "") -> bytes:
    head = f"<style>{sheet}</style>" if sheet else ""
    hidden = f'<p class="x" style="{escape(style)}">{PAYLOAD}</p>'
    return f"<!doctype html>{head}<body><main><h1>Valves</h1><p>{SEEN}</p>{hidden}<p>{SEEN}</p></main></body>".encode()


def text_of(document: bytes) -> str:
    text = extract(document, "text/html").text
    assert "valve opens at two bar" in text
    return text


@pytest.mark.parametrize("style", HIDING)
def test_what_a_style_hides_is_not_read_wherever_it_stands(style: str) -> None:
    assert "Amy Brandt" not in text_of(page(style))
    assert "Amy Brandt" not in text_of(page(sheet=f".x{{{style}}}"))


@pytest.mark.parametrize("sheet", SHEETS)
def test_what_a_style_sheet_hides_under_conditions_is_not_read(sheet: str) -> None:
    assert "Amy Brandt" not in text_of(page(sheet=sheet))


@pytest.mark.parametrize("style", UNSURE)
def test_what_a_style_does_not_surely_show_is_not_read(style: str) -> None:
    assert "Amy Brandt" not in text_of(page(style))
    assert "Amy Brandt" not in text_of(page(sheet=f".x{{{style}}}"))


@pytest.mark.parametrize("sheet", UNSURE_SHEETS)
def test_what_a_style_sheet_does_not_surely_show_is_not_read(sheet: str) -> None:
    assert "Amy Brandt" not in text_of(page(sheet=sheet))


@pytest.mark.parametrize("body", BODIES)
def test_what_an_element_does_not_surely_show_is_not_read(body: str) -> None:
    made = page().decode()
    start, end = made.index('<p class="x"'), made.index("Brandt.</p>") + len("Brandt.</p>")
    assert "Amy Brandt" not in text_of((made[:start] + body.replace("@", PAYLOAD) + made[end:]).encode())


@pytest.mark.parametrize("body", SHOWING_BODIES)
def test_what_an_element_shows_is_read(body: str) -> None:
    made = page().decode()
    start, end = made.index('<p class="x"'), made.index("Brandt.</p>") + len("Brandt.</p>")
    assert "Amy Brandt" in text_of((made[:start] + body.replace("@", PAYLOAD) + made[end:]).encode())


@pytest.mark.parametrize("sheet", SHOWING)
def test_what_a_style_sheet_shows_is_read(sheet: str) -> None:
    assert "Amy Brandt" in text_of(page(sheet=sheet))


def test_what_a_shadow_tree_without_a_slot_replaces_is_not_read() -> None:
    shadow = '<template shadowrootmode="open"><p>Shown</p></template>'
    document = (
        page()
        .replace(b'<p class="x"', f'<div>{shadow}<p class="x"'.encode())
        .replace(b"Brandt.</p>", b"Brandt.</p></div>")
    )
    assert "Amy Brandt" not in text_of(document)
    assert "Amy Brandt" in text_of(document.replace(b"Shown", b"<slot></slot>"))


def test_a_popover_that_is_closed_is_not_read() -> None:
    assert "Amy Brandt" not in text_of(page().replace(b'<p class="x"', b"<p popover"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", True),
        ("screen and (min-width: 20em)", True),
        ("(min-width: 2000px)", False),
        ("not (min-width: 2000px)", True),
        ("((min-width: 1px) and (hover)) or (monochrome)", None),
        ("print, (400px <= width < 90em)", None),
        ("speech", False),
        ("not screen and (min-width: 1px)", None),
        ("(unheard-of: 1)", None),
        ("not (unheard-of)", None),
        ("(min-width: calc(100px * 100))", False),
        ("(((((", None),
    ],
)
def test_a_media_query_holds_as_on_an_ordinary_screen(query: str, expected: bool | None) -> None:
    assert media_holds(query) is expected


@pytest.mark.parametrize(
    ("classes", "is_read"),
    [
        ("hidden", False),
        ("text d-none", False),
        ("invisible p-4", False),
        ("opacity-0", False),
        ("hidden md:block", True),
        ("d-none d-lg-flex", True),
        ("opacity-0 group-hover:opacity-100", True),
        ("hidden dark:hidden", False),
        ("hidden-note", True),
    ],
)
def test_classes_that_hide_by_a_style_sheet_elsewhere_are_known(classes: str, is_read: bool) -> None:
    document = page().replace(b'class="x"', f'class="{classes}"'.encode())
    assert ("Amy Brandt" in text_of(document)) is is_read
