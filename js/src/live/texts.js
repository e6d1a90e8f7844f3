// What the display of a running recording says. Texts only: tested without a page.

/**
 * What Python tells twice a second: see `LiveState.at`.
 * @typedef {object} LiveState
 * @property {number} seconds
 * @property {number} steps
 * @property {number} rate
 * @property {number | null} of
 * @property {number} step
 * @property {number} line head of the running loop; -1 where not known
 * @property {number | null} left
 * @property {'before' | 'recording' | 'after'} state
 * @property {'' | 'asked' | 'known' | 'size'} reason
 * @property {number} recorded
 * @property {number[]} last
 * @property {number | null} median
 * @property {[number, number | null] | null} window
 * @property {[number, string, number, string][]} lines
 * @property {Record<string, number>} phases
 * @property {[number, number | null] | null} until
 */

const MINUTE_S = 60;

/**
 * A time in µs.
 * @param {number} us
 */
export function timeText(us) {
  const units = /** @type {const} */ ([[1e6, 's'], [1e3, 'ms'], [1, 'µs']]);
  const [scale, unit] = units.find(([least]) => us >= least) ?? [1, 'µs'];
  return `${Number((us / scale).toPrecision(3))} ${unit}`;
}

/**
 * A time that is left, in seconds, no more exact than an estimate is.
 * @param {number} seconds
 */
export function leftText(seconds) {
  if (seconds < 1) return 'under 1 s left';
  if (seconds < 2 * MINUTE_S) return `about ${Math.round(seconds)} s left`;
  return `about ${Math.round(seconds / MINUTE_S)} min left`;
}

/** @param {number} share */
const percent = (share) => `${Number((100 * share).toPrecision(2))} %`;

/**
 * What the recording does now.
 * @param {LiveState} state
 */
export function stateText(state) {
  if (state.reason === 'asked') return 'Recording stopped; the cell goes on';
  if (state.reason === 'known') return 'The median is known: recording ended; the cell goes on';
  if (state.reason === 'size') return 'The recording reached its size limit; the cell goes on';
  if (state.state === 'after') return 'The asked steps are recorded; the cell goes on';
  if (state.state === 'recording') return 'Recording';
  return state.window ? `Recording begins with step ${state.window[0]}` : 'Recording begins';
}

/**
 * How far the steps have come.
 * @param {LiveState} state
 */
export function progressText(state) {
  if (!state.steps) return `no step has ended yet · ${Math.round(state.seconds)} s`;
  const loop = state.line > 0 ? `the loop in line ${state.line}` : 'this loop',
    again = state.of !== null && state.steps > state.step; // it, or another one, ran before
  const parts = [state.of ? `step ${state.step} of ${state.of}${again ? ` of ${loop}, ${state.steps} in all` : ''}` : `step ${state.steps}`];
  if (state.rate) parts.push(`${state.rate} steps/s`);
  if (state.left !== null) parts.push(`${leftText(state.left)}${again ? ' of this loop' : ''}`);
  return parts.join(' · ');
}

/**
 * How long steps take.
 * @param {LiveState} state
 */
export function stepsText(state) {
  if (state.median === null) return '';
  const parts = [`${state.recorded} recorded`, `median of the last ${state.last.length}: ${timeText(state.median)}`];
  if (state.until) {
    const [asked, width] = state.until;
    parts.push(`${width === null ? 'not known yet' : `known to ±${percent(width)}`}, ±${percent(asked)} asked`);
  }
  return parts.join(' · ');
}

/**
 * The phases of the last steps with the share of each, in the order in which steps have them.
 * @param {LiveState} state
 */
export function phaseShares(state) {
  return ['data', 'other', 'backward', 'optimizer']
    .map((name) => ({name, share: state.phases[name] ?? 0}))
    .filter(({share}) => share > 0);
}
