"""When a page has become what it will be: looked at until two looks see the same, never for a fixed time.

A look counts the elements and the text of the tree. A page has settled once it is parsed, two looks in a row agree,
and no request that its text may depend on is under way or was made between them. A page with little text is looked at
for longer: it may be a shell whose script only begins. A page that has text and polls for ever is not waited for, and
one that never rests is taken as it stands at the ceiling.

A consent wall keeps a page from being drawn and loaded, so one try is made at dismissing it: only where something that
looks like one lies over the page, only by a button that is known or says so, refusing before accepting, and never by a
form: nothing is sent that a reader would have to answer for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from sluice.contracts.errors import PolicyRefused
from sluice.ingest.browser.page_content import IsolatedWorld

LOOK_SECONDS = 0.1
"""Between two looks. A framework's re-renders follow one another within a few frames (16 ms)."""
THIN_CHARACTERS = 200
"""Fewer are a shell, or a page that has hardly anything to say."""
THIN_SECONDS = 0.6
"""How long a thin page must be still; timers that fill one are set to half a second at most."""
POLL_SECONDS = 2.0
"""How long a page that has text must be still to be taken although a request of its is under way."""
CEILING_SECONDS = 5.0
"""How long a page may take to settle: its tickers and polls may go on for ever."""

_LOOK = """
(() => {{
  const nodes = document.getElementsByTagName("*").length;
  const text = nodes > {most} || !document.body ? 0 : document.body.textContent.length;
  return [document.readyState !== "loading", nodes, text];
}})()
"""


class Traffic(Protocol):
    """The requests of a page that its text may depend on."""

    @property
    def made(self) -> int:
        """How many there were."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether none is under way."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw."""

    parsed: bool
    nodes: int
    characters: int
    requests: int

    @property
    def is_thin(self) -> bool:
        """Whether there is too little text to be sure that this is the page."""
        return self.characters < THIN_CHARACTERS


async def settle(world: IsolatedWorld, traffic: Traffic, *, max_nodes: int, ceiling_seconds: float) -> None:
    """Return once the page is at rest, or at the ceiling.

    Raises:
        PolicyRefused: rule `nodes`: its tree has more than `max_nodes` elements.
    """

    async def look() -> Look | None:
        return await _look(world, traffic, max_nodes)

    try:
        async with asyncio.timeout(ceiling_seconds):
            await _watch(look, traffic)
    except TimeoutError:
        await require_small(world, max_nodes)


async def require_small(world: IsolatedWorld, max_nodes: int) -> None:
    """Refuse a tree of more than `max_nodes` elements, before anything is built of it.

    Raises:
        PolicyRefused: rule `nodes`.
    """
    nodes = await world.evaluate('document.getElementsByTagName("*").length')
    if isinstance(nodes, int):
        _require_few(nodes, max_nodes)


async def _watch(look: Callable[[], Awaitable[Look | None]], traffic: Traffic) -> None:
    clock = asyncio.get_running_loop().time
    seen, still_since = await look(), clock()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await look()
        if now is None or now != seen:
            seen, still_since = now, clock()
        elif now.parsed and clock() - still_since >= _stillness_seconds(now, traffic):
            return


def _stillness_seconds(look: Look, traffic: Traffic) -> float:
    """How long the page must have been as it is."""
    if traffic.is_quiet:
        return THIN_SECONDS if look.is_thin else 0.0
    return CEILING_SECONDS if look.is_thin else POLL_SECONDS


async def _look(world: IsolatedWorld, traffic: Traffic, max_nodes: int) -> Look | None:
    seen = await world.evaluate(_LOOK.format(most=max_nodes))
    if not isinstance(seen, list):
        return None
    parsed, nodes, characters = seen
    _require_few(nodes, max_nodes)
    return Look(bool(parsed), int(nodes), int(characters), traffic.made)


def _require_few(nodes: int, max_nodes: int) -> None:
    if nodes > max_nodes:
        raise PolicyRefused("nodes", f"a page of {nodes} elements; {max_nodes} are allowed")


