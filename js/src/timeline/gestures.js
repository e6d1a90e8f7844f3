// Pointer and wheel on anything that has the time axis: drag pans, shift+drag (or the select mode) brushes a window,
// the wheel zooms with Ctrl, or after a click here: a notebook's scrolling is never taken away.
import {frameOf} from '../figures/document.js';
import {targetOf} from '../shared/elements.js';
import {formatInstant, formatTime} from '../shared/units.js';

const DRAG_PX = 4;
const REST_MS = 150;

/**
 * @typedef {object} TimeHandlers
 * @property {(event: MouseEvent, time: number) => void} [hover]
 * @property {() => void} [leave]
 * @property {(event: MouseEvent, time: number) => void} [click]
 * @property {(event: MouseEvent, time: number) => void} [doubleClick]
 * @property {(px: number) => void} [verticalDrag]
 *
 * @typedef {object} Drag
 * @property {number} x
 * @property {number} y
 * @property {number} lastY
 * @property {number} start
 * @property {number} end
 * @property {number} at
 * @property {boolean} brushing
 * @property {boolean} moved
 * @property {number} id
 */

/** The gestures of one figure. */
class TimeGestures {
  /** @type {Drag | null} */ drag = null;
  resting = 0;

  /**
   * @param {Context} ctx
   * @param {HTMLElement} element
   * @param {BokehObject} view
   * @param {TimeHandlers} handlers
   */
  constructor(ctx, element, view, handlers) {
    this.ctx = ctx;
    this.element = element;
    this.view = view;
    this.handlers = handlers;
    this.brush = ctx.host.model('brush');
    this.range = ctx.range;
  }

  /** @param {MouseEvent} event */
  timeAt(event) {
    const f = frameOf(this.view, this.element);
    return this.range.start + ((event.clientX - f.left) / f.width) * (this.range.end - this.range.start);
  }

  /** @param {MouseEvent} event */
  inside(event) {
    const f = frameOf(this.view, this.element);
    return (
      event.clientX >= f.left &&
      event.clientX <= f.left + f.width &&
      event.clientY >= f.top - 26 &&
      event.clientY <= f.top + f.height
    );
  }

  /** @param {PointerEvent} event */
  down = (event) => {
    if (event.button !== 0 || !this.inside(event)) return;
    this.ctx.takeFocus();
    this.ctx.tooltip.hide();
    const brushing = event.shiftKey || this.ctx.mode() === 'select';
    this.drag = {
      x: event.clientX,
      y: event.clientY,
      lastY: event.clientY,
      start: this.range.start,
      end: this.range.end,
      at: this.timeAt(event),
      brushing,
      moved: false,
      id: event.pointerId,
    };
    event.preventDefault();
  };

  /** @param {PointerEvent} event */
  move = (event) => {
    const {ctx, drag, element} = this;
    if (!drag) {
      if (this.inside(event)) this.handlers.hover?.(event, this.timeAt(event));
      else ctx.tooltip.hide();
      return;
    }
    if (!drag.moved && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < DRAG_PX) return;
    if (!drag.moved) {
      drag.moved = true;
      ctx.tooltip.hide();
      element.setPointerCapture?.(drag.id);
      element.classList.add(drag.brushing ? 'nbp-brushing' : 'nbp-panning');
    }
    if (drag.brushing) {
      const [a, b] = [drag.at, this.timeAt(event)].sort((p, q) => p - q);
      this.brush.setv({left: a, right: b, visible: true});
      ctx.tooltip.show(event, [formatTime(b - a), `${formatInstant(a, (b - a) / 100, b)} – ${formatInstant(b, (b - a) / 100)}`]);
      return;
    }
    const f = frameOf(this.view, element),
      shift = ((event.clientX - drag.x) / f.width) * (drag.end - drag.start);
    ctx.setView(drag.start - shift, drag.end - shift);
    if (this.handlers.verticalDrag) {
      this.handlers.verticalDrag(drag.lastY - event.clientY);
      drag.lastY = event.clientY;
    }
  };

  /** @param {PointerEvent} event */
  up = (event) => {
    if (!this.drag) return;
    const {ctx} = this,
      {brushing, moved, at} = this.drag;
    this.drag = null;
    this.element.classList.remove('nbp-brushing', 'nbp-panning');
    if (!moved) {
      this.handlers.click?.(event, at);
      return;
    }
    if (!brushing) return;
    this.brush.visible = false;
    ctx.tooltip.hide();
    const [a, b] = [at, this.timeAt(event)]
      .sort((p, q) => p - q)
      .map((t) => Math.min(Math.max(t, ctx.meta.span[0]), ctx.meta.span[1]));
    if (b - a >= 1) ctx.store.set({window: [Math.floor(a), Math.ceil(b)]}, 'timeline');
  };

  cancel = () => {
    this.drag = null;
    this.brush.visible = false;
    this.element.classList.remove('nbp-brushing', 'nbp-panning');
  };

  /** @param {MouseEvent} event */
  twice = (event) => {
    if (this.inside(event)) this.handlers.doubleClick?.(event, this.timeAt(event));
  };

  /** @param {WheelEvent} event */
  wheel = (event) => {
    const {ctx, element, range} = this;
    if (targetOf(event).closest?.('.nbp-gutter, .nbp-gutter-pins')) return; // the tracks scroll by themselves
    if (!(event.ctrlKey || event.metaKey || ctx.inTimeline())) {
      ctx.hint('Ctrl + wheel zooms; click here first to zoom with the wheel alone');
      return;
    }
    event.preventDefault();
    ctx.tooltip.hide(); // what it tells of goes away; what comes under the pointer is told when the wheel rests
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      if (!this.drag && element.matches(':hover') && this.inside(event)) this.handlers.hover?.(event, this.timeAt(event));
    }, REST_MS);
    const unit = event.deltaMode === 1 ? 16 : 1,
      width = range.end - range.start,
      f = frameOf(this.view, element);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = (((event.deltaX || event.deltaY) * unit) / f.width) * width;
      ctx.setView(range.start + shift, range.end + shift);
    } else {
      // a pinch on a touchpad comes as a wheel with Ctrl and small steps
      const pinch = event.ctrlKey && event.deltaMode === 0 && Math.abs(event.deltaY) < 40;
      ctx.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * (pinch ? 0.012 : 0.002)))), this.timeAt(event));
    }
  };

  leave = () => {
    clearTimeout(this.resting);
    this.ctx.tooltip.hide();
    this.handlers.leave?.();
  };
}

/**
 * Listen to the gestures on a figure with the time axis. Gives a function that ends it.
 * @param {Context} ctx
 * @param {HTMLElement} element
 * @param {BokehObject} view
 * @param {TimeHandlers} handlers
 */
export function attachTimeGestures(ctx, element, view, handlers) {
  const gestures = new TimeGestures(ctx, element, view, handlers),
    listening = new AbortController(),
    {signal} = listening;
  element.addEventListener('pointerdown', gestures.down, {signal});
  element.addEventListener('pointermove', gestures.move, {signal});
  element.addEventListener('pointerup', gestures.up, {signal});
  element.addEventListener('pointercancel', gestures.cancel, {signal});
  element.addEventListener('dblclick', gestures.twice, {signal});
  element.addEventListener('pointerleave', gestures.leave, {signal});
  element.addEventListener('wheel', gestures.wheel, {passive: false, signal});
  // the drag goes on outside the figure where pointer capture is refused (synthetic pointers)
  window.addEventListener('pointerup', gestures.up, {signal});
  return () => {
    clearTimeout(gestures.resting);
    listening.abort();
  };
}
