// Texts of a page that are too faint on what lies under them, and controls without a name.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const under = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = ([r, g, b]) => {
    const linear = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const faint = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest("option, .skip, noscript")) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const [front, back] = [element instanceof SVGElement ? style.fill : style.color, under(element)];
    const [a, b] = [light(over(rgba(front), back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${element.className.baseVal ?? element.className}: ${node.data.slice(0, 40)}`);
  }
  const named = (one) => one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.labels?.length || one.innerText?.trim() || one.title;
  const nameless = [...document.querySelectorAll("a, button, select, input, summary, [tabindex='0'], [role=img], img")].filter((one) => !named(one) && !one.alt).map((one) => one.outerHTML.slice(0, 120));
  return { faint: [...new Set(faint)], nameless, texts };
}
