// What the figures need from the page: tick texts, pointer gestures, and the selected window drawn in all of them.
import {formatTicks} from '../figures/document.js';
import {byteTicks, formatBytes, formatCount, formatInstant, formatQuantity, formatShare, formatTime} from '../shared/units.js';
import {attachTimeGestures} from '../timeline/gestures.js';

/**
 * Instants at the ticks of an axis, all in one unit.
 * @param {number[]} ticks
 */
export function instantTexts(ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1,
    largest = Math.max(...ticks.map(Math.abs), 1);
  return ticks.map((t) => (t === 0 ? '0' : formatInstant(t, step, largest)));
}

/**
 * @param {Context} ctx
 * @param {import('../charts/phases.js').Phases} phases
 */
export function writeTicks(ctx, phases) {
  const {host} = ctx;
  for (const name of ['overview_time', 'timeline_time', 'memory_time', 'phases_duration']) formatTicks(host.model(name), instantTexts);
  formatTicks(host.model('memory_bytes'), byteTicks);
  formatTicks(host.model('phases_step'), (ticks) => ticks.map((t) => (Number.isInteger(t) ? phases.labelOf(t) : '')));
}

/**
 * What the tooltip says of what is under the pointer; null for nothing.
 * @param {import('../timeline/hit.js').Hit} found
 * @param {number} time
 * @param {number} inView ns
 * @param {number} origin from where instants are counted
 */
export function linesOf(found, time, inView, origin = 0) {
  switch (found.kind) {
    case 'slice':
      return [
        found.name,
        `${formatTime(found.dur)} at ${formatInstant(found.ts - origin, Math.max(found.dur, 1) / 10)}`,
        found.line ? `${found.track.name} · ${found.line}` : found.track.name,
      ];
    case 'bin':
      return [
        `${formatCount(found.count)} slices in ${formatTime(found.dur)}, busy ${formatShare(Math.min(1, found.busy))}`,
        `longest: ${found.name}`,
        found.sums ? 'this file holds them as a sum only' : 'zoom in to see each',
      ];
    case 'step':
      return [`step ${found.step}`, formatTime(found.dur), 'click: select the step'];
    case 'counter':
      return [found.counter.name, formatQuantity(found.value, found.counter.unit), `at ${formatInstant(time - origin, inView / 500)}`];
    default:
      return null;
  }
}

/**
 * A click selects a step or puts a slice into focus.
 * @param {Store} store
 * @param {import('../timeline/hit.js').Hit} found
 * @param {boolean} extend
 */
function click(store, found, extend) {
  if (found.kind === 'slice') store.set({focus: found.id}, 'timeline');
  else if (found.kind === 'step') {
    const now = store.get().step ?? [],
      again = now.length === 1 && now[0] === found.step;
    store.set({step: again ? null : extend ? [...new Set([...now, found.step])] : [found.step]}, 'timeline');
  } else store.set({focus: null}, 'timeline');
}

/**
 * A double click selects a name, or goes nearer.
 * @param {Context} ctx
 * @param {import('../timeline/hit.js').Hit} found
 * @param {number} time
 */
function doubleClick({store, zoom, setView}, found, time) {
  if (found.kind === 'slice') {
    const now = store.get().name ?? [];
    store.set({name: now.length === 1 && now[0] === found.name ? null : [found.name]}, 'timeline');
  } else if (found.kind === 'bin') zoom(0.1, time);
  else if (found.kind === 'step') setView(found.ts - 0.02 * found.dur, found.ts + 1.02 * found.dur);
}

/**
 * Listen to the pointer in the timeline and the memory curve. Gives functions that end it.
 * @param {Context} ctx
 * @param {import('../timeline/timeline.js').Timeline} timeline
 * @param {import('../charts/memory.js').Memory} memory
 * @param {(time: number, track: number | null, slice?: number) => void} setPointer  with what is under the pointer: the key of a track, the row of a slice
 * @param {() => void} left  called when the pointer leaves the timeline
 */
export function watchPointer(ctx, timeline, memory, setPointer, left) {
  const tip = ctx.tooltip,
    inView = () => ctx.range.end - ctx.range.start,
    hitOf = (/** @type {MouseEvent} */ event, /** @type {number} */ time) => timeline.hit(time, timeline.laneAt(event));
  const ends = [
    attachTimeGestures(ctx, timeline.element, timeline.view, {
      hover(event, time) {
        const lane = timeline.lanes.at(timeline.laneAt(event), timeline.laneRange.end),
          found = hitOf(event, time),
          lines = linesOf(found, time, inView());
        setPointer(time, lane?.kind === 'lane' ? lane.track.track : null, found.kind === 'slice' ? found.id : undefined);
        ctx.hoverLine(found.kind === 'slice' ? found.line : '');
        if (lines) tip.show(event, lines);
        else tip.hide();
      },
      leave: () => {
        ctx.hoverLine('');
        left();
      },
      click: (event, time) => click(ctx.store, hitOf(event, time), event.ctrlKey),
      doubleClick: (event, time) => doubleClick(ctx, hitOf(event, time), time),
      verticalDrag: (px) => timeline.scrollBy(px),
    }),
  ];
  if (memory.element.hidden) return ends;
  ends.push(
    attachTimeGestures(ctx, memory.element, memory.view, {
      hover(event, time) {
        setPointer(time, null);
        const value = memory.valueAt(time);
        if (value === null) tip.hide();
        else tip.show(event, [formatBytes(value), `at ${formatInstant(time, inView() / 500)}`]);
      },
    }),
  );
  return ends;
}

/**
 * The selected window: framed, and everything outside it veiled, in all figures with a time axis.
 * @param {Context} ctx
 */
export function showWindow(ctx) {
  const chosen = ctx.store.get().window;
  for (const name of ['timeline', 'overview', 'memory']) {
    if (!ctx.host.model(name)) continue; // a page may have some of the figures
    ctx.host.model(`${name}_window`).setv({visible: Boolean(chosen), left: chosen?.[0] ?? 0, right: chosen?.[1] ?? 1});
    ctx.host.model(`${name}_veil_left`).setv({visible: Boolean(chosen), right: chosen?.[0] ?? 0});
    ctx.host.model(`${name}_veil_right`).setv({visible: Boolean(chosen), left: chosen?.[1] ?? 1});
  }
}
