// Colours as numbers 0xRRGGBB; images take bytes R G B A (0xAABBGGRR here).

export const NO_CODE = 255;
const GREY = 0xb4b4b4;
export const FAINTEST = 70; // of 255: so much shows even of a bin with one short slice

/**
 * Read a colour of CSS.
 * @param {string} text
 */
export const parseColour = (text) => {
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

/**
 * @param {number} rgb
 * @param {number} alpha
 */
const imageColour = (rgb, alpha) => ((alpha << 24) | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >>> 16)) >>> 0;

/**
 * Mix two colours; `share` is that of the second.
 * @param {number} a
 * @param {number} b
 * @param {number} share
 */
export const mix = (a, b, share) => {
  const part = (/** @type {number} */ shift) => Math.round(((a >>> shift) & 255) * (1 - share) + ((b >>> shift) & 255) * share) << shift;
  return part(16) | part(8) | part(0);
};

/**
 * Relative luminance, as WCAG defines it.
 * @param {number} rgb
 */
export const luminance = (rgb) =>
  [16, 8, 0].reduce((sum, shift, i) => {
    const c = ((rgb >>> shift) & 255) / 255;
    return sum + [0.2126, 0.7152, 0.0722][i] * (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);

/**
 * A colour of text that can be read on this one.
 * @param {number} rgb
 */
export const textOn = (rgb) => (luminance(rgb) > 0.18 ? '#1a1a1a' : '#f5f5f5');

/**
 * Make the palettes of a trace.
 * @param {MetaContent['colours']} colours
 */
export function createPalettes(colours) {
  /** @type {Record<Tint, number[]>} */
  const lists = {
    name: colours.names.map(parseColour),
    phase: colours.phases.map(parseColour),
    category: colours.categories.map(parseColour),
    module: colours.names.map(parseColour), // by a hash of the path
    step: colours.names.map(parseColour),
  };
  return {
    /** Code of the colour of annotations. */
    neutral: colours.names.length - 1,
    /**
     * @param {Tint} tint
     * @param {number} code
     */
    colour: (tint, code) => (code === NO_CODE ? GREY : lists[tint][code % lists[tint].length]),
    /** @param {number} rgb */
    css: (rgb) => `#${rgb.toString(16).padStart(6, '0')}`,
  };
}

/**
 * Colours of density cells (slots × bins) as bytes R G B A; 0 where nothing is.
 * @param {{data: Pick<DensityColumns, 'busy' | 'bright' | 'dtint'>, filtered: boolean}} answer
 * @param {Pick<Context, 'palettes' | 'tint' | 'theme'>} ctx
 */
export function densityColours({data, filtered}, ctx) {
  const {busy, bright, dtint} = data,
    own = Uint32Array.from({length: 256}, (_, code) => ctx.palettes.colour(ctx.tint, code)),
    dim = parseColour(ctx.theme.dim),
    pixels = new Uint32Array(busy.length);
  for (let cell = 0; cell < busy.length; cell++) {
    if (!busy[cell]) continue;
    const rgb = filtered ? mix(dim, own[dtint[cell]], bright[cell] ? 0.35 + (0.65 * bright[cell]) / 255 : 0) : own[dtint[cell]];
    pixels[cell] = imageColour(rgb, Math.max(FAINTEST, busy[cell]));
  }
  return pixels;
}

/**
 * Colours of the overview's cells (tracks × bins): a colour for devices and one for threads, grey where nothing is selected.
 * Of a stream with several rows that counts which holds work: annotations may lie around the kernels.
 * @param {Pick<StripAnswer, 'data' | 'filtered' | 'bins' | 'tracks' | 'busy_rows'>} answer
 * @param {Pick<Context, 'meta' | 'theme' | 'palettes' | 'colourOfName'>} ctx
 */
export function resourceColours({data, filtered, bins, tracks, busy_rows}, {meta, theme, palettes, colourOfName}) {
  const {busy, bright, dname} = data,
    dim = parseColour(theme.dim),
    device = parseColour(meta.colours.resource.device),
    host = parseColour(meta.colours.resource.host),
    pixels = new Uint32Array((Math.max(...tracks, 0) + 1) * bins);
  for (let cell = 0; cell < busy.length; cell++) {
    const row = Math.floor(cell / bins),
      track = tracks[row],
      at = track * bins + (cell % bins),
      stream = meta.tracks[track]?.kind === 'stream';
    if (filtered && bright[cell]) pixels[at] = imageColour(stream ? device : host, 255);
    else if (row < busy_rows && busy[cell] && !pixels[at] && !(stream && colourOfName(dname[cell]) === palettes.neutral))
      pixels[at] = imageColour(filtered ? dim : stream ? device : host, Math.max(FAINTEST, busy[cell]));
  }
  return pixels;
}
