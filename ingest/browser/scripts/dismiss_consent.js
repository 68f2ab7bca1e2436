// Presses the button of a consent wall that lies over the page; true where there was one.
(() => {
  // Buttons of the consent managers that most sites use; those that refuse stand first.
  const known = [
    "#onetrust-reject-all-handler", "#CybotCookiebotDialogBodyButtonDecline", "#didomi-notice-disagree-button",
    ".didomi-continue-without-agreeing", ".qc-cmp2-summary-buttons button[mode=secondary]",
    "#truste-consent-required", ".cc-deny", ".osano-cm-denyAll", "[data-testid=uc-deny-all-button]",
    ".iubenda-cs-reject-btn", ".cky-btn-reject", ".cmplz-deny", "#tarteaucitronAllDenied2",
    ".fc-cta-do-not-consent", "#onetrust-accept-btn-handler",
    "#CybotCookiebotDialogBodyLevelButtonLevelOptinAllowAll", "#didomi-notice-agree-button",
    ".qc-cmp2-summary-buttons button[mode=primary]", "#truste-consent-button", ".cc-dismiss", ".cc-allow",
    ".osano-cm-accept-all", "[data-testid=uc-accept-all-button]", ".iubenda-cs-accept-btn", ".cky-btn-accept",
    ".cmplz-accept", "#tarteaucitronPersonalize2", ".fc-cta-consent",
  ];
  // What buttons say, in lower case.
  const refusingWords = [
    "reject all", "reject", "decline", "refuse", "deny", "only necessary", "necessary only", "essential only",
    "continue without accepting", "disagree", "no thanks", "alle ablehnen", "ablehnen", "nur notwendige",
    "nur essenzielle", "tout refuser", "refuser", "continuer sans accepter", "rechazar todo", "rechazar",
    "rifiuta tutto", "rifiuta", "weigeren", "alles weigeren", "rejeitar tudo", "rejeitar", "odrzuć wszystko",
    "odrzuć", "avvisa alla", "avslå", "afvis alle", "hylkää kaikki", "отклонить", "すべて拒否", "拒否する", "全部拒绝",
  ];
  const acceptingWords = [
    "accept all", "accept all cookies", "accept cookies", "accept", "i accept", "agree", "i agree", "allow all",
    "got it", "ok", "okay", "understood", "alle akzeptieren", "akzeptieren", "zustimmen", "einverstanden",
    "verstanden", "tout accepter", "accepter", "j'accepte", "aceptar todo", "aceptar", "accetta tutto", "accetta",
    "accepteren", "alles accepteren", "akkoord", "aceitar tudo", "aceitar", "zaakceptuj", "akceptuję",
    "godkänn alla", "godkänn", "godta", "accepter alle", "hyväksy kaikki", "принять", "すべて同意", "同意する", "全部接受", "同意",
  ];
  const refusing = new Set(refusingWords), accepting = new Set(acceptingWords);
  const about = /cookie|consent|gdpr|privacy|datenschutz|zgod|同意|クッキー|隐私/i;
  const shown = element => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility !== "hidden";
  };
  const overlay = element => {
    for (let up = element; up && up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (/fixed|sticky/.test(style.position) || up.matches("dialog[open], [role=dialog], [aria-modal=true]")) {
        return up;
      }
    }
    return null;
  };
  const covers = () => {
    const found = new Set();
    for (const across of [0.1, 0.5, 0.9]) for (const down of [0.1, 0.5, 0.75, 0.95]) {
      const top = overlay(document.elementFromPoint(innerWidth * across, innerHeight * down));
      if (top && about.test(top.id + " " + top.className + " " + top.textContent.slice(0, 2000))) found.add(top);
    }
    return [...found];
  };
  const harmless = button => {
    const form = button.closest("form");
    if (form && (button.type === "submit" || button.type === "image" || button.tagName === "A")) return false;
    const link = button.closest("a[href]");
    return !link || /^(#|javascript:)/i.test(link.getAttribute("href"));
  };
  const press = button => { button.click(); return true; };
  const walls = covers();
  if (!walls.length) return false;
  for (const selector of known) {
    const button = document.querySelector(selector);
    if (button && shown(button) && harmless(button) && walls.some(wall => wall.contains(button))) return press(button);
  }
  for (const words of [refusing, accepting]) for (const wall of walls) {
    for (const button of [...wall.querySelectorAll("button, [role=button], a, input[type=button]")].slice(0, 50)) {
      const label = (button.innerText || button.value || button.getAttribute("aria-label") || "");
      const text = label.trim().toLowerCase().replace(/[.!»›→×]+$/, "").trim();
      if (words.has(text) && shown(button) && harmless(button)) return press(button);
    }
  }
  return false;
})()
