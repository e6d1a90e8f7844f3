// Memory, step phases and operators, seen before BokehJS is there: the former two on canvases, the table itself.
import {bytesOf, CURVES, paintCurve} from '../charts/memory.js';
import {axesOf, barsOf, paintBars, rangesOf, STEP_PHASES} from '../charts/phases.js';
import {Table} from '../table/table.js';
import {canvasOver} from '../timeline/early.js';
import {namedTrace} from './context.js';
import {memoryQuestion} from './opening.js';
import {recall} from './remembered.js';

const AROUND_PX = {top: 4, bottom: 4, right: 14}, // as dashboard.json has them
  BARS_LEFT_PX = 62,
  STEPS_PX = 36; // the axis below the bars

/** @typedef {{ctx: Context, state: SelectionState, table: Table | null, picture: import('../timeline/early.js').EarlyPicture | null}} Early */

/**
 * What views need of a context before the figures are there. The page completes it.
 * @param {Pick<Context, 'meta' | 'settings' | 'store' | 'asker'>} given
 * @param {HTMLElement} root
 * @returns {Context}
 */
export function earlyContext(given, root) {
  const nothing = () => {},
    host = {frames: {turn: (/** @type {() => void} */ act) => act()}};
  return /** @type {Context} */ (
    /** @type {unknown} */ ({...given, ...namedTrace(given.meta, root), host, count: nothing, hint: nothing, totals: nothing, trouble: nothing})
  );
}

/**
 * Ask for the views, and draw each when it is answered. What is asked here is not asked again by the figures.
 * @param {Context} ctx
 * @param {PageParts} parts
 * @param {Pick<BokehRange, 'start' | 'end'>} range
 * @param {{left: number, width: number}} frame of the timeline
 * @param {() => boolean} wanted false when the figures are there
 */
export function firstViews(ctx, parts, range, frame, wanted) {
  const {asker, meta, settings, store} = ctx,
    {empty} = settings,
    drawing = [];
  if (!empty.memory && recall('memory') !== 'open') {
    const draw = (/** @type {MemoryAnswer | NoMemory} */ answer) => {
      if (answer.device === null || !wanted()) return;
      const high = parts.memory.clientHeight,
        pen = canvasOver(parts.memory, high),
        bbox = {left: frame.left, top: AROUND_PX.top, width: frame.width, height: high - AROUND_PX.top - AROUND_PX.bottom};
      pen.beginPath();
      pen.rect(bbox.left, 0, bbox.width, high); // a curve is asked for with half a view on each side
      pen.clip();
      for (const curve of CURVES) paintCurve(pen, curve, answer, {frame: {bbox}}, range, bytesOf(answer), meta);
    };
    drawing.push(asker.foresee(memoryQuestion(range, frame.width, null), wanted).then(draw));
  }
  if (!empty.phases) {
    parts.phaseTitle.textContent = STEP_PHASES;
    const draw = (/** @type {PhasesAnswer} */ answer) => {
      if (!wanted() || !answer.bars) return;
      const {clientHeight: high, clientWidth: wide} = parts.phases,
        {boxes, heights} = barsOf(answer, store.get(), meta),
        {xs, ys} = rangesOf(heights, answer.bars),
        width = Math.max(1, wide - BARS_LEFT_PX - AROUND_PX.right),
        height = high - AROUND_PX.top - AROUND_PX.bottom - STEPS_PX;
      paintBars(canvasOver(parts.phases, high), boxes, axesOf({left: BARS_LEFT_PX, top: AROUND_PX.top, width, height}, xs, ys));
    };
    drawing.push(asker.foresee({t: 'phases'}, wanted).then(draw));
  }
  const table = settings.open === 'operators' ? new Table(ctx, parts.table) : null;
  if (table) drawing.push(table.refresh());
  return {table, drawn: Promise.allSettled(drawing)};
}
