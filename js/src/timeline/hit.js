// What is at a point of the timeline.

/**
 * @typedef {{kind: null}} NothingHit
 * @typedef {{kind: 'step', step: number, ts: number, dur: number}} StepHit
 * @typedef {{kind: 'counter', counter: Counter, value: number}} CounterHit
 * @typedef {{kind: 'slice', id: number, name: string, line: string, ts: number, dur: number, track: Track}} SliceHit
 * @typedef {{kind: 'bin', name: string, count: number, busy: number, ts: number, dur: number, sums?: boolean, track: Track}} BinHit
 * @typedef {NothingHit | StepHit | CounterHit | SliceHit | BinHit} Hit
 */

/**
 * Find what is at a time and a lane.
 * @param {import('./timeline.js').Timeline} timeline
 * @param {number} time
 * @param {number} y
 * @returns {Hit}
 */
export function hitAt(timeline, time, y) {
  const {lanes, ctx} = timeline,
    {have} = timeline.pictures,
    lane = lanes.at(y, timeline.laneRange.end);
  if (!lane || !have) return {kind: null};
  if (lane.kind === 'steps') return stepAt(ctx.meta.stepColumns, time);
  if (lane.kind === 'counter') {
    const value = timeline.counters.valueAt(lane.counter.track, time);
    return value === null ? {kind: null} : {kind: 'counter', counter: lane.counter, value};
  }
  if (lane.kind !== 'lane') return {kind: null};
  const slot = have.places.indexOf(lanes.all().indexOf(lane)),
    {data} = have.answer,
    best = sliceAt(data, slot, time, 2 / timeline.timeScale());
  if (best < 0) return binAt(have.answer, slot, time, lane.track, ctx.nameOf);
  return {
    kind: 'slice',
    id: data.id[best],
    name: ctx.nameOf(data.name[best]),
    line: ctx.meta.lines[data.line?.[best] ?? -1] ?? '',
    ts: data.x0[best],
    dur: data.dur[best],
    track: lane.track,
  };
}

/**
 * @param {StepColumns} steps
 * @param {number} time
 * @returns {Hit}
 */
function stepAt({step, ts, dur}, time) {
  for (let i = 0; i < step.length; i++)
    if (time >= ts[i] && time < ts[i] + dur[i]) return {kind: 'step', step: step[i], ts: ts[i], dur: dur[i]};
  return {kind: null};
}

/**
 * The latest-started slice of a slot at a time, or near it; -1 where there is none.
 * @param {SliceColumns} data
 * @param {number} slot
 * @param {number} time
 * @param {number} near
 */
export function sliceAt(data, slot, time, near) {
  let best = -1;
  for (let i = 0; i < data.x0.length; i++) {
    if (data.slot[i] !== slot || time < data.x0[i] - near || time >= data.x0[i] + Math.max(data.dur[i], near)) continue;
    if (best < 0 || data.x0[i] >= data.x0[best]) best = i;
  }
  return best;
}

/**
 * @param {TimelinePicture} answer
 * @param {number} slot
 * @param {number} time
 * @param {Track} track
 * @param {(code: number) => string} nameOf
 * @returns {Hit}
 */
function binAt(answer, slot, time, track, nameOf) {
  if (answer.mode !== 'dense') return {kind: null};
  const {data, bins, bin_start: start, bin_ns: ns, sums} = answer;
  const k = Math.floor((time - start) / ns),
    cell = slot * bins + k;
  if (k < 0 || k >= bins || !data.count[cell]) return {kind: null};
  return {
    kind: 'bin',
    name: nameOf(data.dname[cell]),
    count: data.count[cell],
    busy: data.busy[cell] / 255,
    ts: start + k * ns,
    dur: ns,
    sums,
    track,
  };
}
