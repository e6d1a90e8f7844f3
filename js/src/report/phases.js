// The step phases of a report under a selection: twin of service/answers/account.py.
import {reply} from '../shared/packing.js';
import {lowerBound} from '../shared/search.js';

/**
 * Answer `phases`.
 * @param {import('./answers.js').Report} report
 * @param {SelectionState} state
 */
export function phases(report, state) {
  const {columns, given, left, matching, leftMatching} = report,
    {content, data} = given.phases,
    without = ['step', 'phase', 'window'],
    mask = matching(state, without),
    part = new Float64Array(mask ? data.total.length : 0);
  if (mask && content.bars) {
    const cells = content.phases.length,
      stream = new Set(given.meta.tracks.filter((t) => t.kind === 'stream').map((t) => t.track)),
      isHost = (/** @type {number} */ i) => !stream.has(given.trackOfRow[columns.row[i]]),
      crumbMask = leftMatching(state, without);
    let onHost = mask.some((one, i) => one === 1 && isHost(i));
    if (crumbMask) left?.selfOf(crumbMask, 'host', () => (onHost = true));
    /** place of each phase among those of the bars */
    const place = [...given.meta.phases.map((name) => content.phases.indexOf(name)), cells - 1];
    for (let i = 0; i < mask.length; i++) {
      if (!mask[i] || columns.step[i] < 0 || (onHost && !isHost(i))) continue;
      const bar = lowerBound(data.first, 0, data.first.length, columns.step[i] + 1) - 1;
      if (bar < 0 || columns.step[i] > data.last[bar]) continue;
      const phase = columns.phase[i],
        cell = bar * cells + (phase < 0 ? cells - 1 : place[phase]);
      part[cell] += (columns.dur[i] - columns.inside[i]) / (data.last[bar] - data.first[bar] + 1);
    }
    if (left && crumbMask) addCrumbs(left, data, part, crumbMask, onHost ? 'host' : 'device', place, cells);
    for (let c = 0; c < part.length; c++) part[c] = Math.min(part[c], data.total[c]);
  }
  const estimate = left && mask !== null ? {estimate: true} : {};
  return reply({...content, filtered: mask !== null, ...estimate}, {...data, part});
}

/**
 * Self time of what was left out, spread evenly over its coarse cell.
 * @param {import('./residual/aggregates.js').ResidualAggregates} left
 * @param {PhasesAnswer['data']} data
 * @param {Float64Array} part
 * @param {Float64Array} crumbMask
 * @param {'host' | 'device'} which
 * @param {number[]} place
 * @param {number} cells
 */
function addCrumbs(left, {first, last, ts, end}, part, crumbMask, which, place, cells) {
  /** @type {[bar: number, share: number][][]} */
  const ofCell = Array.from({length: left.coarse}, () => []);
  for (let bar = 0; bar < ts.length; bar++)
    left.timeShares([[ts[bar], end[bar]]]).forEach((share, cell) => {
      if (share) ofCell[cell].push([bar, share / (last[bar] - first[bar] + 1)]);
    });
  left.selfOf(crumbMask, which, (cell, phase, ns) => {
    for (const [bar, share] of ofCell[cell]) part[bar * cells + (phase < 0 ? cells - 1 : place[phase])] += ns * share;
  });
}
