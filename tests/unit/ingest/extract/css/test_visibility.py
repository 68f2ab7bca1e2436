"""What a style attribute hides, and what only looks as if it did."""

from __future__ import annotations

import time

import pytest

from sluice.ingest.extract.css.cascade import hides
from sluice.ingest.extract.extract import extract

HIDING = [
    *("display:none", "DISPLAY : None !important", "display:/**/none", "display:none/*", "d\\69splay:none"),
    *("d\\000069 splay: no\\6e e", "visibility:hidden", "visibility:collapse", "content-visibility:hidden"),
    *(
        "opacity:0",
        "opacity: .01",
        "opacity:0%",
        "opacity:5%",
        "opacity:0.0",
        "filter:opacity(0)",
        "color:red;opacity:0",
    ),
    *(
        "font-size:0",
        "font-size:0px",
        "font-size:1px",
        "font-size:0.1em",
        "font-size:5%",
        "font:0/0 a",
        "font:1px/1 Arial",
    ),
    *("font:italic 700 .01em serif", "width:0;overflow:hidden", "height:1px", "max-height:0px", "max-width:0"),
    *("text-indent:-9999px", "text-indent:-100%", "position:absolute;left:-999px", "left:-9999em", "left:-100vw"),
    *("top:-10000px", "right:-9999px", "bottom:-9999px", "left:-100%", "top:9999px", "inset:-9999px auto auto 0"),
    *("margin-left:-9999px", "margin:0 0 0 -999px", "transform:translateX(-9999px)", "transform:translate(0,-200vh)"),
    *("translate:-9999px", "transform:scale(0)", "transform:rotate(3deg) scale(0.0)", "scale:0"),
    *("clip:rect(0,0,0,0)", "clip:rect(1px 1px 1px 1px)", "clip-path:inset(50%)", "clip-path:circle(0)"),
    *("color:transparent", "color:#0000", "color:#ffffff00", "color:rgba(0,0,0,0)", "color:rgb(0 0 0 / 5%)"),
    *("-webkit-text-fill-color:transparent", "color:#fff;background:#ffffff", "background-color:white;color:#FEFEFE"),
]
INNOCENT = [
    *(
        "",
        ";",
        "display",
        "display:block",
        "visibility:visible",
        "opacity:.8",
        "opacity:80%",
        "opacity:1",
        "color:#000",
    ),
    *("font-size:0.9em", "font-size:11px", "font-size:80%", "font-size:calc(12px + 0.1vw)", "font:700 12px/1 Arial"),
    *(
        "font:12px/0 Arial",
        "width:100%",
        "width:1%",
        "width:10px",
        "height:1em",
        "width:calc(100% - 0px)",
        "max-width:60em",
    ),
    *("text-indent:-2em", "left:-20px", "margin:0 auto", "margin-left:-20px"),
    *("top:100px", "transform:translate3d(0,0,0)", "transform:rotate(0deg)", "transform:scale(1)", "scale:1.02"),
    *("clip:auto", "clip-path:none", "color:rgb(0,0,0)", "color:rgb(0 0 0)", "color:rgba(0,0,0,.87)", "color:gray"),
    *("color:#fff;background:#222", "background:white url(x.png)", "color:#000f", "background:url(a;display:none)")[:3],
    *("dis/**/play:none", "d isplay:none", "border:1px solid", "--display:none", "line-height:1", "flex:1 0 1px"),
]


@pytest.mark.parametrize("style", HIDING)
def test_a_style_that_hides_is_known(style: str) -> None:
    assert hides(style)
    page = f"<p>shown</p><p style='{style}'>secret</p><p>too</p>"
    assert extract(page.encode(), "text/html").text == "shown\n\ntoo"


@pytest.mark.parametrize("style", INNOCENT)
def test_a_style_that_hides_nothing_is_left_alone(style: str) -> None:
    assert not hides(style)
    assert "word" in extract(f"<p style='{style}'>word</p>".encode(), "text/html").text


@pytest.mark.parametrize("attribute", ["hidden", "hidden=no", "hidden=false", "hidden=until-found", "aria-hidden=TRUE"])
def test_an_attribute_hides_whatever_its_value_would_say_elsewhere(attribute: str) -> None:
    page = f"<p>shown</p><p {attribute}>secret</p><p aria-hidden=false>too</p>"
    assert extract(page.encode(), "text/html").text == "shown\n\ntoo"


@pytest.mark.parametrize(
    "piece",
    [
        *("a:b;", "/*", "\\69", "color:rgb(", "rgb(", "1", "1a", "font:", "left:-1px ", "transform:scale(", "\\", "."),
        *("opacity:", "#", "%", " ", ";", "clip:rect( "),
    ],
)
@pytest.mark.parametrize("start", ["", "color:", "font:", "left:", "transform:", "margin:1"])
def test_a_style_that_is_made_to_hang_us_does_not(start: str, piece: str) -> None:
    started = time.thread_time()
    hides(start + piece * (1_000_000 // len(piece)))
    assert time.thread_time() - started < 5
