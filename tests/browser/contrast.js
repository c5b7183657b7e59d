// Returns the texts of the page whose contrast with their background is below 4.5.
const parse = (color) => color.match(/[\d.]+/g).map(Number);
const luminance = ([red, green, blue]) => {
  const part = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
};
const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] > 0.99) return color;
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || element.getClientRects().length === 0) continue;
  const text = luminance(parse(getComputedStyle(element).color));
  const behind = luminance(background(element));
  const contrast = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
  if (contrast < 4.5) found.push({ text: element.textContent.slice(0, 60), contrast });
}
return found;
