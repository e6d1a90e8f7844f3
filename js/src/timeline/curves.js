// Curves of values that hold until the next one: memory and counters.
const SETTLED_MS = 150;

/**
 * @typedef {{x: ArrayLike<number>, y: ArrayLike<number>}} Curve
 * @typedef {{fill?: string, opacity?: number, line?: string, width?: number, dash?: number[]}} CurveStyle
 */

/**
 * The corners of a curve.
 * @param {ArrayLike<number>} x
 * @param {ArrayLike<number>} y
 */
export function stairs(x, y) {
  const n = x.length,
    xs = new Float64Array(Math.max(0, 2 * n - 1)),
    ys = new Float64Array(xs.length);
  for (let i = 0; i < n; i++) {
    xs[2 * i] = x[i];
    ys[2 * i] = y[i];
    if (i + 1 < n) {
      xs[2 * i + 1] = x[i + 1];
      ys[2 * i + 1] = y[i];
    }
  }
  return {x: xs, y: ys};
}

/**
 * The value at a time; null before the first.
 * @param {Curve} curve
 * @param {number} time
 */
export function valueOf({x, y}, time) {
  let lo = 0,
    hi = x.length;
  while (lo < hi) {
    const m = (lo + hi) >> 1;
    if (x[m] <= time) lo = m + 1;
    else hi = m;
  }
  return lo ? y[lo - 1] : null;
}

/**
 * A curve is asked for with half a view on each side: again at once where that ends, and when the hand rests after a zoom
 * or near the end. Gives the timer of that.
 * @param {{run(): void}} channel
 * @param {BokehRange} range
 * @param {{a: number, b: number} | null} have
 * @param {number} timer
 */
export function followCurve(channel, range, have, timer) {
  clearTimeout(timer);
  const width = range.end - range.start,
    beside = have ? Math.min(range.start - have.a, have.b - range.end) / width : -1;
  if (!have || beside < 0) channel.run();
  else if (beside < 0.2 || Math.abs((have.b - have.a) / (2 * width) - 1) > 1e-6) return setTimeout(() => channel.run(), SETTLED_MS);
  return 0;
}

/**
 * Paint values that hold until the next one, in an axis of their own: as an area down to nothing, as a line, or both.
 * @param {CanvasRenderingContext2D} pen
 * @param {BokehObject} view
 * @param {Pick<BokehRange, 'start' | 'end'>} time
 * @param {Pick<BokehRange, 'start' | 'end'>} axis
 * @param {Curve} curve
 * @param {CurveStyle} style
 */
export function paintSteps(pen, view, time, axis, {x, y}, {fill, opacity, line, width, dash = []}) {
  if (!x.length) return;
  const box = view.frame.bbox,
    across = (/** @type {number} */ t) => box.left + ((t - time.start) / (time.end - time.start)) * box.width,
    down = (/** @type {number} */ v) => box.top + ((axis.end - v) / (axis.end - axis.start)) * box.height;
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
    Object.assign(pen, {strokeStyle: line, lineWidth: width, lineJoin: 'bevel'});
    pen.setLineDash(dash);
    pen.stroke(path);
  }
  if (!fill) return;
  path.lineTo(right, down(0));
  path.lineTo(left, down(0));
  Object.assign(pen, {fillStyle: fill, globalAlpha: opacity});
  pen.fill(path);
}
