// Step curves in a report: counters and memory. Twin of service/detail/curve.py and service/answers/timeline.py.
import {reply} from '../shared/packing.js';
import {lowerBound} from '../shared/search.js';

const MOST_COUNTERS = 24;

/**
 * As detail.curve.StepCurve.sample: with more changes than pixels, every pixel keeps its minimum, its maximum and its last.
 * @param {ArrayLike<number>} ts
 * @param {ArrayLike<number>} values
 * @param {number} a
 * @param {number} b
 * @param {number} px
 * @returns {[Float64Array, Float64Array]}
 */
export function sampleCurve(ts, values, a, b, px) {
  const n = ts.length,
    i = Math.max(lowerBound(ts, 0, n, a + 1e-9) - 1, 0),
    stop = lowerBound(ts, 0, n, b);
  /** @type {number[]} */
  const x = [];
  /** @type {number[]} */
  const y = [];
  if (stop <= i) return [new Float64Array(0), new Float64Array(0)];
  if (stop - i <= 4 * px)
    for (let k = i; k < stop; k++) {
      x.push(Math.max(ts[k], a));
      y.push(values[k]);
    }
  else {
    let column = -1;
    for (let k = i; k < stop; k++) {
      const c = Math.min(px - 1, Math.max(0, Math.floor(((ts[k] - a) / (b - a)) * px))),
        last = y.length;
      if (c !== column) {
        const at = Math.max(ts[k], a);
        x.push(at, at, at);
        y.push(values[k], values[k], values[k]);
        column = c;
      } else {
        y[last - 3] = Math.min(y[last - 3], values[k]);
        y[last - 2] = Math.max(y[last - 2], values[k]);
        y[last - 1] = values[k];
      }
    }
  }
  x.push(Math.max(b, x[x.length - 1]));
  y.push(values[stop - 1]);
  return [Float64Array.from(x), Float64Array.from(y)];
}

/**
 * Answer `counters`.
 * @param {ReportData} given
 * @param {Partial<QuestionOf<'counters'>> & CurveRequest} q
 */
export function counters(given, q) {
  const tracks = (q.tracks ?? []).filter((track) => given.counters[track]).slice(0, MOST_COUNTERS),
    parts = tracks.map((track) => sampleCurve(given.counters[track].ts, given.counters[track].value, q.a, q.b, q.px ?? 1000)),
    join = (/** @type {0 | 1} */ k) => Float64Array.from(parts.flatMap((part) => Array.from(part[k])));
  return reply({tracks, sizes: parts.map(([x]) => x.length)}, {x: join(0), y: join(1)});
}

/**
 * Bytes alive that slices of the mask have allocated; it begins and ends with the recording, at nothing.
 * @param {Uint8Array} mask
 * @param {CrumbMask} crumbMask
 * @param {Record<'ts' | 'bytes' | 'owner', NumberArray>} columns
 * @returns {[number[], number[]]}
 */
function aliveOf(mask, crumbMask, {ts, bytes, owner}) {
  const x = [ts[0]],
    y = [0];
  for (let i = 0, sum = 0; i < ts.length; i++) {
    if (owner[i] < 0) continue;
    const share = owner[i] < mask.length ? mask[owner[i]] : (crumbMask?.[owner[i] - mask.length] ?? 0);
    if (!share) continue;
    x.push(ts[i]);
    y.push((sum += share * bytes[i]));
  }
  return [
    [...x, ts[ts.length - 1]],
    [...y, y[y.length - 1]],
  ];
}

/**
 * The highest point of a curve in a window.
 * @param {ArrayLike<number>} ts
 * @param {ArrayLike<number>} values
 * @param {[number, number]} window
 */
function peakIn(ts, values, [begin, end]) {
  const i = Math.max(lowerBound(ts, 0, ts.length, begin + 1) - 1, 0),
    j = lowerBound(ts, 0, ts.length, end);
  let peak = null;
  for (let k = i; k < j; k++) if (!peak || values[k] > peak.bytes) peak = {ts: ts[k], bytes: values[k]};
  return peak;
}

/**
 * Answer `memory`.
 * @param {ReportData} given
 * @param {{a: number, b: number, px?: number, device?: number | null}} q
 * @param {SelectionState} state
 * @param {Matching} matching
 * @param {(state: SelectionState, without: string[]) => CrumbMask} leftMatching
 */
export function memory(given, q, state, matching, leftMatching) {
  const nothing = new Float64Array(0);
  if (!given.memory.length)
    return reply({device: null}, {x: nothing, y: nothing, rx: nothing, ry: nothing, sx: nothing, sy: nothing});
  const one = given.memory.find((m) => m.device === q.device) ?? given.memory[0],
    {ts, allocated, reserved, owner, blocks, blocks_ts: blocksTs} = one.columns;
  const mask = matching(state, ['window']),
    // a thinned curve has no owners
    alive =
      mask && owner.length ? aliveOf(mask, leftMatching(state, ['window']), {...one.columns, ts: blocksTs ?? ts}) : null;
  const sample = (/** @type {ArrayLike<number>} */ at, /** @type {ArrayLike<number>} */ values) =>
      sampleCurve(at, values, q.a, q.b, q.px ?? 1000),
    [x, y] = sample(ts, allocated),
    [rx, ry] = one.reserved ? sample(ts, reserved) : [nothing, nothing],
    inBlocks = !mask && blocks && blocksTs ? /** @type {const} */ ([blocksTs, blocks]) : null,
    selected = alive ?? inBlocks,
    [sx, sy] = selected ? sample(selected[0], selected[1]) : [nothing, nothing];
  return reply(
    {
      device: one.device,
      part: inBlocks ? 'blocks' : 'selection',
      peak: one.peak,
      window_peak: state.window ? peakIn(ts, allocated, state.window) : null,
      highest: one.highest,
      lowest: 0,
    },
    {x, y, rx, ry, sx, sy},
  );
}
