// The account of the cell, a thin strip above the other views: each stretch of time belongs to one part (steps, a statement,
// steps that were not asked for, the profiler itself, what nobody recorded). A click selects the time of a stretch.
const ACCOUNT_FONT = '11px helvetica';
const ACCOUNT_PAD = 4; // px beside a label
const NARROWEST_STRETCH_PX = 1;
const THIN_PX = 2; // what is thinner does not interrupt its neighbours

// The part in words, for one of its stretches: a loop that is interrupted has its steps here and there.
function stretchWords(part, steps) {
  const whole = steps === part.steps || !steps;
  if (part.kind === 'steps' && !whole) return `${formatCount(steps)} ${steps === 1 ? 'step' : 'steps'}`;
  if (part.kind === 'outside-window' && !whole) return `${formatCount(steps)} ${steps === 1 ? 'step' : 'steps'} not recorded`;
  return part.part;
}

function accountColours(ctx, parts) {
  const {steps, code} = ctx.meta.colours.account,
    paper = parseColour(ctx.theme.background),
    ink = parseColour(ctx.theme.text);
  let statements = 0,
    loops = 0;
  return parts.map(({kind}) => {
    if (kind === 'steps') return parseColour(steps[loops++ % steps.length]);
    if (kind === 'code') return mix(paper, parseColour(code[statements++ % code.length]), luminance(paper) < 0.2 ? 0.8 : 1);
    return mix(paper, ink, {'outside-window': 0.06, profiler: 0.4}[kind] ?? 0.14);
  });
}

// What can be drawn at so many ns a pixel: a part that goes on after something too thin to be seen is one stretch.
function drawnStretches(stretches, thin) {
  const out = [];
  let last = null,
    crumbs = []; // thin ones after the last
  const keep = () => {
    out.push(...crumbs);
    crumbs = [];
  };
  for (const one of stretches) {
    if (last && one.part === last.part && one.from - last.to < thin) {
      Object.assign(last, {to: one.to, steps: last.steps + one.steps});
      crumbs = [];
    } else if (last && one.to - last.to < thin) crumbs.push({...one});
    else {
      keep();
      out.push((last = {...one}));
    }
  }
  keep();
  return out;
}

