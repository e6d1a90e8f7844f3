// Everything about one slice of a report: twin of service/answers/find.py.
import {reply} from '../shared/packing.js';
import {lowerBound} from '../shared/search.js';
import {createLocalArguments} from './arguments.js';

const MOST_LINKS = 20;
const LONGEST_NAME = 200;
const MOST_FRAMES = 40;

const textOf = (/** @type {string[] | undefined} */ list, /** @type {number} */ code) => (code >= 0 ? (list?.[code] ?? '') : '');

/**
 * Make the answer `detail`.
 * @param {import('./answers.js').Report} report
 */
export function createDetailAnswer({columns, given, index, parent}) {
  const {meta} = given,
    argumentsOf = createLocalArguments(given.told);

  /** @param {number} id */
  const named = (id) => ({id, name: given.names[columns.name[id]]});
  /** @param {number} i */
  function ancestors(i) {
    let depth = 0;
    for (let up = parent[i]; up >= 0; up = parent[up]) depth++;
    return depth;
  }
  /**
   * @param {number} i
   * @param {Track} track
   */
  function parentOf(i, track) {
    if (track.marks || track.folded) return parent[i] >= 0 ? named(parent[i]) : null;
    const row = columns.row[i],
      above = lowerBound(index.start, index.pointer[row - 1], index.pointer[row], columns.ts[i] + 0.5) - 1;
    if (above < index.pointer[row - 1] || index.end[above] < columns.ts[i]) return null;
    return named(index.order[above]);
  }
  /** @param {number} i */
  function linksOf(i) {
    const {flow_src: src, flow_dst: dst, flow_kind: kind} = columns,
      out = [];
    for (const [mine, other, direction] of /** @type {[NumberArray, NumberArray, 'to' | 'from'][]} */ ([
      [src, dst, 'to'],
      [dst, src, 'from'],
    ])) {
      for (let k = 0, found = 0; k < mine.length && found < MOST_LINKS; k++) {
        if (mine[k] !== i) continue;
        const end = other[k];
        found++;
        out.push({
          kind: given.flowKinds[kind[k]],
          direction,
          id: end,
          name: given.names[columns.name[end]].slice(0, LONGEST_NAME),
          ts: columns.ts[end],
          dur: columns.dur[end],
          row: columns.row[end],
        });
      }
    }
    return out;
  }
  /** @param {number} i */
  function stackOf(i) {
    /** @type {string[]} */
    const out = [];
    if (!given.stacks) return out;
    const {texts, columns: {leaf, frame, parent: caller}} = given.stacks;
    for (let at = leaf[i]; at >= 0 && out.length < MOST_FRAMES; at = caller[at]) out.unshift(texts[frame[at]]);
    return out;
  }
  /** @param {{id: number}} q */
  return async ({id: i}) => {
    if (!(i >= 0 && i < columns.row.length)) return reply({found: false});
    const row = columns.row[i],
      track = meta.tracks.find((t) => row >= t.row && row < t.row + t.depths);
    if (!track) throw new Error(`no track has row ${row}`);
    return reply({
      found: true,
      id: i,
      name: given.names[columns.name[i]],
      category: textOf(meta.categories, columns.category[i]),
      track_name: track.name,
      group: track.group,
      row,
      depth: track.marks || track.folded ? ancestors(i) : row - track.row,
      ts: columns.ts[i],
      dur: columns.dur[i],
      self_ns: columns.dur[i] - columns.inside[i],
      step: columns.step[i] < 0 ? null : columns.step[i],
      phase: textOf(meta.phases, columns.phase[i]),
      module: columns.module ? textOf(given.groups.module?.labels, columns.module[i]) : '',
      line: given.lineLabels[columns.line[i]] ?? '',
      shapes: columns.shapes ? (given.groups.shapes?.details?.[columns.shapes[i]] ?? '') : '',
      parent: track.folded || row > track.row ? parentOf(i, track) : null,
      ...(await argumentsOf(i)),
      stack: stackOf(i),
      links: linksOf(i),
    });
  };
}
