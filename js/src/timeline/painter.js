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
const FAINTEST = 70; // of 255: so much shows even of a bin with one short slice

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

// Colours of density cells (slots × bins) as bytes R G B A; 0 where nothing is.
function densityColours({data, filtered}, ctx) {
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

// Slices, density and labels of the timeline, painted straight from an answer: BokehJS takes 30 ms to copy, index and project
// the columns of 4,000 slices, which are painted in 3. What is narrower than a pixel is drawn as one.
const NARROWEST_PX = 1.2;
const GAP_PX = 0.8; // neighbours stay apart
const NARROWEST_LABEL_PX = 30,
  LABELS = 150,
  LABELS_KEPT = 600; // of those that may come into view

function createPainter(view, range, lanes) {
  const fit = createFitting();
  let boxes = [],
    texts = [],
    density = null;
  const sheet = document.createElement('canvas');

  function geometry() {
    const {left, top, width, height} = view.frame.bbox,
      scale = width / (range.end - range.start),
      lane = height / (lanes.start - lanes.end);
    return {left, width, scale, x: (t) => left + (t - range.start) * scale, y: (place) => top + (place - lanes.end) * lane};
  }
  const crisp = (ctx) => ctx.translate(-0.5, -0.5); // BokehJS moves everything by half a pixel, for lines

  function paintBoxes(ctx) {
    const {left, width, scale, x, y} = geometry(),
      [from, to] = [left - 2, left + width + 2];
    crisp(ctx);
    for (const {colour, starts, lengths, places, inset} of boxes) {
      ctx.fillStyle = colour;
      for (let i = 0; i < starts.length; i++) {
        const start = x(starts[i]),
          long = lengths[i] * scale,
          end = start + Math.max(long - Math.min(GAP_PX, 0.25 * long), NARROWEST_PX);
        if (end < from || start > to) continue;
        const l = Math.max(start, from),
          t = Math.round(y(places[i] + inset));
        ctx.fillRect(l, t, Math.min(end, to) - l, Math.round(y(places[i] + 1 - inset)) - t);
      }
    }
  }
  // every pixel shows the mean of the bins that it covers, in the colour of the fullest: none falls between two pixels
  function binsAtPixels({left, width, x}) {
    const {cells, bins, slots, start, ns} = density,
      k = (px) => Math.floor((range.start + ((px - left) / width) * (range.end - range.start) - start) / ns);
    const first = Math.max(Math.floor(left), Math.floor(x(start))),
      last = Math.min(Math.ceil(left + width), Math.ceil(x(start + bins * ns)));
    if (last <= first) return null;
    const wide = last - first,
      pixels = new Uint32Array(wide * slots),
      edges = Int32Array.from({length: wide + 1}, (_, p) => Math.min(bins, Math.max(0, k(first + p))));
    for (let slot = 0; slot < slots; slot++)
      for (let p = 0; p < wide; p++) {
        const to = slot * bins + Math.min(bins, Math.max(edges[p + 1], edges[p] + 1));
        const from = slot * bins + edges[p];
        let fullest = 0,
          sum = 0;
        for (let cell = from; cell < to; cell++) {
          sum += cells[cell] >>> 24;
          if (cells[cell] >>> 24 > fullest >>> 24) fullest = cells[cell];
        }
        if (fullest) pixels[slot * wide + p] = ((Math.max(FAINTEST, sum / (to - from)) << 24) | (fullest & 0xffffff)) >>> 0;
      }
    return {first, wide, pixels};
  }
  function paintDensity(ctx) {
    const g = geometry(),
      found = density?.slots && binsAtPixels(g);
    if (!found) return;
    const {first, wide, pixels} = found;
    sheet.width = wide;
    sheet.height = density.slots;
    sheet.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), wide), 0, 0);
    crisp(ctx);
    ctx.imageSmoothingEnabled = false;
    density.places.forEach((place, slot) => {
      const top = Math.round(g.y(place + 0.07));
      ctx.drawImage(sheet, 0, slot, wide, 1, first, top, wide, Math.round(g.y(place + 0.9)) - top);
    });
  }
  function paintTexts(ctx) {
    const {left, width, scale, x, y} = geometry();
    let drawn = 0;
    ctx.font = FONT;
    ctx.textBaseline = 'middle';
    for (const one of texts) {
      const from = Math.max(x(one.start), left),
        room = Math.min(x(one.start) + one.length * scale, left + width) - from - 7;
      if (room <= NARROWEST_LABEL_PX) continue;
      const text = fit(one.text, room);
      if (!text) continue;
      ctx.fillStyle = one.ink;
      ctx.fillText(text, from + 3, y(one.place + 0.5));
      if (++drawn === LABELS) return;
    }
  }
  const asks = [
    paintSource(view, 'density', paintDensity),
    paintSource(view, 'slices', paintBoxes),
    paintSource(view, 'labels', paintTexts),
  ];
  return {
    // items: {start, length, place, colour, inset, text, ink}; of texts, those that have room are shown, longest first
    show(items, cells) {
      const groups = new Map(),
        {scale} = geometry();
      for (const {start, length, place, colour, inset} of items) {
        const key = `${colour} ${inset}`;
        let group = groups.get(key);
        if (!group) groups.set(key, (group = {colour, inset, starts: [], lengths: [], places: []}));
        group.starts.push(start);
        group.lengths.push(length);
        group.places.push(place);
      }
      boxes = [...groups.values()];
      texts = items
        .filter(({length}) => length * scale > 0.6 * NARROWEST_LABEL_PX)
        .sort((p, q) => q.length - p.length)
        .slice(0, LABELS_KEPT);
      density = cells;
      for (const ask of asks) ask();
    },
    labels: () => texts.map(({text}) => text),
  };
}