function createAccount(ctx, element) {
  const {store, meta, settings, host} = ctx,
    canvas = document.createElement('canvas'),
    fit = createFitting(),
    title = document.createElement('span');
  let parts = [],
    recorded = [], // {from, to, part, steps}
    stretches = [], // of them what is drawn
    span = meta.span,
    thinned = false,
    cursor = -1,
    labels = [];
  title.className = 'nbp-account-title';
  title.style.width = `${settings.gutter - 12}px`;
  element.append(title, canvas);

  const box = () => {
    const rect = element.getBoundingClientRect();
    return {left: rect.left + settings.gutter, width: Math.max(1, rect.width - settings.gutter - settings.margin), height: rect.height};
  };
  function arrived({parts: rows, shown, thinned: already, data}) {
    parts = rows;
    thinned = already;
    recorded = Array.from(data.ts, (from, i) => ({from, to: from + data.dur[i], part: data.part[i], steps: data.steps[i]}));
    element.hidden = !shown;
    if (element.hidden) return;
    span = [Math.min(meta.span[0], recorded[0].from), Math.max(meta.span[1], recorded.at(-1).to)];
    const whole = parts.reduce((sum, part) => sum + part.dur, 0);
    title.textContent = `account of ${formatTime(whole)}`;
    element.tabIndex = 0;
    element.setAttribute('role', 'listbox');
    const most = [...parts].sort((p, q) => q.dur - p.dur).slice(0, 6);
    element.setAttribute(
      'aria-label',
      `account of ${formatTime(whole)}: ${most.map((part) => `${part.part} ${formatTime(part.dur)}`).join('; ')}. Arrows move, Enter selects, Shift extends`,
    );
    draw();
    ctx.count('account');
  }

  function draw() {
    if (element.hidden || !recorded.length) return;
    const {width, height} = box(),
      dots = window.devicePixelRatio || 1,
      pen = canvas.getContext('2d'),
      colours = accountColours(ctx, parts),
      scale = width / (span[1] - span[0]),
      x = (t) => (t - span[0]) * scale,
      chosen = store.get().window;
    stretches = thinned ? recorded : drawnStretches(recorded, THIN_PX / scale);
    cursor = Math.min(cursor, stretches.length - 1);
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    Object.assign(canvas.style, {left: `${settings.gutter}px`, width: `${width}px`, height: `${height}px`});
    pen.scale(dots, dots);
    Object.assign(pen, {font: ACCOUNT_FONT, textBaseline: 'middle'});
    labels = [];
    stretches.forEach((one, i) => {
      const {kind} = parts[one.part],
        from = x(one.from),
        long = Math.max(x(one.to) - from - (x(one.to) - from > 3 ? 1 : 0), NARROWEST_STRETCH_PX);
      pen.fillStyle = ctx.palettes.css(colours[one.part]);
      pen.fillRect(from, 0, long, height);
      if (kind === 'outside-window') hatch(pen, from, long, height);
      const text = labelOf(one, long - 2 * ACCOUNT_PAD);
      if (text) {
        labels.push(text);
        if (kind === 'outside-window') {
          // a hatched ground is no ground for letters
          pen.fillStyle = ctx.palettes.css(colours[one.part]);
          pen.fillRect(from + ACCOUNT_PAD - 2, 1, pen.measureText(text).width + 4, height - 2);
        }
        pen.fillStyle = textOn(colours[one.part]);
        pen.fillText(text, from + ACCOUNT_PAD, height / 2 + 0.5);
      }
      if (i === cursor) frame(pen, from, long, height, ctx.theme.text);
    });
    if (!chosen) return;
    const [a, b] = [Math.max(0, x(chosen[0])), Math.min(width, x(chosen[1]))];
    Object.assign(pen, {fillStyle: ctx.theme.background, globalAlpha: 0.6});
    pen.fillRect(0, 0, a, height);
    pen.fillRect(b, 0, width - b, height);
    pen.globalAlpha = 1;
    if (b > a) frame(pen, a, Math.max(b - a, 2), height, ctx.theme.accent);
  }
  function hatch(pen, from, long, height) {
    pen.save();
    pen.beginPath();
    pen.rect(from, 0, long, height);
    pen.clip();
    pen.beginPath();
    for (let at = from - height - (from % 6); at < from + long; at += 6) {
      pen.moveTo(at, height);
      pen.lineTo(at + height, 0);
    }
    Object.assign(pen, {strokeStyle: ctx.theme.muted, lineWidth: 1, globalAlpha: 0.45});
    pen.stroke();
    pen.restore();
  }
  function frame(pen, from, long, height, colour) {
    Object.assign(pen, {strokeStyle: colour, lineWidth: 2});
    pen.strokeRect(from + 1, 1, Math.max(long - 2, 1), height - 2);
  }
  // as much as has room: what and how long; what; its beginning
  function labelOf({from, to, part, steps}, room) {
    const row = parts[part];
    if (room < 2 * ACCOUNT_PAD || row.kind === 'not-recorded') return room > 70 && row.kind === 'not-recorded' ? row.part : '';
    const words = stretchWords(row, steps),
      timed = `${words} · ${formatTime(to - from)}`;
    for (const whole of [row.kind === 'code' && row.text ? `${timed} · ${row.text}` : timed, timed]) if (fit(whole, room) === whole) return whole;
    const short = fit(words, room);
    return short.length > 8 || short === words ? short : '';
  }

  const indexAt = (event) => {
    const {left, width} = box(),
      share = (event.clientX - left) / width,
      t = span[0] + share * (span[1] - span[0]);
    if (share < 0 || share > 1) return -1;
    const near = ((span[1] - span[0]) / width) * 2;
    // what is thinner than the pointer is found beside it
    let found = stretches.findIndex(({from, to}) => t >= from && t < to);
    const thin = stretches.findIndex(({from, to}) => to - from < near && Math.abs((from + to) / 2 - t) < near);
    if (thin >= 0) found = thin;
    return found;
  };
  function choose(i, extend) {
    const {from, to} = stretches[i],
      now = store.get().window;
    if (extend && now) store.set({window: [Math.min(now[0], from), Math.max(now[1], to)]}, 'account');
    else store.set({window: now && now[0] === from && now[1] === to ? null : [from, to]}, 'account');
  }
  function lines(i) {
    const one = stretches[i],
      row = parts[one.part],
      mine = stretches.filter(({part}) => part === one.part).length,
      beside = [];
    if (row.cpu_ns !== null) beside.push(`${formatTime(row.cpu_ns)} of CPU`);
    if (row.wait_ns) beside.push(`${formatTime(row.wait_ns)} waiting`);
    if (row.device_ns) beside.push(`${formatTime(row.device_ns)} with work on a device`);
    if (row.steps && row.kind !== 'steps' && row.kind !== 'outside-window') beside.push(`${formatCount(row.steps)} steps end here`);
    return [
      `${row.part}: ${formatTime(row.dur)} · ${formatShare(row.share)}`,
      row.text,
      mine > 1 ? `here ${stretchWords(row, one.steps)}, ${formatTime(one.to - one.from)}; ${formatCount(mine)} stretches in all` : '',
      row.steps > 1 && row.kind === 'steps' ? `${formatTime(row.dur / row.steps)} a step` : '',
      beside.join(' · '),
      'click: select this time · Shift+click: extend · double-click: zoom',
    ];
  }

  element.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    ctx.takeFocus();
    event.preventDefault();
  });
  element.addEventListener('click', (event) => {
    const i = indexAt(event);
    if (i >= 0 && event.detail < 2) choose(i, event.shiftKey);
  });
  element.addEventListener('dblclick', (event) => {
    const i = indexAt(event);
    if (i >= 0) zoomTo(i);
  });
  function zoomTo(i) {
    const {from, to} = stretches[i],
      margin = 0.02 * (to - from);
    ctx.setView(from - margin, to + margin);
  }
  element.addEventListener('pointermove', (event) => {
    const i = indexAt(event);
    if (i < 0) ctx.tooltip.hide();
    else ctx.tooltip.show(event, lines(i));
    canvas.style.cursor = i < 0 ? '' : 'pointer';
  });
  element.addEventListener('pointerleave', () => ctx.tooltip.hide());
  element.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
    if (by === undefined && event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    if (by !== undefined) cursor = Math.max(0, Math.min(stretches.length - 1, cursor < 0 ? 0 : cursor + by));
    if (cursor < 0) return;
    if (by === undefined || event.shiftKey) choose(cursor, event.shiftKey);
    draw();
    const {part, steps, from, to} = stretches[cursor];
    ctx.hint(`${stretchWords(parts[part], steps)}, ${formatTime(to - from)}`);
  });
  element.addEventListener('blur', () => {
    cursor = -1;
    draw();
  });
  const resize = new ResizeObserver(() => host.frames.paint(draw));
  resize.observe(element);

  let closed = false;
  ctx.asker.ask({t: 'account'}, () => !closed).then(
    (answer) => {
      if (!closed) arrived(answer);
    },
    (error) => {
      if (closed) return;
      element.hidden = true; // the other views tell where time went, too
      ctx.trouble(error);
    },
  );
  return {
    draw,
    close: () => {
      closed = true;
      resize.disconnect();
    },
    snapshot: () => ({
      shown: !element.hidden && recorded.length > 0,
      parts: parts.map(({part, kind}) => [kind, part]),
      stretches: stretches.length,
      labels,
    }),
    locate: (i) => {
      const {left, width, height} = box(),
        {from, to} = stretches[i] ?? {};
      if (from === undefined) return null;
      return {x: left + (((from + to) / 2 - span[0]) / (span[1] - span[0])) * width, y: element.getBoundingClientRect().top + height / 2};
    },
  };
}