KNOWN_BUTTONS = (
    # Of the consent managers that most sites use; those that refuse stand first.
    "#onetrust-reject-all-handler",
    "#CybotCookiebotDialogBodyButtonDecline",
    "#didomi-notice-disagree-button",
    ".didomi-continue-without-agreeing",
    ".qc-cmp2-summary-buttons button[mode=secondary]",
    "#truste-consent-required",
    ".cc-deny",
    ".osano-cm-denyAll",
    "[data-testid=uc-deny-all-button]",
    ".iubenda-cs-reject-btn",
    ".cky-btn-reject",
    ".cmplz-deny",
    "#tarteaucitronAllDenied2",
    ".fc-cta-do-not-consent",
    "#onetrust-accept-btn-handler",
    "#CybotCookiebotDialogBodyLevelButtonLevelOptinAllowAll",
    "#didomi-notice-agree-button",
    ".qc-cmp2-summary-buttons button[mode=primary]",
    "#truste-consent-button",
    ".cc-dismiss",
    ".cc-allow",
    ".osano-cm-accept-all",
    "[data-testid=uc-accept-all-button]",
    ".iubenda-cs-accept-btn",
    ".cky-btn-accept",
    ".cmplz-accept",
    "#tarteaucitronPersonalize2",
    ".fc-cta-consent",
)
REFUSING_WORDS = (
    *("reject all", "reject", "decline", "refuse", "deny", "only necessary", "necessary only", "essential only"),
    *("continue without accepting", "disagree", "no thanks", "alle ablehnen", "ablehnen", "nur notwendige"),
    *("nur essenzielle", "tout refuser", "refuser", "continuer sans accepter", "rechazar todo", "rechazar"),
    *("rifiuta tutto", "rifiuta", "weigeren", "alles weigeren", "rejeitar tudo", "rejeitar", "odrzuć wszystko"),
    *(
        "odrzuć",
        "avvisa alla",
        "avslå",
        "afvis alle",
        "hylkää kaikki",
        "отклонить",
        "すべて拒否",
        "拒否する",
        "全部拒绝",
    ),
)
ACCEPTING_WORDS = (
    *("accept all", "accept all cookies", "accept cookies", "accept", "i accept", "agree", "i agree", "allow all"),
    *("got it", "ok", "okay", "understood", "alle akzeptieren", "akzeptieren", "zustimmen", "einverstanden"),
    *("verstanden", "tout accepter", "accepter", "j'accepte", "aceptar todo", "aceptar", "accetta tutto", "accetta"),
    *(
        "accepteren",
        "alles accepteren",
        "akkoord",
        "aceitar tudo",
        "aceitar",
        "zaakceptuj",
        "akceptuję",
        "godkänn alla",
    ),
    *("godkänn", "godta", "accepter alle", "hyväksy kaikki", "принять", "すべて同意", "同意する", "全部接受", "同意"),
)

_DISMISS = """
(() => {{
  const known = {known}, refusing = new Set({refusing}), accepting = new Set({accepting});
  const about = /cookie|consent|gdpr|privacy|datenschutz|zgod|同意|クッキー|隐私/i;
  const shown = element => {{
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility !== "hidden";
  }};
  const overlay = element => {{
    for (let up = element; up && up !== document.body; up = up.parentElement) {{
      const style = getComputedStyle(up);
      if (/fixed|sticky/.test(style.position) || up.matches("dialog[open], [role=dialog], [aria-modal=true]")) {{
        return up;
      }}
    }}
    return null;
  }};
  const covers = () => {{
    const found = new Set();
    for (const across of [0.1, 0.5, 0.9]) for (const down of [0.1, 0.5, 0.75, 0.95]) {{
      const top = overlay(document.elementFromPoint(innerWidth * across, innerHeight * down));
      if (top && about.test(top.id + " " + top.className + " " + top.textContent.slice(0, 2000))) found.add(top);
    }}
    return [...found];
  }};
  const harmless = button => {{
    const form = button.closest("form");
    if (form && (button.type === "submit" || button.type === "image" || button.tagName === "A")) return false;
    const link = button.closest("a[href]");
    return !link || /^(#|javascript:)/i.test(link.getAttribute("href"));
  }};
  const press = button => {{ button.click(); return true; }};
  const walls = covers();
  if (!walls.length) return false;
  for (const selector of known) {{
    const button = document.querySelector(selector);
    if (button && shown(button) && harmless(button) && walls.some(wall => wall.contains(button))) return press(button);
  }}
  for (const words of [refusing, accepting]) for (const wall of walls) {{
    for (const button of [...wall.querySelectorAll("button, [role=button], a, input[type=button]")].slice(0, 50)) {{
      const label = (button.innerText || button.value || button.getAttribute("aria-label") || "");
      const text = label.trim().toLowerCase().replace(/[.!»›→×]+$/, "").trim();
      if (words.has(text) && shown(button) && harmless(button)) return press(button);
    }}
  }}
  return false;
}})()
"""

_SCRIPT = _DISMISS.format(
    known=json.dumps(KNOWN_BUTTONS), refusing=json.dumps(REFUSING_WORDS), accepting=json.dumps(ACCEPTING_WORDS)
)


async def dismiss_consent(world: IsolatedWorld) -> bool:
    """Press the button of a consent wall that lies over the page; whether there was one."""
    return await world.evaluate(_SCRIPT) is True
