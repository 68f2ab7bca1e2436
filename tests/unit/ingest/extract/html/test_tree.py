"""Whatever a page holds, there is a tree of it: names and characters that lxml refuses are left out."""

from __future__ import annotations

import pytest
from lxml.etree import tostring

from sluice.ingest.extract.html.nodes import read_tree


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>\x1bescape\x00 and \ufffe</p>", "escape"),
        ("<p>a&#27;b</p>", "ab"),
        ("<p title='x\x02y'>titled</p>", "titled"),
        ("<p @click='go()' :href='x' v-on:click=y {{z}}>Vue</p>", "Vue"),
        ("<p *ngIf='a' [b]='c' (d)='e'>Angular</p>", "Angular"),
        ("<fb:like>shared</fb:like><o:p>Office</o:p><svg:a xlink:href=1 xmlns:x=y>drawn</svg:a>", "Office"),
        ("<a\x01b c\x02=d>tag</a>", "tag"),
        ("<p \x1f>unit separator", "unit separator"),
        ("<a:b:c d:e:f=1>colons", "colons"),
        ("<p a\"=1 '=2 <=3 =4 1a=5 é=6>signs", "signs"),
    ],
)
def test_no_name_and_no_character_of_a_page_is_refused(page: str, text: str) -> None:
    tree = read_tree(page)
    assert tree is not None
    assert text in tostring(tree, encoding="unicode", method="text")


def test_what_a_tree_can_hold_stays() -> None:
    tree = read_tree("<p id=one data-x='2' aria-label=three @click=go>text</p>")
    assert tree is not None
    [paragraph] = tree.iter("p")
    assert dict(paragraph.attrib) == {"id": "one", "data-x": "2", "aria-label": "three"}
