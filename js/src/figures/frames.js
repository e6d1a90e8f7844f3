// BokehJS paints at most every 17 ms by the clock, which is often every second frame, and what changes in a frame is painted
// in the next. Ours are painted once a frame, after everything that belongs to the frame has been done.
// What can wait takes its turn, one a frame, after what the hand is at.
const MOST_PUT_OFF = 2; // frames

/** @returns {Frames} */
export function createFrames() {
  /** @type {Set<() => void>} */
  const first = new Set();
  /** @type {Set<() => void>} */
  const paints = new Set();
  /** @type {(() => void)[]} */
  const turns = [];
  let id = 0,
    putOff = 0;
  function take() {
    if (!turns.length) return;
    if (!paints.size || putOff++ >= MOST_PUT_OFF) {
      putOff = 0;
      turns.shift()?.();
    }
    if (turns.length) id ||= requestAnimationFrame(flush);
  }
  function flush() {
    cancelAnimationFrame(id);
    id = 0;
    take();
    for (const waiting of [first, paints])
      for (const act of waiting) {
        waiting.delete(act);
        act();
      }
  }
  /** @param {Set<() => void>} waiting */
  const into =
    (waiting) =>
    /** @param {() => void} act */
    (act) => {
      waiting.add(act);
      id ||= requestAnimationFrame(flush);
    };
  /** @param {() => void} act */
  function turn(act) {
    if (document.hidden) {
      act(); // no frame comes
      return;
    }
    turns.push(act);
    id ||= requestAnimationFrame(flush);
  }
  function close() {
    cancelAnimationFrame(id);
    turns.length = 0;
    first.clear();
    paints.clear();
  }
  return {before: into(first), paint: into(paints), turn, flush, close};
}

/**
 * Paint a figure in our frames.
 * @param {BokehObject} view
 * @param {Frames} frames
 */
export function paintInFrames(view, frames) {
  const paint = () => {
    if (!view.is_destroyed) view.repaint();
  };
  view.throttled_paint = () => {
    frames.paint(paint);
    return Promise.resolve();
  };
  // a canvas that is wiped is copied to the screen: the upper one is, only while something is on it
  const {overlays} = view.canvas_view,
    wipe = overlays.clear;
  let used = true;
  /** @this {BokehObject} */
  overlays.clear = function () {
    const using = [...view.computed_renderer_views].some(({model}) => model.level === 'overlay' && model.visible);
    if (using || used) wipe.call(this);
    used = using;
  };
}
