// The critical path over the tracks: a bar above what it runs through, arrows where it changes track, the others pale.

const BAR_PX = 3,
  HEAD_PX = 4,
  LINE_PX = 1.5,
  APART_PX = 8, // arrows that are closer, on the whole, are a hatching
  PALE = 0.62;

/**
 * Where a path stays from when to when; a segment begins where the one before ends, unless short ones were left out.
 * @typedef {{track: NumberArray, start: NumberArray, end: NumberArray}} Segments
 *
 * What is seen of a path, in pixels: where it stays, and where it changes track.
 * @typedef {object} PathPicture
 * @property {{track: number, from: number, to: number}[]} bars
 * @property {{x: number, from: number, to: number}[]} arrows  `from` and `to` are tracks
 *
 * @typedef {(track: number) => [number, number] | null} Sides
 * @typedef {ReturnType<import('./painter.js').Painter['geometry']>} Geometry
 */

/**
 * What is seen of a path between two times; what is narrower than a pixel and on a pixel of its track that is drawn already is
 * left out.
 * @param {Segments} segments
 * @param {{start: number, end: number}} range
 * @param {(t: number) => number} x
 * @returns {PathPicture}
 */
export function pictureOf({track, start, end}, range, x) {
  /** @type {Map<number, {track: number, from: number, to: number}>} */
  const latest = new Map(),
    /** @type {PathPicture} */
    picture = {bars: [], arrows: []};
  for (let i = firstAfter(end, range.start); i < track.length && start[i] < range.end; i++) {
    const from = Math.floor(x(Math.max(start[i], range.start))),
      to = Math.max(Math.ceil(x(Math.min(end[i], range.end))), from + 1),
      before = latest.get(track[i]);
    if (before && from <= before.to) before.to = Math.max(before.to, to);
    else {
      const bar = {track: track[i], from, to};
      latest.set(track[i], bar);
      picture.bars.push(bar);
    }
    if (i && start[i] >= range.start && end[i - 1] === start[i] && track[i - 1] !== track[i])
      picture.arrows.push({x: x(start[i]), from: track[i - 1], to: track[i]});
  }
  if (picture.arrows.length * APART_PX > x(range.end) - x(range.start)) picture.arrows = [];
  return picture;
}

/**
 * The first place whose value is greater; values ascend.
 * @param {NumberArray} values
 * @param {number} value
 */
function firstAfter(values, value) {
  let low = 0,
    high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Draws a path into the timeline. */
export class PathLayer {
  /** @type {Segments | null} */ segments = null;
  /** @type {PathPicture} */ picture = {bars: [], arrows: []};

  /**
   * @param {Context} ctx
   * @param {import('./timeline.js').Timeline} timeline
   */
  constructor(ctx, timeline) {
    this.ctx = ctx;
    this.timeline = timeline;
  }

  /** @param {Segments | null} segments */
  show(segments) {
    this.segments = segments;
    this.picture = {bars: [], arrows: []};
    this.timeline.repaint();
  }

  /**
   * Where each track stands, from its first lane to its last, as far as it is in sight.
   * @returns {Map<number, [number, number]>}
   */
  places() {
    const places = new Map();
    for (const {place, lane} of this.timeline.lanesInSight(0))
      if (lane.kind === 'lane') {
        const [first] = places.get(lane.track.track) ?? [place];
        places.set(lane.track.track, [first, place + 1]);
      }
    return places;
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Geometry} geometry
   */
  paint(pen, geometry) {
    const {segments, ctx, timeline} = this;
    if (!segments) return;
    const {left, width, bottom, edge, lane, x, y} = geometry,
      places = this.places(),
      everywhere = timeline.lanes.placesOfTracks(),
      stuck = timeline.lanes.stuck();
    /**
     * Top and bottom of a track, where it is in sight.
     * @type {Sides}
     */
    const sides = (track) => {
      const [first, last] = places.get(track) ?? [0, 0],
        least = first >= stuck ? edge : -Infinity,
        top = Math.max(y(first), least),
        low = Math.min(y(last - 1) + lane, bottom);
      return last && low > top ? [Math.round(top), Math.round(low)] : null;
    };
    /**
     * Where the path leaves the view towards a track that has been scrolled away; null where that is hidden.
     * @param {number} track
     */
    const beyond = (track) => {
      const place = everywhere.get(track);
      return place === undefined ? null : y(place) < edge ? edge : bottom - BAR_PX;
    };
    this.picture = pictureOf(segments, ctx.range, x);
    pen.save();
    pen.translate(-0.5, -0.5); // BokehJS moves everything by half a pixel, for lines
    pen.beginPath();
    pen.rect(left, -1e5, width, 2e5);
    pen.clip();
    pen.beginPath();
    for (const track of places.keys()) {
      const side = sides(track);
      if (side) pen.rect(left, side[0], width, side[1] - side[0]);
    }
    for (const {track, from, to} of this.picture.bars) {
      const side = sides(track);
      if (side) pen.rect(from, side[0], to - from, side[1] - side[0]);
    }
    pen.fillStyle = ctx.theme.background;
    pen.globalAlpha = PALE;
    pen.fill('evenodd');
    pen.globalAlpha = 1;
    pen.fillStyle = pen.strokeStyle = ctx.theme.accent;
    for (const {track, from, to} of this.picture.bars) {
      const top = sides(track)?.[0] ?? beyond(track);
      if (top !== null) pen.fillRect(from, top, to - from, BAR_PX);
    }
    this.paintArrows(pen, sides, beyond);
    pen.restore();
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {Sides} sides
   * @param {(track: number) => number | null} beyond
   */
  paintArrows(pen, sides, beyond) {
    pen.lineWidth = LINE_PX;
    for (const {x, from, to} of this.picture.arrows) {
      const a = sides(from),
        b = sides(to);
      if (!a && !b) continue;
      const start = a ? a[0] + BAR_PX / 2 : beyond(from),
        end = b ? b[0] : beyond(to);
      if (start === null || end === null) continue;
      const down = end > start,
        tip = down ? end : end + BAR_PX,
        back = b ? tip + (down ? -HEAD_PX : HEAD_PX) : tip;
      pen.beginPath();
      pen.moveTo(x, start);
      pen.lineTo(x, back);
      pen.stroke();
      if (!b) continue;
      pen.beginPath();
      pen.moveTo(x, tip);
      pen.lineTo(x - HEAD_PX, back);
      pen.lineTo(x + HEAD_PX, back);
      pen.fill();
    }
  }
}