// Texts that fit into so many pixels: the longest beginning, with an ellipsis.
function createFitting() {
  const pen = document.createElement('canvas').getContext('2d'),
    widths = new Map();
  pen.font = FONT;
  function measure(text) {
    let width = widths.get(text);
    if (width === undefined) {
      if (widths.size > 20000) widths.clear();
      widths.set(text, (width = pen.measureText(text).width));
    }
    return width;
  }
  return (text, room) => {
    const width = measure(text);
    if (width <= room) return text;
    let length = Math.floor((text.length * room) / width);
    while (length > 1 && measure(`${text.slice(0, length)}…`) > room) length--;
    return length > 1 ? `${text.slice(0, length)}…` : '';
  };
}

// Values that hold until the next one, in an axis of its own: as an area down to nothing, as a line, or both.
function paintSteps(ctx, view, time, axis, x, y, {fill, opacity, line, width, dash = []}) {
  if (!x.length) return;
  const box = view.frame.bbox,
    across = (t) => box.left + ((t - time.start) / (time.end - time.start)) * box.width,
    down = (v) => box.top + ((axis.end - v) / (axis.end - axis.start)) * box.height;
  let from = 0,
    to = x.length;
  while (from + 1 < to && x[from + 1] < time.start) from++;
  while (to - 1 > from + 1 && x[to - 2] > time.end) to--;
  const path = new Path2D(),
    left = across(x[from]);
  let right = left;
  path.moveTo(left, down(y[from]));
  for (let i = from + 1; i < to; i++) {
    right = across(x[i]);
    path.lineTo(right, down(y[i - 1]));
    path.lineTo(right, down(y[i]));
  }
  if (line) {
    Object.assign(ctx, {strokeStyle: line, lineWidth: width, lineJoin: 'bevel'});
    ctx.setLineDash(dash);
    ctx.stroke(path);
  }
  if (!fill) return;
  path.lineTo(right, down(0));
  path.lineTo(left, down(0));
  Object.assign(ctx, {fillStyle: fill, globalAlpha: opacity});
  ctx.fill(path);
}
