// The strip above: the whole recording. Drag the frame to move, its edges to resize, outside it to look elsewhere.
function createOverview(ctx, element) {
  const {host, meta, range} = ctx,
    view = host.viewOf(host.model('overview'));
  const rowsRange = host.model('strip_rows'),
    sheet = document.createElement('canvas');
  let have = null;
  // painted straight, as the timeline
  const repaint = paintSource(view, 'strip', (pen) => {
    if (!have?.bins) return;
    const {left, width, top, height} = view.frame.bbox,
      lane = height / have.rows,
      scale = width / (end - begin),
      across = (t) => left + (t - begin) * scale;
    pen.translate(-0.5, -0.5); // BokehJS moves everything by half a pixel, for lines
    pen.imageSmoothingEnabled = false;
    const x = across(have.bin_start),
      wide = have.bin_ns * have.bins * scale;
    for (let row = 0; row < have.rows; row++)
      pen.drawImage(sheet, 0, row, have.bins, 1, x, Math.round(top + row * lane), wide, Math.max(1, Math.round(0.75 * lane)));
  });
  const [begin, end] = meta.span,
    EDGE_PX = 6;
  const channel = ctx.asker.channel(
    () => ({t: 'strip', px: Math.round(frameOf(view, element).width), tint: ctx.tint, picture: have?.picture}),
    (answer) => {
      have = answer.same ? {...have, filtered: answer.filtered, data: {...have.data, ...answer.data}} : {...answer, tint: ctx.tint};
      rowsRange.setv({start: Math.max(have.rows, 1), end: 0});
      draw();
      ctx.count('overview');
    },
    (error) => ctx.trouble(error),
    PICTURED,
    host.frames.turn,
  );
  function draw() {
    if (have.bins) {
      sheet.width = have.bins;
      sheet.height = have.rows;
      const pixels = new Uint8ClampedArray(densityColours(have, ctx).buffer);
      sheet.getContext('2d').putImageData(new ImageData(pixels, have.bins), 0, 0);
    }
    repaint();
  }
  function seen() {
    const whole = range.start <= begin && range.end >= end;
    host.model('seen').setv({left: range.start, right: range.end, visible: !whole});
    host.model('unseen_left').setv({right: range.start, visible: !whole});
    host.model('unseen_right').setv({left: range.end, visible: !whole});
  }
  const scale = () => {
    const f = frameOf(view, element);
    return {f, ns: (end - begin) / f.width};
  };
  const timeAt = (event) => {
    const {f, ns} = scale();
    return begin + (event.clientX - f.left) * ns;
  };
  function partAt(event) {
    const {ns} = scale(),
      t = timeAt(event),
      near = EDGE_PX * ns;
    if (range.start <= begin && range.end >= end) return 'new';
    if (Math.abs(t - range.start) < near) return 'left';
    if (Math.abs(t - range.end) < near) return 'right';
    return t > range.start && t < range.end ? 'move' : 'new';
  }
  let drag = null;
  const down = (event) => {
    if (event.button !== 0) return;
    ctx.takeFocus();
    event.preventDefault();
    drag = {part: partAt(event), at: timeAt(event), start: range.start, end: range.end, x: event.clientX};
    element.setPointerCapture?.(event.pointerId);
  };
  const move = (event) => {
    if (!drag) {
      element.style.cursor = {left: 'ew-resize', right: 'ew-resize', move: 'grab', new: 'crosshair'}[partAt(event)];
      return;
    }
    const t = timeAt(event),
      by = t - drag.at;
    if (Math.abs(event.clientX - drag.x) < 3) return;
    if (drag.part === 'move') ctx.setView(drag.start + by, drag.end + by);
    else if (drag.part === 'left') ctx.setView(Math.min(t, drag.end - 20), drag.end);
    else if (drag.part === 'right') ctx.setView(drag.start, Math.max(t, drag.start + 20));
    else ctx.setView(Math.min(drag.at, t), Math.max(drag.at, t));
  };
  const up = (event) => {
    if (drag && Math.abs(event.clientX - drag.x) < 3 && drag.part === 'new' && !(range.start <= begin && range.end >= end)) {
      const half = (range.end - range.start) / 2;
      ctx.setView(drag.at - half, drag.at + half);
    }
    drag = null;
  };
  const whole = () => ctx.setView(begin, end);
  element.addEventListener('pointerdown', down);
  element.addEventListener('pointermove', move);
  element.addEventListener('pointerup', up);
  element.addEventListener('dblclick', whole);
  return {seen, refresh: () => channel.run(), close: () => channel.close()};
}
