// The memory curve, on the timeline's axis.
function createMemory(ctx, element) {
  const {host, meta, range} = ctx,
    figure = host.model('memory'),
    view = host.viewOf(figure);
  const peakMark = host.model('peak'),
    bytes = host.model('bytes'),
    label = host.model('peak_label'),
    colours = meta.colours.memory;
  const asks = [
    paintSource(view, 'allocated', (ctx) => {
      if (last) paintSteps(ctx, view, range, bytes, last.data.x, last.data.y, {fill: colours.allocated, opacity: 0.35, line: colours.allocated, width: 1.5});
    }),
    paintSource(view, 'alive', (ctx) => {
      if (last) paintSteps(ctx, view, range, bytes, last.data.sx, last.data.sy, {fill: colours.selected, opacity: 0.6});
    }),
    paintSource(view, 'reserved', (ctx) => {
      if (last) paintSteps(ctx, view, range, bytes, last.data.rx, last.data.ry, {line: colours.reserved, width: 1.2, dash: [6]});
    }),
  ];
  let device = null,
    timer = 0,
    have = null,
    last = null;
  const isResident = (d) => d === -1 && meta.resident,
    textOf = (d) => (d >= 0 ? `GPU ${d}` : isResident(d) ? 'process' : 'host');
  const title = document.createElement('div');
  title.className = 'nbp-figure-title';
  title.style.width = `${ctx.settings.gutter - 62}px`;
  const head = document.createElement('strong');
  head.textContent = `Memory${meta.memory.length === 1 ? ` · ${textOf(meta.memory[0])}` : ''}`;
  const note = document.createElement('div');
  note.className = 'nbp-note';
  title.append(head, note);
  if (meta.memory.length > 1) {
    const select = document.createElement('select');
    select.setAttribute('aria-label', 'device');
    for (const d of meta.memory) select.add(new Option(textOf(d), String(d)));
    select.addEventListener('change', () => {
      device = Number(select.value);
      channel.run();
    });
    title.append(select);
  }
  element.appendChild(title);

  const request = () => {
    const width = range.end - range.start;
    return {
      t: 'memory',
      a: range.start - width / 2,
      b: range.end + width / 2,
      px: Math.round(view.frame.bbox.width * 2),
      device,
    };
  };
  const channel = ctx.asker.channel(request, arrived, (error) => ctx.trouble(error), DIMENSIONS, host.frames.turn);
  function arrived(answer, asked) {
    last = answer;
    have = asked;
    const {peak} = answer;
    if (answer.device === null) return;
    bytes.setv({start: answer.lowest * 1.08, end: Math.max(answer.highest, 1) * 1.22});
    renew(peakMark, {x: [peak.ts], y: [peak.bytes]});
    label.setv({x: peak.ts, y: peak.bytes, text: `peak ${formatBytes(peak.bytes)}`, visible: true});
    placeLabel();
    for (const ask of asks) ask();
    note.replaceChildren(...notes(answer));
    ctx.count('memory');
  }
  function notes({peak, window_peak: inWindow, data, part}) {
    const line = (text, colour) => {
      const row = document.createElement('div');
      if (colour) {
        const swatch = document.createElement('i');
        swatch.style.background = colour;
        row.append(swatch);
      }
      row.append(text);
      return row;
    };
    const out = [line(isResident(last.device) ? 'resident (RSS)' : 'allocated', colours.allocated)];
    if (data.rx.length) out.push(line(isResident(last.device) ? 'at the start' : 'reserved', colours.reserved));
    if (data.sx.length) out.push(line(part === 'blocks' ? 'recorded blocks' : 'of the selection', colours.selected));
    out.push(line(`peak ${formatBytes(peak.bytes)}`, colours.peak));
    if (inWindow) out.push(line(`window ${formatBytes(inWindow.bytes)}`));
    return out;
  }
  function placeLabel() {
    // left of the mark where it would leave the picture on the right
    if (!last?.peak) return;
    const share = (last.peak.ts - range.start) / (range.end - range.start);
    label.setv({
      text_align: share > 0.85 ? 'right' : share < 0.15 ? 'left' : 'center',
      x_offset: share > 0.85 ? -8 : share < 0.15 ? 8 : 0,
      y_offset: 6,
    });
  }
  function valueAt(time) {
    return last?.data.x.length ? valueOf(last.data, time) : null;
  }
  return {
    view,
    element,
    valueAt,
    moved() {
      timer = followCurve(channel, range, have, timer);
      placeLabel();
    },
    refresh: () => channel.run(),
    close: () => {
      clearTimeout(timer);
      channel.close();
    },
    snapshot: () => ({
      device: last?.device ?? null,
      peak: last?.peak ?? null,
      points: last?.data.x.length ?? 0,
      selected: last?.data.sx.length ?? 0,
      windowPeak: last?.window_peak ?? null,
    }),
  };
}
