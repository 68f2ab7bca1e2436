// The page as it is shown: a copy of its tree with the styles that decide what is seen.
(() => {
  const root = document.documentElement;
  const copy = document.implementation.createHTMLDocument('').importNode(root, true);
  const written = (element, around) => {
    const style = getComputedStyle(element);
    if (style.display === '' || style.display === 'none') return 'display:none';
    const found = [];
    const put = (name, value) => found.push(name + ':' + String(value).replace(/["';]/g, ' '));
    const inherited = {'visibility': 'visibility', 'color': '-webkit-text-fill-color', 'font-size': 'font-size'};
    for (const name in inherited) {  // letters are filled with the second colour, which is that of `color` as a rule
      const value = style.getPropertyValue(inherited[name]);
      if (!around || around.getPropertyValue(inherited[name]) !== value) put(name, value);
    }
    if (style.opacity <= 0.1) put('opacity', style.opacity);
    if (/opacity|blur|contrast/.test(style.filter)) put('filter', style.filter);
    const moved = (style.transform.match(/^matrix\((.*)\)$/) || ['', ''])[1].split(',').map(Number);
    const turns = moved.length === 6 && Math.abs(moved[0] * moved[3] - moved[1] * moved[2]) > 0.02;
    const isFar = Math.abs(moved[4]) > 400 || Math.abs(moved[5]) > 400;
    if (style.transform !== 'none' && !(turns && !isFar)) put('transform', style.transform);
    const usual = {
      'clip': 'auto', 'clip-path': 'none', 'mask-image': 'none', 'scale': 'none', 'rotate': 'none',
      'translate': 'none', 'zoom': '1', 'mix-blend-mode': 'normal', 'text-indent': '0px', 'letter-spacing': 'normal',
      'content-visibility': 'visible', 'font-size-adjust': 'none', 'background-image': 'none',
      'background-color': 'rgba(0, 0, 0, 0)',
    };
    for (const name in usual) {
      const value = style.getPropertyValue(name);
      if (value && value !== usual[name]) put(name, value);
    }
    if (style.maskImage !== 'none') put('mask-size', style.maskSize);
    if (style.position !== 'static') {
      if (style.zIndex.startsWith('-')) put('z-index', style.zIndex);
      const box = element.getBoundingClientRect();
      if (box.width && box.height && (box.right + scrollX < -50 || box.bottom + scrollY < -50)) put('left', '-9999px');
    }
    if (style.marginLeft.startsWith('-')) put('margin-left', style.marginLeft);
    if (style.marginTop.startsWith('-')) put('margin-top', style.marginTop);
    if (/hidden|clip/.test(style.overflow)) {
      put('overflow', 'hidden');
      if (parseFloat(style.width) <= 4) put('width', style.width);
      if (parseFloat(style.height) <= 4) put('height', style.height);
      if (parseFloat(style.lineHeight) === 0) put('line-height', '0');
    }
    return found.join(';');
  };
  const pairs = [[root, copy, null]];
  const sheets = [];
  while (pairs.length) {
    const [element, twin, around] = pairs.pop();
    if (twin.localName === 'style') { sheets.push(twin); continue; }
    const style = written(element, around);
    if (style) twin.setAttribute('style', style); else twin.removeAttribute('style');
    if (style === 'display:none') continue;
    const own = getComputedStyle(element);
    const kinds = ['script', 'template', 'svg', 'head'];
    if (kinds.includes(twin.localName)) { twin.removeAttribute('style'); continue; }
    for (let one = element.firstElementChild, other = twin.firstElementChild; one && other;
         one = one.nextElementSibling, other = other.nextElementSibling) pairs.push([one, other, own]);
  }
  for (const sheet of copy.querySelectorAll('style')) sheet.remove();
  for (const link of copy.querySelectorAll('link[rel~=stylesheet i]')) link.remove();
  const clear = 'rgba(0, 0, 0, 0)';
  const body = document.body && getComputedStyle(document.body);
  const page = getComputedStyle(root);
  const ground = [page, body].find(one => one && (one.backgroundColor !== clear || one.backgroundImage !== 'none'));
  if (!ground) copy.style.backgroundColor = 'white';
  return '<!doctype html>' + copy.outerHTML.slice(0, LIMIT);
})()
