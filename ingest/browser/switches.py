"""What the browser is forbidden before it starts: the switches that take from pages what no crawl needs.

The egress proxy and the browser's own network are the first line; these are the second. Each guard stands for itself,
so that it can be shown that the others hold without it.
"""

from __future__ import annotations

from dataclasses import dataclass

_NO_UNPROXIED_UDP = (
    # WebRTC speaks UDP, past any proxy. Browsers read the first name, the bare shell and old ones the second.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
)
_NO_ERRANDS_OF_ITS_OWN = (
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
    # Pages that are loaded ahead of a visit are visits that nobody asked robots.txt about.
    "--disable-features=Prerender2,SpeculationRulesPrefetchFuture,NavigationPredictor",
)
_NO_PAGES_OF_ITS_OWN = (
    # The address bar's suggestions are web pages, two for each window, in privileged processes of their own; a process
    # kept ready for a next page waits in vain where each page's processes end with it.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,PreloadTopChromeWebUI,"
    "SpareRendererForSitePerProcess"
)

WEAKENING_DEFAULTS = (
    # A test tool wants these, a browser among strangers does not: Playwright is told to leave them out.
    "--disable-popup-blocking",  # a page would open windows faster than we close them
    "--disable-ipc-flooding-protection",  # it would navigate, print and push history without end
    "--disable-hang-monitor",
    "--enable-unsafe-swiftshader",  # 3D graphics drawn by the processor, in a library that is known to be attacked
    "--unsafely-disable-devtools-self-xss-warnings",
)


@dataclass(frozen=True, slots=True)
class Guards:
    """Which of them are on: all, but for a proof that the way out holds without them."""

    names: bool = True
    """The browser resolves no name."""
    udp: bool = True
    """WebRTC and QUIC send nothing past the proxy."""
    errands: bool = True
    """The browser asks its maker for nothing."""
    windows: bool = True
    """No windows, prompts or notifications."""
    hardware: bool = True
    """No 3D, no devices, no loading ahead."""
    workers: bool = True
    """No service workers."""
    pre_request: bool = True
    """Further addresses of the page are judged before it goes there."""

    def switches(self, *, proxy: str, script_memory_bytes: int) -> tuple[str, ...]:
        """The browser's switches. `proxy` is the only address, or pattern of addresses, that it may look up."""
        megabytes = max(64, script_memory_bytes // 1_048_576)
        return (
            *(_NO_UNPROXIED_UDP if self.udp else ()),
            *(_NO_ERRANDS_OF_ITS_OWN if self.errands else ()),
            *((_NO_NAMES.format(proxy=proxy),) if self.names else ()),
            *(_NO_WINDOWS if self.windows else ()),
            *(_NO_HARDWARE if self.hardware else ()),
            _NO_PAGES_OF_ITS_OWN,
            f"--js-flags=--max-old-space-size={megabytes}",
        )


ALL_ON = Guards()
ALL_OFF = Guards(names=False, udp=False, errands=False, windows=False, hardware=False, workers=False, pre_request=False)
"""Nothing within the browser holds a page back: what is left is its network and the egress proxy."""
