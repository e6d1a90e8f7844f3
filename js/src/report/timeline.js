// The timeline and the overview of a report: twin of service/answers/timeline.py.
import {reply} from '../shared/packing.js';
import {createLocalBins} from './density.js';

const MOST_QUADS = 4000;
const STRIP_ROWS = 14,
  STREAM_ROWS = 4,
  DEEPER_ROWS = 256;
const NOT_FILTERED_BY = ['window', 'track'];
const NO_CODE = 255;

/**
 * Make the function that gives the code that a slice is coloured by.
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @returns {(tint: Tint, i: number) => number}
 */
export function createTints(columns, given) {
  return (tint, i) => {
    if (tint === 'module' || tint === 'step') {
      const own = columns[tint]?.[i] ?? -1;
      return own < 0 ? NO_CODE : tint === 'module' ? given.moduleColours[own] : own % (given.meta.colours.names.length - 1);
    }
    const code = tint === 'name' ? given.colours[columns.name[i]] : columns[tint][i];
    return code < 0 ? NO_CODE : code;
  };
}

/**
 * The rows of a track that tell how busy it is.
 * @param {Track} track
 */
function rowsOfBusyTime({kind, row, depths, outer_rows, marks}) {
  return kind === 'stream' ? Array.from({length: Math.min(depths - marks, STREAM_ROWS)}, (_, k) => row + marks + k) : [row + outer_rows];
}

/**
 * Make the answers `timeline` and `strip`.
 * @param {import('./answers.js').Report} report
 * @param {(text: string, slices: number[]) => Uint8Array | null} foundAmong
 */
export function createTimelineAnswers({columns, given, index, left, matching, leftMatching}, foundAmong) {
  const tintOf = createTints(columns, given),
    bins = createLocalBins(columns, given, index, tintOf, left);

  /**
   * Positions and slots of the slices that are drawn one by one: the longest.
   * @param {[number, number][]} stretches
   * @param {number} least ns
   * @param {number} limit
   */
  function chosenOf(stretches, least, limit) {
    /** @type {[position: number, slot: number][]} */
    const chosen = [];
    stretches.forEach(([first, stop], slot) => {
      for (let p = first; p < stop; p++) if (index.end[p] - index.start[p] >= least) chosen.push([p, slot]);
    });
    if (chosen.length <= limit) return chosen;
    const lengths = Float64Array.from(chosen, ([p]) => index.start[p] - index.end[p]).sort();
    return chosen.filter(([p]) => index.start[p] - index.end[p] <= lengths[limit - 1]).slice(0, limit);
  }
  /**
   * @param {Partial<QuestionOf<'timeline'>> & CurveRequest} q
   * @param {SelectionState} state
   */
  function timeline(q, state) {
    const limit = Math.min(q.max_quads ?? MOST_QUADS, MOST_QUADS),
      rows = q.rows ?? [],
      mask = matching(state, NOT_FILTERED_BY),
      tint = q.tint ?? 'name';
    const stretches = rows.map((row) => index.stretch(row, Math.floor(q.a), Math.ceil(q.b)));
    const summed = left ? rows.reduce((sum, row) => sum + left.among(row, q.a, q.b), 0) : 0,
      single = stretches.reduce((sum, [first, stop]) => sum + stop - first, 0),
      least = single <= limit ? -1 : (2 * (q.b - q.a)) / q.px,
      chosen = chosenOf(stretches, least, limit);
    const drawn = left && new Set(chosen.map(([p]) => p)),
      dense =
        single > limit || summed
          ? bins(rows, q.a, q.b, q.px, mask, leftMatching(state, NOT_FILTERED_BY), tint, drawn)
          : {where: {mode: 'all', bins: 0}, out: {}},
      total = single + Math.ceil(summed),
      slices = chosen.map(([p]) => index.order[p]),
      found = foundAmong(q.find ?? '', slices);
    return reply(
      {total, quads: chosen.length, filtered: mask !== null, ...dense.where},
      {
        x0: Float64Array.from(chosen, ([p]) => index.start[p]),
        dur: Float64Array.from(chosen, ([p]) => index.end[p] - index.start[p]),
        slot: Uint16Array.from(chosen, ([, slot]) => slot),
        name: Uint32Array.from(slices, (i) => Math.max(columns.name[i], 0)),
        tint: Uint8Array.from(slices, (i) => tintOf(tint, i)),
        id: Uint32Array.from(slices),
        ...(given.meta.lines.length && {line: Int32Array.from(slices, (i) => columns.line[i])}),
        match: Uint8Array.from(slices, (i) => (mask ? mask[i] : 1)),
        ...dense.out,
        ...(found && {found}),
      },
    );
  }
  /**
   * @param {{px: number, tint?: Tint}} q
   * @param {SelectionState} state
   */
  function strip(q, state) {
    const {meta} = given,
      mask = matching(state, NOT_FILTERED_BY),
      shown = meta.tracks.slice(0, STRIP_ROWS),
      busy_rows = shown.flatMap((track, k) => rowsOfBusyTime(track).map((row) => [k, row])),
      // what is selected may lie deeper
      deeper = shown.flatMap((track, k) => {
        const told = rowsOfBusyTime(track);
        return Array.from({length: track.depths}, (_, d) => [k, track.row + d]).filter(([, row]) => !told.includes(row));
      }),
      pairs = mask ? busy_rows.concat(deeper.slice(0, DEEPER_ROWS)) : busy_rows,
      rows = pairs.map(([, row]) => row);
    const crumbMask = leftMatching(state, NOT_FILTERED_BY),
      {where, out} = bins(rows, meta.span[0], meta.span[1], q.px, mask, crumbMask, q.tint ?? 'name'),
      {busy, bright, dname, dtint} = out;
    return reply({tracks: pairs.map(([k]) => k), busy_rows: busy_rows.length, filtered: mask !== null, ...where}, {busy, bright, dname, dtint});
  }
  return {timeline, strip};
}
