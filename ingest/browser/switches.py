"""What the browser is forbidden before it starts: the switches that take from pages what no crawl needs.

The egress proxy and the browser's own network are the first line of defence; these are the second.
"""

from __future__ import annotations

from typing import Literal

_NO_UNPROXIED_UDP = (
    # WebRTC speaks UDP, past any proxy. Browsers read the first name, the bare shell and old ones the second.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
)
NO_ERRANDS_OF_ITS_OWN = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    "--no-first-run",
)
_NO_NAMES = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {proxy}"
"""Names are the proxy's business: the browser itself may resolve nothing but the way to it."""
_NO_WINDOWS = ("--block-new-web-contents", "--deny-permission-prompts", "--disable-notifications")
_NO_HARDWARE = (
    "--disable-3d-apis",  # WebGL and WebGPU: drivers and shader compilers are known to be attacked
    "--disable-speech-api",
    "--disable-blink-features=DirectSockets,WebUSB,WebHID,Serial,WebBluetooth",
    # Pages that are loaded ahead of a visit are visits that robots.txt was not asked about.
    "--disable-features=Prerender2,SpeculationRulesPrefetchFuture,NavigationPredictor",
)
_NO_PAGES_OF_ITS_OWN = (
    # The address bar's suggestions are web pages, two for each window, in privileged processes of their own; a process
    # kept ready for a next page waits in vain where each page's processes end with it.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,PreloadTopChromeWebUI,"
    "SpareRendererForSitePerProcess"
)

WEAKENING_DEFAULTS = (
    # A test tool wants these, a browser of unknown pages does not: Playwright is told to leave them out.
    "--disable-popup-blocking",  # a page would open windows faster than we close them
    "--disable-ipc-flooding-protection",  # it would navigate, print and push history without end
    "--disable-hang-monitor",
    "--enable-unsafe-swiftshader",  # 3D graphics drawn by the processor, in a library that is known to be attacked
    "--unsafely-disable-devtools-self-xss-warnings",
)


class Guards:
    """What holds a page back within the browser. There is no way to switch a part of it off: a proof that the egress
    proxy and the browser's network hold without it overrides this class.
    """

    service_workers: Literal["block", "allow"] = "block"
    judges_navigations = True
    """Whether further addresses of a page are judged before it goes there."""

    def switches(self, *, proxy: str, script_memory_bytes: int) -> tuple[str, ...]:
        """The browser's switches. `proxy` is the only address, or pattern of addresses, that it may look up."""
        return (
            *_NO_UNPROXIED_UDP,
            *NO_ERRANDS_OF_ITS_OWN,
            _NO_NAMES.format(proxy=proxy),
            *_NO_WINDOWS,
            *_NO_HARDWARE,
            *lean_switches(script_memory_bytes),
        )


def lean_switches(script_memory_bytes: int) -> tuple[str, ...]:
    """The switches that save processes and memory, and guard nothing."""
    megabytes = max(64, script_memory_bytes // 1_048_576)
    return (_NO_PAGES_OF_ITS_OWN, f"--js-flags=--max-old-space-size={megabytes}")
