// What the console's pages do besides htmx: ask before an action, say what went wrong, show times as they pass, copy.
// Every page works without it.
(() => {
  "use strict";

  // No request without the page's nonce on its element, whatever attribute began it: hx-csp looks at the elements of
  // htmx itself alone, and a stream begins by an attribute of its extension.
  const nonce = document.currentScript.nonce;
  htmx.registerExtension("nonce-gate", {
    htmx_config_request: (element, detail) => {
      if (nonce && element.getAttribute("hx-nonce") === nonce) return;
      console.error("console: a request without the page's nonce was not sent", element);
      detail.cancelled = true;
      return false;
    },
  });

  const ready = (begin) => (document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", begin) : begin());

  // An action that asks first: before htmx sends it, and before the browser does.
  document.addEventListener(
    "submit",
    (event) => {
      const question = event.target.dataset?.asks;
      if (question && !window.confirm(question)) {
        event.preventDefault();
        event.stopImmediatePropagation();
      }
    },
    true,
  );

  // A request that got no answer says so where results are said.
  document.addEventListener("htmx:error", () => {
    const said = document.getElementById("said");
    if (said) {
      said.className = "said problem";
      said.textContent = "No answer came: nothing may have been done. Load the page again.";
    }
  });

  // Figures without a stream are greyed; who is signed out meanwhile, or looks at what is gone, gets the page anew.
  document.addEventListener("htmx:sse:error", (event) => {
    event.target.classList.add("stale");
    if ([401, 403, 404].includes(event.detail.status)) location.reload();
  });
  document.addEventListener("htmx:sse:after:connection", (event) => event.target.classList.remove("stale"));

  // "(3 min ago)" goes on while the page stands.
  const steps = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
  ];
  const span = (seconds) => {
    const [length, unit] = steps.find(([size]) => seconds >= size) ?? [1, "s"];
    return `${Math.floor(seconds / length)} ${unit}`;
  };
  const tick = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const small = time.querySelector("small");
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (small && Number.isFinite(seconds) && seconds >= 60) small.textContent = `(${span(seconds)} ago)`;
    }
  };

  // A button with data-copy copies the text of the element that it names.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-copy]");
    const source = button && document.getElementById(button.dataset.copy);
    if (!source) return;
    if (!navigator.clipboard) {
      // Only secure addresses have one: the text is chosen, and copied by hand.
      getSelection().selectAllChildren(source);
      return;
    }
    await navigator.clipboard.writeText(source.textContent.trim());
    const words = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = words), 1500);
  });

  // A box with data-all ticks every box of that name in its form.
  document.addEventListener("change", (event) => {
    const name = event.target.dataset?.all;
    if (!name) return;
    for (const box of document.querySelectorAll('input[type="checkbox"]')) if (box.name === name) box.checked = event.target.checked;
  });

  ready(() => setInterval(tick, 10000));
})();
