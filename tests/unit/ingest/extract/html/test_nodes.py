"""Whatever names and characters a page holds, it is read."""

from __future__ import annotations

import pytest

from sluice.ingest.extract.html.nodes import read_nodes


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
    assert text in "".join(read_nodes(page).texts)


def test_attributes_stay_as_they_are() -> None:
    nodes = read_nodes("<p id=one data-x='2' aria-label=three>text</p>")
    assert nodes.attributes[nodes.tags.index("p")] == {"id": "one", "data-x": "2", "aria-label": "three"}
