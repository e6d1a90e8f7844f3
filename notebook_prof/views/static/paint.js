// Colours as numbers. BokehJS takes colour columns as 0xRRGGBBAA and images as bytes R G B A (0xAABBGGRR here).
const parseColour = (text) => {
  const hex = /^#([0-9a-f]{6})/i.exec(text);
  if (hex) return parseInt(hex[1], 16);
  const parts = /rgba?\(([^)]+)\)/.exec(text);
  if (parts) {
    const [r, g, b] = parts[1].split(/[ ,/]+/).map(Number);
    return (r << 16) | (g << 8) | b;
  }
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text);
  return short
    ? parseInt(
        short
          .slice(1)
          .map((c) => c + c)
          .join(''),
        16,
      )
    : 0xdddddd;
};
const columnColour = (rgb) => ((rgb << 8) | 0xff) >>> 0;
const imageColour = (rgb, alpha) => ((alpha << 24) | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >>> 16)) >>> 0;
const mix = (a, b, share) => {
  const part = (shift) => Math.round(((a >>> shift) & 255) * (1 - share) + ((b >>> shift) & 255) * share) << shift;
  return part(16) | part(8) | part(0);
};
const luminance = (rgb) =>
  [16, 8, 0].reduce((sum, shift, i) => {
    const c = ((rgb >>> shift) & 255) / 255;
    return sum + [0.2126, 0.7152, 0.0722][i] * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
const textOn = (rgb) => (luminance(rgb) > 0.18 ? '#1a1a1a' : '#f5f5f5');
const NO_CODE = 255;
const GREY = 0xb4b4b4;

function createPalettes(colours) {
  const lists = {
    name: colours.names.map(parseColour),
    phase: colours.phases.map(parseColour),
    category: colours.categories.map(parseColour),
    module: colours.names.map(parseColour),
    step: colours.names.map(parseColour),
  };
  return {
    colour: (tint, code) => (code === NO_CODE ? GREY : lists[tint][code % lists[tint].length]),
    css: (rgb) => `#${rgb.toString(16).padStart(6, '0')}`,
  };
}

// Density cells (rows × bins) to an image with one pixel a bin and `parts` a row, the last of which stays clear.
function densityImage(answer, rows, slotRows, ctx, parts = 6) {
  const {bins, data, filtered} = answer,
    {busy, bright, dtint} = data;
  const dim = parseColour(ctx.theme.dim),
    pixels = new Uint32Array(rows * parts * bins);
  slotRows.forEach((row, slot) => {
    for (let k = 0; k < bins; k++) {
      const cell = slot * bins + k,
        level = busy[cell];
      if (!level) continue;
      const own = ctx.palettes.colour(ctx.tint, dtint[cell]);
      const rgb = filtered ? mix(dim, own, bright[cell] ? 0.35 + (0.65 * bright[cell]) / 255 : 0) : own;
      const value = imageColour(rgb, Math.max(70, level));
      for (let p = 0; p < parts - 1; p++) pixels[(row * parts + p) * bins + k] = value;
    }
  });
  return {
    image: [ctx.host.ndarray(pixels, {shape: [rows * parts, bins], dtype: 'uint32'})],
    x: [answer.bin_start],
    dw: [answer.bin_ns * bins],
  };
}
const NO_IMAGE = {image: [], x: [], y: [], dw: [], dh: []};
