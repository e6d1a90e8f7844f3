// Where the view goes: pan and zoom within the recording, to what is selected, and from one slice to another.
import {NARROWEST_NS} from '../timeline/early.js';

/**
 * @typedef {object} Targets
 * @property {import('../timeline/timeline.js').Timeline} timeline
 * @property {import('./detail.js').Detail} details
 *
 * @typedef {Pick<Context, 'setView' | 'zoom' | 'fitSelection' | 'showSelection' | 'walk' | 'goTo' | 'neighbour' | 'follow' | 'reveal'>} Navigation
 */

const ENDS = {
  next: 'the last one in its row',
  previous: 'the first one in its row',
  parent: 'nothing is around it',
  child: 'nothing is inside it',
};

/**
 * The selected time, or that of the selected steps.
 * @param {SelectionState} state
 * @param {StepColumns} steps
 * @returns {[number, number] | null}
 */
export function chosenSpan({window: chosen, step}, {step: numbers, ts, dur}) {
  const at = (step ?? []).map((s) => numbers.indexOf(s)).filter((i) => i >= 0);
  if (chosen || !at.length) return chosen ?? null;
  return [Math.min(...at.map((i) => ts[i])), Math.max(...at.map((i) => ts[i] + dur[i]))];
}

/**
 * Make the ways to move the view. `targets` is asked when one is used: the parts of the page know the context, too.
 * @param {Pick<Context, 'store' | 'meta' | 'asker' | 'range' | 'hint' | 'trouble'>} page
 * @param {() => Targets} targets
 * @returns {Navigation}
 */
export function createNavigation({store, meta, asker, range, hint, trouble}, targets) {
  const [begin, end] = meta.span;

  /** @type {Navigation['setView']} */
  function setView(a, b) {
    const width = Math.min(Math.max(b - a, NARROWEST_NS), 1.2 * (end - begin)),
      margin = 0.1 * width;
    const start = Math.min(Math.max(a, begin - margin), end + margin - width);
    range.setv({start, end: start + width});
  }
  /** @type {Navigation['zoom']} */
  function zoom(factor, at) {
    const width = Math.min(Math.max((range.end - range.start) * factor, NARROWEST_NS), 1.2 * (end - begin)),
      share = (at - range.start) / (range.end - range.start);
    setView(at - share * width, at - share * width + width);
  }
  function fitSelection() {
    const detail = targets().details.current(),
      span = chosenSpan(store.get(), meta.stepColumns) ?? (detail && [detail.ts - detail.dur, detail.ts + 2 * detail.dur]);
    if (!span) {
      setView(begin, end);
      return;
    }
    const margin = 0.05 * (span[1] - span[0]);
    setView(span[0] - margin, span[1] + margin);
  }
  /** Bring the selected time into view where none of it is. */
  function showSelection() {
    const span = chosenSpan(store.get(), meta.stepColumns);
    if (span && (span[1] <= range.start || span[0] >= range.end)) fitSelection();
  }
  /** @type {Navigation['goTo']} */
  function goTo(found) {
    store.set({focus: found.id}, 'timeline');
    if (found.ts < range.start || found.ts + found.dur > range.end) {
      const width = Math.max(range.end - range.start, 2 * found.dur);
      setView(found.ts + found.dur / 2 - width / 2, found.ts + found.dur / 2 + width / 2);
    }
    targets().timeline.showRow(found.row, found.id);
  }
  /** @type {Navigation['walk']} */
  async function walk(by) {
    const id = store.get().focus;
    if (id == null) return;
    const found = await asker.ask({t: 'find', id, by});
    if (found.id === null) hint(by > 0 ? 'this is the last one on its track' : 'this is the first one on its track');
    else goTo(found);
  }
  /** @type {Navigation['neighbour']} */
  async function neighbour(to) {
    const id = store.get().focus,
      row = targets().timeline.firstRow();
    const found = await asker.ask({t: 'neighbour', id: id ?? -1, to, row, at: Math.max(begin, Math.ceil(range.start))});
    if (found.id === null) hint(ENDS[to]);
    else goTo(found);
  }
  function follow() {
    const links = targets().details.current()?.links ?? [],
      link = links.find((one) => one.direction === 'to') ?? links[0];
    if (link) goTo(link);
    else hint('no arrow begins or ends at this slice');
  }
  /** @param {number} id */
  async function find(id) {
    const found = await asker.ask({t: 'detail', id});
    if (found.found) goTo(found);
  }
  return {setView, zoom, fitSelection, showSelection, walk, goTo, neighbour, follow, reveal: (id) => void find(id).catch(trouble)};
}
