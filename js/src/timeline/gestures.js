// Pointer and wheel on anything that has the time axis: drag pans, shift+drag (or the select mode) brushes a window,
// the wheel zooms with Ctrl or once the views have the focus: a notebook's scrolling is never taken away.
const DRAG_PX = 4;

function attachTimeGestures(ctx, element, view, {click, doubleClick, hover, verticalDrag}) {
  const brush = ctx.host.model('brush'),
    range = ctx.range;
  const timeAt = (event) => {
    const f = frameOf(view, element);
    return range.start + ((event.clientX - f.left) / f.width) * (range.end - range.start);
  };
  const inside = (event) => {
    const f = frameOf(view, element);
    return (
      event.clientX >= f.left &&
      event.clientX <= f.left + f.width &&
      event.clientY >= f.top - 26 &&
      event.clientY <= f.top + f.height
    );
  };
  let drag = null,
    resting = 0;

  const down = (event) => {
    if (event.button !== 0 || !inside(event)) return;
    ctx.takeFocus();
    ctx.tooltip.hide();
    const brushing = event.shiftKey || ctx.mode() === 'select';
    drag = {
      x: event.clientX,
      y: event.clientY,
      lastY: event.clientY,
      start: range.start,
      end: range.end,
      at: timeAt(event),
      brushing,
      moved: false,
      id: event.pointerId,
    };
    event.preventDefault();
  };
  const move = (event) => {
    if (!drag) {
      if (inside(event)) hover?.(event, timeAt(event));
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
      const [a, b] = [drag.at, timeAt(event)].sort((p, q) => p - q);
      brush.setv({left: a, right: b, visible: true});
      ctx.hint(`${formatTime(b - a)}`);
      return;
    }
    const f = frameOf(view, element),
      shift = ((event.clientX - drag.x) / f.width) * (drag.end - drag.start);
    ctx.setView(drag.start - shift, drag.end - shift);
    if (verticalDrag) {
      verticalDrag(drag.lastY - event.clientY);
      drag.lastY = event.clientY;
    }
  };
  const up = (event) => {
    if (!drag) return;
    const {brushing, moved, at} = drag;
    drag = null;
    element.classList.remove('nbp-brushing', 'nbp-panning');
    if (!moved) {
      click?.(event, at);
      return;
    }
    if (!brushing) return;
    brush.visible = false;
    ctx.hint('');
    const [a, b] = [at, timeAt(event)]
      .sort((p, q) => p - q)
      .map((t) => Math.min(Math.max(t, ctx.meta.span[0]), ctx.meta.span[1]));
    if (b - a >= 1) ctx.store.set({window: [Math.floor(a), Math.ceil(b)]}, 'timeline');
  };
  const cancel = () => {
    drag = null;
    brush.visible = false;
    element.classList.remove('nbp-brushing', 'nbp-panning');
  };
  const twice = (event) => {
    if (inside(event)) doubleClick?.(event, timeAt(event));
  };
  const wheel = (event) => {
    if (event.target.closest?.('.nbp-gutter')) return; // the tracks scroll by themselves
    if (!(event.ctrlKey || event.metaKey || ctx.hasFocus())) {
      ctx.hint('Ctrl + wheel zooms; click first to zoom with the wheel alone');
      return;
    }
    event.preventDefault();
    ctx.tooltip.hide(); // what it tells of goes away; what comes under the pointer is told when the wheel rests
    clearTimeout(resting);
    resting = setTimeout(() => {
      if (!drag && element.matches(':hover') && inside(event)) hover?.(event, timeAt(event));
    }, REST_MS);
    const unit = event.deltaMode === 1 ? 16 : 1,
      width = range.end - range.start,
      f = frameOf(view, element);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = (((event.deltaX || event.deltaY) * unit) / f.width) * width;
      ctx.setView(range.start + shift, range.end + shift);
    } else {
      // a pinch on a touchpad comes as a wheel with Ctrl and small steps
      const pinch = event.ctrlKey && event.deltaMode === 0 && Math.abs(event.deltaY) < 40;
      ctx.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * (pinch ? 0.012 : 0.002)))), timeAt(event));
    }
  };
  const leave = () => {
    clearTimeout(resting);
    ctx.tooltip.hide();
  };
  const listeners = [
    ['pointerdown', down],
    ['pointermove', move],
    ['pointerup', up],
    ['pointercancel', cancel],
    ['dblclick', twice],
    ['pointerleave', leave],
  ];
  for (const [type, listener] of listeners) element.addEventListener(type, listener);
  element.addEventListener('wheel', wheel, {passive: false});
  // the drag goes on outside the figure where pointer capture is refused (synthetic pointers)
  window.addEventListener('pointerup', up);
  return () => {
    clearTimeout(resting);
    for (const [type, listener] of listeners) element.removeEventListener(type, listener);
    element.removeEventListener('wheel', wheel);
    window.removeEventListener('pointerup', up);
  };
}
